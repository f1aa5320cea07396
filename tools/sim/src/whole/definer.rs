//! Changes of definitions beside the sessions: tables come, are filled, renamed, truncated and
//! dropped; indexes are added, renamed and dropped while rows change.
//!
//! One thread changes all these tables, so that it knows what there must be. What a power cut
//! interrupts has happened as a whole, or not at all.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use holdfast::raw::{IndexSource, Lifetime, RawAlter, RawDatabase, RawOptions};
use holdfast::{Error, Isolation, Result};
use holdfast_base::{sim, thread};

use super::counters::Counters;
use super::definitions::{Definition, Tables, agree, entered, found};
use super::disk::ends_life;
use super::history::{Item, Txn, Version, Write};
use super::life::Life;
use super::metadata::Alone;
use super::places;
use super::plan::Dice;
use super::raw_rows::{ENTRY, RawRows, Subject};
use super::values::{GROUPS, table, value};

/// Whether the thread goes on.
pub(super) enum Next {
    On,
    Stop,
}

/// Changes definitions until the sessions have had their time, or the life is over.
///
/// # Errors
/// An answer of the engine that nothing explains.
pub(super) fn run(life: &Arc<Life>, seed: u64) -> anyhow::Result<()> {
    let mut definer = Definer { life: Arc::clone(life), dice: Dice::new(seed), named: 0 };
    for _ in 0..definer.dice.below(life.plan.transactions + 4) + 2 {
        if life.is_over() {
            break;
        }
        match definer.act() {
            Ok(Next::On) => sim::progress(),
            Ok(Next::Stop) => break,
            Err(error) => {
                definer.tolerate(error)?;
                // The table that was being filled did not come about.
                life.definitions.lock().forget_loading();
            }
        }
        let most = match life.plan.idle_micros {
            0 if definer.dice.percent(70) => 3_000,
            0 => 300_000,
            idle => idle,
        };
        thread::sleep(Duration::from_micros(definer.dice.below(most)));
    }
    Ok(())
}

pub(super) struct Definer {
    pub(super) life: Arc<Life>,
    pub(super) dice: Dice,
    /// Indexes that have got a name so far.
    named: u64,
}

impl Definer {
    /// Accepts what reading and filling may meet on a disk that fails.
    fn tolerate(&self, error: anyhow::Error) -> anyhow::Result<()> {
        match error.downcast_ref::<Error>() {
            Some(known) if ends_life(known) || self.life.is_over() => Ok(()),
            Some(Error::Io { .. } | Error::DiskFull(_)) if self.life.faulty.fired() > 0 => Ok(()),
            _ => Err(error.context("a change of definitions")),
        }
    }

    pub(super) fn tables(&self) -> Tables {
        self.life.definitions.lock().now.clone()
    }

    pub(super) fn wait(&mut self) -> Duration {
        Duration::from_millis(self.dice.one_of(&[0, 20, 1_000, 60_000]))
    }

    fn act(&mut self) -> anyhow::Result<Next> {
        let kind = self.dice.one_of(&["c", "x", "x"]);
        let (one, other) = (format!("{kind}{}", self.dice.below(3)), format!("{kind}{}", self.dice.below(3)));
        if !self.tables().contains_key(&one) && self.dice.percent(80) {
            return self.create(&one);
        }
        match self.dice.below(100) {
            0..10 => self.create(&one),
            10..17 => self.drop_table(&one),
            17..30 => self.truncate(&one),
            30..42 => self.rename(&one, &other),
            42..46 => self.set_options(&one),
            46..56 if kind == "x" => self.set_mark(&one),
            56..66 if kind == "x" => self.renew(&one),
            _ if kind == "x" => self.alter(&one),
            _ => self.truncate(&one),
        }
    }

