//! What each statement saw, as places in the order of versions, and what is wrong with that by
//! itself.
//!
//! A row that was shown names its version. A row that a condition left out does not: it was seen in
//! a version that does not satisfy the condition, and in one that could be seen at that moment
//! ([`View`]). From these candidates follow the dependencies that hold for each of them.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::history::{Column, Does, End, History, Key, Number, Range, Row, Statement, Token, Txn};
use super::level::{Anomaly, Level};
use super::versions::{Version, Versions};

/// That a transaction saw a row in a version, or in one of several.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// The statement.
    pub token: Token,
    pub key: Key,
    pub locking: bool,
    /// A condition left the row out, which could have shown others as well.
    pub predicate: bool,
    /// The writer of what was seen; 0 if that was there before.
    pub from: Number,
    /// The writer of the next version.
    pub to: Option<Number>,
}

/// When what a statement sees was the newest: from some moment on, at some moment at the latest.
#[derive(Clone, Copy)]
struct View {
    from: u64,
    to: u64,
}

/// Looks at all statements.
pub struct Observer<'a> {
    history: &'a History,
    versions: &'a Versions,
    ends: BTreeMap<Number, End>,
    pub sights: BTreeMap<Number, Vec<Sight>>,
    pub findings: Vec<Finding>,
}

/// A statement under the eyes of the observer.
struct Looked<'a> {
    txn: &'a Txn,
    statement: &'a Statement,
    range: Range,
    locking: bool,
    view: View,
    /// A write of this transaction came before that is not in the end: what it hides is not known.
    unsure: bool,
}

