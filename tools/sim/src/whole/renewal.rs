//! Tables that are made anew and take their own places, as a database server does it for OPTIMIZE
//! TABLE.
//!
//! The new table has the rows of the old one, each in a version of its own: they are those of a
//! transaction that the end of the change commits. It has another number in the catalog, so in a
//! history it is another table. What a power cut interrupts leaves the old one, or the new one.

use std::sync::Arc;

use holdfast::raw::RawLoad;
use holdfast::{Error, Isolation};

use super::definer::{Definer, Next};
use super::definitions::Definition;
use super::history::{Item, Txn, Version, Write};
use super::places;
use super::raw_rows::{ENTRY, RawRows};
use super::values::{number_at, tag_of, value};

/// Bytes of a value before those that follow from its version.
const HEAD: usize = 24;

impl Definer {
    /// Makes table `name` anew, which no other session uses.
    ///
    /// # Errors
    /// An answer of the engine that nothing explains.
    pub(super) fn renew(&mut self, name: &str) -> anyhow::Result<Next> {
        let (wait, life) = (self.wait(), Arc::clone(&self.life));
        let Some(_alone) = life.metadata.alone(name, wait) else { return Ok(Next::On) };
        let Some(definition) = self.tables().remove(name) else { return Ok(Next::On) };
        let old = RawRows::open(life.raw(), name, 0, &[])?;
        let mut load = match RawLoad::anew(&old.table, wait) {
            Ok(load) => load,
            Err(Error::LockTimeout) => {
                life.coverage.count("definitions: given up, the table is in use");
                return Ok(Next::On);
            }
            Err(error) => return Err(error.into()),
        };
        let rows = self.renewed(name)?;
        for (key, value) in &rows {
            load.push(0, &key.to_be_bytes(), 8, &value[..])?;
            for (no, entry, unique) in old.entries(*key, value) {
                load.push(no, &entry, unique, ENTRY)?;
            }
        }
        self.let_others_work();
        load.finish()?;
        if self.dice.percent(20) {
            life.coverage.count("definitions: table made anew and given up");
            life.definitions.lock().forget_loading();
            return Ok(Next::On);
        }
        life.coverage.count("definitions: table made anew");
        let options = self.dice.any().to_le_bytes();
        let mut then = self.tables();
        then.insert(name.into(), Definition { number: None, options: options.to_vec(), ..definition.clone() });
        let next = self.change(then, |_| false, |raw| raw.replace_by(&mut [&mut load], &[&options]))?;
        // Also behind a change that has failed: others may use the new table, and a crash may
        // leave it.
        let number = places::changing(life.db()).get(name).copied();
        if let Some((old, new)) = definition.number.zip(number) {
            life.counters.lock().go_on(old, new);
        }
        if matches!(next, Next::On) {
            self.compare_copy(name, &rows)?;
        }
        Ok(next)
    }

    /// The rows of a table in versions of a transaction of their own. No transaction changes the
    /// table meanwhile.
    fn renewed(&mut self, name: &str) -> anyhow::Result<Vec<(u64, Vec<u8>)>> {
        let life = Arc::clone(&self.life);
        let mut txn = Txn::new(life.next_txn(), Isolation::RepeatableRead, true, life.history.tick());
        let mut rows = self.rows_of(name)?;
        for (n, (key, row)) in (1..).zip(&mut rows) {
            let (version, item) = (Version::new(txn.number, n), Item { table: 0, key: *key });
            *row = value(version, number_at(row, 8), tag_of(row), row.len() - HEAD);
            txn.writes.push(Write { item, version, deletes: false, at: life.history.tick() });
        }
        life.definitions.lock().loading = Some((name.to_owned(), txn));
        Ok(rows)
    }
}