    /// Makes a change after which there will be `then`. `refused`: what it says if it cannot be, as
    /// is known beforehand.
    pub(super) fn change(
        &self,
        then: Tables,
        refused: fn(&Error) -> bool,
        change: impl FnOnce(&RawDatabase) -> Result<()>,
    ) -> anyhow::Result<Next> {
        let life = &self.life;
        if life.db().stats().transactions.active > 0 {
            life.coverage.count("definitions: beside open transactions");
        }
        life.definitions.lock().then = Some(then.clone());
        let outcome = change(life.raw());
        let at = life.history.tick();
        match outcome {
            Ok(()) => self.made(then, at),
            Err(error) if ends_life(&error) || life.is_over() => return Ok(Next::Stop),
            Err(error) if refused(&error) => {
                life.coverage.count(match error {
                    Error::LockTimeout => "definitions: given up, the table is in use",
                    _ => "definitions: refused",
                });
                let mut definitions = life.definitions.lock();
                (definitions.then, definitions.loading) = (None, None);
                drop(definitions);
                return Ok(Next::On);
            }
            Err(Error::Io { .. } | Error::DiskFull(_)) if life.faulty.fired() > 0 => {
                return self.failed(&then).map(|()| Next::Stop);
            }
            Err(error) => bail!("a change of definitions: {error}"),
        }?;
        Ok(Next::On)
    }

    /// A change has failed for the disk. What came about is seen after the next restart; unless the
    /// database has stopped by then, it shows that already.
    fn failed(&self, then: &Tables) -> anyhow::Result<()> {
        let raw = self.life.raw();
        let shown = found(raw);
        if raw.flush_log().is_err() || self.life.is_over() {
            return Ok(());
        }
        self.life.coverage.count("definitions: failed for the disk");
        let mut definitions = self.life.definitions.lock();
        let is_one = agree(then, &shown) || agree(&definitions.now, &shown);
        ensure!(is_one, "behind a change that has failed there is {shown:?}, before it {:?}", definitions.now);
        definitions.shown = Some(shown);
        Ok(())
    }

    /// A change has returned: there must be `then`.
    fn made(&self, then: Tables, at: u64) -> anyhow::Result<()> {
        let found = found(self.life.raw());
        ensure!(agree(&then, &found), "the catalog has {found:?}\nwhere there must be {then:?}");
        let mut definitions = self.life.definitions.lock();
        let stays = |number: &usize| found.values().any(|definition| definition.number == Some(*number));
        let gone: Vec<usize> = definitions.numbers().filter(|number| !stays(number)).collect();
        definitions.gone.extend(gone.into_iter().map(|number| (number, at)));
        if let Some((name, txn)) = definitions.loading.take() {
            self.life.history.enter(entered(txn, found[&name].number.unwrap_or_default()));
        }
        (definitions.now, definitions.then) = (found, None);
        Ok(())
    }

    fn create(&mut self, name: &str) -> anyhow::Result<Next> {
        let mut then = self.tables();
        let exists = then.contains_key(name);
        let options = self.dice.any().to_le_bytes().to_vec();
        let typed = places::is_typed(name);
        let indexes: Vec<String> = Subject::ALL[..2].iter().map(|subject| subject.name().to_owned()).collect();
        let options = if typed { Vec::new() } else { options };
        then.insert(name.into(), Definition { number: None, options: options.clone(), indexes });
        if exists {
            then = self.tables();
        }
        let refused: fn(&Error) -> bool = |error| matches!(error, Error::TableExists(_));
        if !typed && self.dice.percent(40) {
            return self.load(name, exists, then, &options);
        }
        if !typed {
            self.life.coverage.count("definitions: create raw table");
            let indexes = Subject::ALL[..2].iter().map(|s| (s.name(), s.is_unique())).collect::<Vec<_>>();
            return self
                .expect(exists, then, refused, |raw| raw.create_table(name, &indexes, &options, Lifetime::Lasting));
        }
        if self.dice.percent(50) {
            self.life.coverage.count("definitions: create table");
            return self.expect(exists, then, refused, |raw| raw.database().create_table(&table(name)));
        }
        self.life.coverage.count("definitions: create table with rows");
        let rows = self.first_rows(name);
        self.expect(exists, then, refused, |raw| {
            raw.database().create_table_with(&table(name), |loader| {
                rows.iter().try_for_each(|(key, value)| loader.push(*key, value))
            })
        })
    }