impl<'a> Observer<'a> {
    pub fn new(history: &'a History, versions: &'a Versions) -> Observer<'a> {
        let ends = history.txns.iter().map(|txn| (txn.number, txn.end)).collect();
        let mut observer = Observer { history, versions, ends, sights: BTreeMap::new(), findings: Vec::new() };
        for txn in &history.txns {
            for statement in &txn.statements {
                observer.look(txn, statement);
            }
        }
        observer
    }

    fn look(&mut self, txn: &'a Txn, statement: &'a Statement) {
        let (range, locking) = match &statement.does {
            Does::Read { range, locking, .. } => (*range, *locking || txn.level == Level::Serializable && txn.long),
            Does::Delete { range, .. } | Does::Update { range, .. } => (*range, true),
            Does::Put => return,
        };
        let unsure = txn.statements.iter().any(|earlier| {
            let writes = earlier.token < statement.token && !matches!(earlier.does, Does::Read { .. });
            writes && (txn.end == End::Aborted || earlier.undone.is_some_and(|at| at > statement.from))
        });
        let looked = Looked { txn, statement, range, locking, view: view(txn, statement, locking), unsure };
        match &statement.does {
            Does::Read { rows, .. } | Does::Delete { rows, .. } => self.look_at_rows(&looked, rows),
            Does::Update { .. } => self.look_at_changed(&looked),
            Does::Put => {}
        }
    }

    fn find(&mut self, looked: &Looked<'_>, anomaly: Anomaly, text: String, other: Option<Token>) {
        let mut txns = BTreeSet::from([looked.txn.number]);
        txns.extend(other.map(Token::txn));
        let text = format!("{}: {text}", looked.statement.token);
        self.findings.push(Finding { anomaly, level: looked.txn.level, text, txns });
    }

    fn look_at_rows(&mut self, looked: &Looked<'_>, rows: &[Row]) {
        let mut shown = BTreeSet::new();
        for row in rows {
            if !shown.insert(row.key) {
                self.find(looked, Anomaly::RowTwice, format!("the row {} is shown twice", row.key), None);
            }
            self.look_at_row(looked, row);
        }
        self.look_at_absent(looked, &shown);
    }

    fn look_at_row(&mut self, looked: &Looked<'_>, row: &Row) {
        let (key, token) = (row.key, row.last.token);
        let own = token.txn() == looked.txn.number;
        if !looked.range.holds(key, Some(row.last.state)) {
            let text = format!("the row {key} is shown as {:?}, which is not what was asked for", row.last.state);
            self.find(looked, Anomaly::TornRow, text, Some(token));
        }
        if own && looked.unsure {
            return;
        }
        let Some(place) = self.versions.place(key, token) else {
            let text = format!("the row {key} is shown as {token} left it, which was rolled back");
            return self.find(looked, Anomaly::G1a, text, Some(token));
        };
        self.compare(looked, row, place);
        match self.own_place(looked, key) {
            Some(mine) if mine != place => {
                let mine = self.versions.chains[&key][mine].token;
                let text = format!("the row {key} is shown as {token} left it, after the own write {mine}");
                self.find(looked, Anomaly::OwnWrite, text, Some(token));
            }
            Some(_) => {}
            None if !own => self.see(looked, key, place),
            None => {
                let text = format!("the row {key} is shown as {token} leaves it later");
                self.find(looked, Anomaly::OwnWrite, text, None);
            }
        }
    }

    /// The row is as the version in the chain.
    fn compare(&mut self, looked: &Looked<'_>, row: &Row, place: usize) {
        let chain = &self.versions.chains[&row.key];
        let mut torn = chain[place].state != Some(row.last.state);
        if let Some(trail) = &row.trail {
            let begin = (place + 1).checked_sub(trail.len());
            let same = |(step, version): (&super::history::Step, &Version)| {
                step.token == version.token && Some(step.state) == version.state
            };
            torn |= begin.is_none_or(|begin| !trail.iter().zip(&chain[begin..=place]).all(same));
        }
        if torn {
            let text = format!("the row {} is shown as {:?}, its version is {:?}", row.key, row, chain[place]);
            self.find(looked, Anomaly::TornRow, text, Some(row.last.token));
        }
    }

    /// A version of another transaction was seen.
    fn see(&mut self, looked: &Looked<'_>, key: Key, place: usize) {
        let version = self.versions.chains[&key][place];
        if !self.versions.is_last_of_writer(key, place) {
            let text = format!("the row {key} is shown as {} left it, whose writer replaced it", version.token);
            self.find(looked, Anomaly::G1b, text, Some(version.token));
        }
        let (oldest, newest) = self.visible(looked, key);
        if place > newest {
            let text = format!("the row {key} is shown as {} left it, before that committed", version.token);
            self.find(looked, Anomaly::DirtyRead, text, Some(version.token));
        }
        if place < oldest {
            let newer = self.versions.chains[&key][oldest].token;
            let text = format!("the row {key} is shown as {} left it, long after {newer} committed", version.token);
            self.find(looked, Anomaly::StaleRead, text, Some(newer));
        }
        let to = self.versions.next_writer(key, place);
        self.enter(looked, key, false, version.writer(), to);
    }

    fn enter(&mut self, looked: &Looked<'_>, key: Key, predicate: bool, from: Number, to: Option<Number>) {
        if looked.statement.undone.is_some() && looked.txn.begun_anew.is_some() {
            return;
        }
        let (token, locking) = (looked.statement.token, looked.locking);
        let sight = Sight { token, key, locking, predicate, from, to };
        self.sights.entry(looked.txn.number).or_default().push(sight);
    }

    /// Places of the oldest and of the newest version that the statement can have seen.
    fn visible(&self, looked: &Looked<'_>, key: Key) -> (usize, usize) {
        let chain = &self.versions.chains[&key];
        let committed = |version: &Version| match self.ends.get(&version.writer()) {
            None => Some((0, 0)),
            Some(_) if version.writer() == looked.txn.number => None,
            Some(End::Committed { from, to }) => Some((*from, *to)),
            Some(End::Aborted) => None,
        };
        let last = |sees: &dyn Fn((u64, u64)) -> bool| {
            chain.iter().rposition(|version| committed(version).is_some_and(sees)).unwrap_or(0)
        };
        (last(&|(_, to)| to < looked.view.from), last(&|(from, _)| from < looked.view.to))
    }

    /// The place of the transaction's last version of the row that the statement must show.
    fn own_place(&self, looked: &Looked<'_>, key: Key) -> Option<usize> {
        let mine = |v: &Version| v.writer() == looked.txn.number && v.token < looked.statement.token;
        self.versions.chains.get(&key)?.iter().rposition(mine)
    }

    /// The rows that the statement did not show.
    fn look_at_absent(&mut self, looked: &Looked<'_>, shown: &BTreeSet<Key>) {
        if looked.unsure {
            return;
        }
        let absent: Vec<Key> = self.history.before.keys().filter(|key| !shown.contains(key)).copied().collect();
        for key in absent {
            let chain = &self.versions.chains[&key];
            if let Some(mine) = self.own_place(looked, key) {
                if looked.range.holds(key, chain[mine].state) {
                    let text = format!("the row {key} is missing after the own write {}", chain[mine].token);
                    self.find(looked, Anomaly::OwnWrite, text, None);
                }
                continue;
            }
            self.look_at_one_absent(looked, key);
        }
    }

    fn look_at_one_absent(&mut self, looked: &Looked<'_>, key: Key) {
        let chain = &self.versions.chains[&key];
        let (oldest, newest) = self.visible(looked, key);
        let holds = |place: usize| looked.range.holds(key, chain[place].state);
        let by_row = looked.locking && !looked.txn.level.locks_ranges() && looked.range.column != Column::Id;
        let left: Vec<usize> = (oldest..=newest).filter(|place| self.versions.is_last_of_writer(key, *place)).collect();
        // The row has moved within the range.
        let passed = by_row && left.windows(2).any(|pair| holds(pair[0]) && holds(pair[1]));
        let can_be = |place: &usize| !holds(*place) && self.versions.is_last_of_writer(key, *place);
        let (Some(first), Some(last)) = ((oldest..=newest).find(can_be), (oldest..=newest).rev().find(can_be)) else {
            let text = format!("the row {key} is missing; it is {:?} to {:?}", chain[oldest], chain[newest]);
            let anomaly = if passed { Anomaly::RowPassed } else { Anomaly::RowMissing };
            return self.find(looked, anomaly, text, Some(chain[newest].token));
        };
        if passed {
            // It may have been passed over, so that no version was seen at all.
            return;
        }
        // The latest transaction after which the row does not satisfy the condition, and the
        // earliest after which it does.
        let hider = (1..=first).rev().find(|place| holds(place - 1));
        let from = hider.map_or(0, |place| chain[place].writer());
        let to = (last + 1..chain.len()).find(|place| holds(*place) && self.versions.is_last_of_writer(key, *place));
        let to = to.map(|place| chain[place].writer()).filter(|writer| *writer != chain[last].writer());
        self.enter(looked, key, !looked.range.is_item(), from, to);
    }

    /// The rows that an UPDATE found: those that it wrote.
    fn look_at_changed(&mut self, looked: &Looked<'_>) {
        let statement = looked.statement;
        if looked.txn.end == End::Aborted || statement.undone.is_some() {
            return;
        }
        let versions = self.versions;
        let mut found = BTreeSet::new();
        for (key, chain) in &versions.chains {
            let Some(place) = versions.place(*key, statement.token) else { continue };
            found.insert(*key);
            let before = place.checked_sub(1).map(|before| chain[before]);
            if !before.is_some_and(|before| looked.range.holds(*key, before.state)) {
                let text = format!("the row {key} was changed, which was {before:?}");
                self.find(looked, Anomaly::TornRow, text, before.map(|v| v.token));
            }
        }
        self.look_at_absent(looked, &found);
    }
}

/// When what the statement sees is the newest.
fn view(txn: &Txn, statement: &Statement, locking: bool) -> View {
    let of_statement = View { from: statement.from, to: statement.to };
    if locking || !txn.level.has_snapshot() {
        return of_statement;
    }
    let plain = |s: &&Statement| matches!(s.does, Does::Read { locking: false, .. });
    // What lasted only until the transaction began anew is of another view than what came later.
    let same_view = |s: &&Statement| txn.begun_anew.is_none() || s.undone.is_some() == statement.undone.is_some();
    let mut statements = txn.statements.iter().filter(same_view);
    let first = statements.clone().next().map(|s| s.from);
    let first_plain = statements.find(plain).map(|s| (s.from, s.to));
    let (from, to) = txn.snapshot.or(first_plain).unwrap_or((statement.from, statement.to));
    // With snapshot isolation a change that finds nothing takes the view.
    View { from: if txn.level == Level::Snapshot { from.min(first.unwrap_or(from)) } else { from }, to }
}