    /// Makes a change that cannot be if it `is_refused`.
    pub(super) fn expect(
        &mut self,
        is_refused: bool,
        then: Tables,
        refused: fn(&Error) -> bool,
        change: impl FnOnce(&RawDatabase) -> Result<()>,
    ) -> anyhow::Result<Next> {
        let mut done = false;
        let next = self.change(then, refused, |raw| change(raw).inspect(|()| done = true))?;
        ensure!(!(done && is_refused), "a change of definitions was made that cannot be");
        Ok(next)
    }

    /// Rows with which a table begins, as changes of a transaction of their own.
    pub(super) fn first_rows(&mut self, name: &str) -> Vec<(u64, Vec<u8>)> {
        let mut txn = Txn::new(self.life.next_txn(), Isolation::RepeatableRead, true, self.life.history.tick());
        let mut rows = Vec::new();
        for key in 0..self.life.plan.keys {
            if self.dice.percent(50) {
                let version = Version::new(txn.number, key + 1);
                let most = if self.dice.percent(10) { 30_000 } else { 200 };
                let len = self.dice.below(most);
                rows.push((key, value(version, self.dice.below(GROUPS), key * 4, len as usize)));
                let at = self.life.history.tick();
                txn.writes.push(Write { item: Item { table: 0, key }, version, deletes: false, at });
            }
        }
        self.life.definitions.lock().loading = Some((name.to_owned(), txn));
        rows
    }

    /// Has a table alone, if that is how it is used.
    fn alone(&mut self, name: &str) -> Option<Option<Alone>> {
        if places::is_typed(name) {
            return Some(None);
        }
        let wait = self.wait();
        self.life.metadata.alone(name, wait).map(Some)
    }

    fn drop_table(&mut self, name: &str) -> anyhow::Result<Next> {
        let Some(_alone) = self.alone(name) else { return Ok(Next::On) };
        self.life.coverage.count("definitions: drop table");
        let (mut then, wait) = (self.tables(), self.wait());
        let missing = then.remove(name).is_none();
        let refused: fn(&Error) -> bool = |error| matches!(error, Error::TableNotFound(_) | Error::LockTimeout);
        self.expect(missing, then, refused, |raw| raw.drop_table(name, wait))
    }

    fn truncate(&mut self, name: &str) -> anyhow::Result<Next> {
        let Some(_alone) = self.alone(name) else { return Ok(Next::On) };
        self.life.coverage.count("definitions: truncate table");
        let (mut then, wait) = (self.tables(), self.wait());
        let missing = then.get_mut(name).map(|definition| definition.number = None).is_none();
        let refused: fn(&Error) -> bool = |error| matches!(error, Error::TableNotFound(_) | Error::LockTimeout);
        self.expect(missing, then, refused, |raw| raw.truncate_table(name, wait))
    }

    fn rename(&mut self, from: &str, to: &str) -> anyhow::Result<Next> {
        let Some(_alone) = self.alone(from) else { return Ok(Next::On) };
        let _other = if from == to { Some(None) } else { self.alone(to) };
        if _other.is_none() {
            return Ok(Next::On);
        }
        self.life.coverage.count("definitions: rename table");
        let mut then = self.tables();
        let refused = then.contains_key(to) || !then.contains_key(from);
        let options = self.dice.any().to_le_bytes();
        if let (Some(definition), false) = (then.remove(from), refused) {
            then.insert(to.into(), Definition { options: options.to_vec(), ..definition });
        } else {
            then = self.tables();
        }
        let may_refuse: fn(&Error) -> bool =
            |error| matches!(error, Error::TableNotFound(_) | Error::TableExists(_) | Error::LockTimeout);
        self.expect(refused, then, may_refuse, |raw| raw.rename_table(from, to, &[(to, &options)]))
    }

    fn set_options(&mut self, name: &str) -> anyhow::Result<Next> {
        self.life.coverage.count("definitions: set options");
        let (mut then, options) = (self.tables(), self.dice.any().to_le_bytes());
        let missing = then.get_mut(name).map(|definition| definition.options = options.to_vec()).is_none();
        let refused: fn(&Error) -> bool = |error| matches!(error, Error::TableNotFound(_));
        self.expect(missing, then, refused, |raw| raw.set_options(&[(name, &options)]))
    }

    /// Sets a counter of a table that no other thread uses.
    fn set_mark(&mut self, name: &str) -> anyhow::Result<Next> {
        let Some(_alone) = self.alone(name) else { return Ok(Next::On) };
        let Some(number) = self.tables().get(name).and_then(|table| table.number) else { return Ok(Next::On) };
        let life = Arc::clone(&self.life);
        let table = life.raw().open_table(name)?;
        Counters::set(&life.counters, number, &table, &mut self.dice, &life.coverage)?;
        Ok(Next::On)
    }

    /// Adds, drops, renames and reorders indexes of a table, which others use meanwhile.
    fn alter(&mut self, name: &str) -> anyhow::Result<Next> {
        let wait = self.wait();
        let Some(alone) = self.life.metadata.alone(name, wait) else { return Ok(Next::On) };
        let Some(definition) = self.tables().remove(name) else { return Ok(Next::On) };
        let add: Vec<(String, Subject)> = (0..self.dice.below(3)).map(|_| self.new_index(&definition)).collect();
        let names: Vec<(&str, bool)> = add.iter().map(|(name, subject)| (&**name, subject.is_unique())).collect();
        let beside_writers = self.dice.percent(80);
        let life = Arc::clone(&self.life);
        let mut alter = match life.raw().begin_alter(name, &names, beside_writers, wait) {
            Ok(alter) => alter,
            Err(Error::LockTimeout) => {
                life.coverage.count("definitions: given up, the table is in use");
                return Ok(Next::On);
            }
            Err(error) => return Err(error.into()),
        };
        let subjects: Vec<Subject> = add.iter().map(|(_, subject)| *subject).collect();
        let mut alone = Some(alone);
        if beside_writers {
            life.coverage.count("definitions: alter beside writers");
            alone.as_ref().inspect(|alone| alone.set_added(&subjects));
            alone = None;
        } else {
            life.coverage.count("definitions: alter");
        }
        if alone.is_none() {
            self.let_others_work();
        }
        let filled = self.fill(&mut alter, name, &subjects)?;
        if alone.is_none() {
            self.let_others_work();
            alone = life.metadata.alone(name, wait);
        }
        let Some(alone) = alone.filter(|_| filled && self.dice.percent(85)) else {
            life.coverage.count("definitions: alter given up");
            self.end(alter);
            return Ok(Next::On);
        };
        alone.set_added(&[]);
        self.complete(alter, name, definition, &add)
    }

    pub(super) fn let_others_work(&mut self) {
        let most = self.dice.one_of(&[1_000, 50_000, 500_000]).max(self.life.plan.idle_micros);
        thread::sleep(Duration::from_micros(self.dice.below(most)));
    }

    /// An index to be added; that which keeps tags apart comes back, if it has gone.
    fn new_index(&mut self, definition: &Definition) -> (String, Subject) {
        self.named += 1;
        let is_gone = !definition.indexes.iter().any(|index| index.starts_with(Subject::Tag.name()));
        let subject = match self.dice.below(100) {
            0..15 => Subject::OneOfGroup,
            _ if is_gone => Subject::Tag,
            _ => self.dice.one_of(&Subject::ALL[..3]),
        };
        (format!("{}_{}_{}", subject.name(), self.life.next_txn(), self.named), subject)
    }

    /// Fills the new indexes from one view; false if rows do not allow that.
    fn fill(&mut self, alter: &mut RawAlter, name: &str, subjects: &[Subject]) -> anyhow::Result<bool> {
        let raw = self.life.raw();
        let options = RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: true };
        let mut txn = raw.begin(&options)?;
        let rows = RawRows::open(raw, name, 0, &[])?.all(&mut txn)?;
        let (mut seen, mut pushed) = (Vec::new(), Ok(()));
        for (key, value) in &rows {
            for (no, subject) in (0..).zip(subjects) {
                let (entry, unique) = subject.entry(*key, value);
                pushed = pushed.and_then(|()| alter.push(no, &entry, unique, ENTRY));
                seen.push((no, entry[..unique].to_vec()));
            }
        }
        let finished = pushed.and_then(|()| alter.finish());
        let count = seen.len();
        seen.sort();
        seen.dedup();
        match finished {
            Ok(()) => Ok(true),
            Err(Error::DuplicateKey) => {
                ensure!(seen.len() < count, "an index that is being added has a duplicate that no two rows give");
                ensure!(alter.duplicate().is_some(), "a duplicate is not named");
                self.life.coverage.count("definitions: duplicate in a new index");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the table what it is to become, and compares its indexes with its rows.
    fn complete(
        &mut self,
        mut alter: RawAlter,
        name: &str,
        definition: Definition,
        add: &[(String, Subject)],
    ) -> anyhow::Result<Next> {
        let wait = self.wait();
        let mut sources: Vec<(IndexSource<'_>, String)> = Vec::new();
        let renamed: Vec<String> =
            definition.indexes.iter().map(|index| format!("{index}_{}", self.life.next_txn())).collect();
        for (no, (index, other)) in (1..).zip(definition.indexes.iter().zip(&renamed)) {
            match self.dice.below(10) {
                0..3 => self.life.coverage.count("definitions: drop index"),
                // A name is not to grow without end.
                3 if index.len() < 60 => sources.push((IndexSource::Renamed(no, other), other.clone())),
                _ => sources.push((IndexSource::Kept(no), index.clone())),
            }
        }
        for (no, (index, _)) in (0..).zip(add) {
            self.life.coverage.count("definitions: add index");
            let at = self.dice.below(sources.len() as u64 + 1) as usize;
            sources.insert(at, (IndexSource::Added(no), index.clone()));
        }
        let options = self.dice.any().to_le_bytes().to_vec();
        let (sources, indexes): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
        let number = self.tables().get(name).and_then(|now| now.number);
        let mut then = self.tables();
        then.insert(name.into(), Definition { number, options: options.clone(), indexes });
        alter.become_table(&sources, &options)?;
        let refused: fn(&Error) -> bool = |error| matches!(error, Error::LockTimeout | Error::DuplicateKey);
        let mut duplicate = false;
        let next = self.change(then, refused, |raw| {
            let result = raw.commit_alters(&mut [&mut alter], &[], wait);
            duplicate = matches!(result, Err(Error::DuplicateKey));
            result
        })?;
        if duplicate {
            self.life.coverage.count("definitions: duplicate in a new index");
            ensure!(alter.duplicate().is_some(), "a duplicate is not named");
        }
        self.end(alter);
        if matches!(next, Next::On) {
            self.compare(name, if duplicate { add } else { &[] })?;
        }
        Ok(next)
    }

    /// Ends a change of indexes; what it leaves may be freed behind that.
    fn end(&mut self, alter: RawAlter) {
        if self.dice.percent(50) {
            self.life.coverage.count("definitions: alter freed in the background");
            alter.end_in_background();
        }
    }

    /// Compares the indexes of a table that no other session uses with its rows, two of which agree
    /// in what one of `refused` is about.
    fn compare(&self, name: &str, refused: &[(String, Subject)]) -> anyhow::Result<()> {
        let raw = self.life.raw();
        let options = RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: true };
        let rows = RawRows::open(raw, name, 0, &[])?.compare(&mut raw.begin(&options)?).context("after a change")?;
        let agree = |subject: Subject| {
            let mut parts: Vec<_> =
                rows.iter().map(|(key, value)| subject.entry(*key, value).0[..8].to_vec()).collect();
            parts.sort();
            subject.is_unique() && parts.windows(2).any(|pair| pair[0] == pair[1])
        };
        ensure!(
            refused.is_empty() || refused.iter().any(|(_, subject)| agree(*subject)),
            "an index was refused for a duplicate that no two rows give"
        );
        Ok(())
    }
}
