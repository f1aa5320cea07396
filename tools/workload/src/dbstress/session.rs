//! The statements of dbSTRESS and the session that runs them, over any store of rows.
//!
//! | statement | effect |
//! |---|---|
//! | SEL1 | an OBJECT by REF, joined with its SECTION and its ZONE: one row |
//! | SEL2 | the HISTORY of an OBJECT, joined with STAT, by HORDER: 20 rows |
//! | UPDATE | one HISTORY row: stat, dates, note; no index and no length changes |
//! | DELETE, INSERT | one HISTORY row, and the same pair (REF_OBJECT, HORDER) again |
//!
//! A READ is SEL1 and SEL2 in one transaction. After every `rw_ratio` READs comes a WRITE, a
//! transaction of UPDATEs and of pairs of DELETE and INSERT. The session calls its caller after
//! every statement, so that the caller can measure the time.

use crate::rng::Rng;
use crate::{Failure, Result, Rows, Scan};

use super::tables::{HistoryRow, Schemas, Table, history_key, reference, row_id};
use super::{HISTORY_PER_OBJECT, Options, STATS};

/// The statement that a session has just completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// BEGIN or COMMIT.
    Bracket,
    /// SEL1.
    Select1,
    /// SEL2.
    Select2,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// INSERT.
    Insert,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    options: Options,
    number: u32,
    rng: Rng,
    schemas: Schemas,
    reads: u64,
    next_row_id: u64,
    row: Vec<u8>,
    /// The rows of SEL2 before they are joined.
    history: Vec<Vec<u8>>,
    encoded: Vec<u8>,
    checksum: u32,
}

/// The most repeats of one transaction after conflicts.
const RETRIES_MAX: u32 = 10_000;
/// The first hidden row id of inserted rows: above all that are loaded, a range for each session.
const ROW_IDS: u64 = 1 << 40;

impl Session {
    /// Creates session `number` of the run with seed `seed`.
    #[must_use]
    pub fn new(options: Options, number: u32, seed: u64) -> Session {
        Session {
            options,
            number,
            rng: Rng::for_part(seed, u64::from(number) + 1),
            schemas: Schemas::new(options.hpk),
            reads: 0,
            next_row_id: ROW_IDS * (u64::from(number) + 1),
            row: Vec::new(),
            history: Vec::new(),
            encoded: Vec::new(),
            checksum: 0,
        }
    }

    /// Checksum of everything that the SELECTs returned.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Runs the next transaction, a READ or a WRITE, and calls `done` after each of its statements.
    /// A transaction that meets a conflict is rolled back and repeated.
    ///
    /// # Errors
    /// The errors of the store.
    pub fn event(&mut self, rows: &mut dyn Rows, done: &mut dyn FnMut(Statement)) -> Result<()> {
        let ratio = u64::from(self.options.rw_ratio);
        // READs and WRITEs alternate as `ratio` to 1.
        let write = ratio > 0 && self.reads % (ratio + 1) == ratio;
        self.reads += 1;
        for _ in 0..RETRIES_MAX {
            let at_start = self.rng.clone();
            let result = if write { self.write(rows, done) } else { self.read(rows, done) };
            match result {
                Err(Failure::Retry(_)) => {
                    rows.rollback()?;
                    self.rng = at_start;
                }
                Err(failure) => {
                    // The first failure is reported; a rollback after it can only repeat it.
                    let _ = rows.rollback();
                    return Err(failure);
                }
                Ok(()) => return Ok(()),
            }
        }
        Err(Failure::fatal(format_args!("a transaction met {RETRIES_MAX} conflicts")))
    }

    fn object(&mut self) -> u32 {
        let Options { objects, sessions, .. } = self.options;
        self.options.anti_dead.draw(&mut self.rng, objects, self.number, sessions)
    }

    /// The OBJECT of the next statement: that of the transaction, or another one.
    fn object_of(&mut self, transaction: u32) -> u32 {
        if self.options.same_ref { transaction } else { self.object() }
    }

    fn read(&mut self, rows: &mut dyn Rows, done: &mut dyn FnMut(Statement)) -> Result<()> {
        rows.begin(true)?;
        done(Statement::Bracket);
        let object = self.object();
        self.select1(rows, object)?;
        done(Statement::Select1);
        let object = self.object_of(object);
        self.select2(rows, object)?;
        done(Statement::Select2);
        rows.commit()?;
        done(Statement::Bracket);
        Ok(())
    }

    fn write(&mut self, rows: &mut dyn Rows, done: &mut dyn FnMut(Statement)) -> Result<()> {
        rows.begin(false)?;
        done(Statement::Bracket);
        let mut object = self.object();
        for _ in 0..self.options.updates {
            object = self.object_of(object);
            self.update(rows, object)?;
            done(Statement::Update);
        }
        for _ in 0..self.options.delete_inserts {
            object = self.object_of(object);
            let row = self.new_row(object);
            self.delete(rows, &row)?;
            done(Statement::Delete);
            self.insert(rows, &row)?;
            done(Statement::Insert);
        }
        rows.commit()?;
        done(Statement::Bracket);
        Ok(())
    }

    fn returned(&mut self, bytes: &[u8]) {
        self.checksum = holdfast_base::checksum_append(self.checksum, bytes);
    }

    fn must_get(&mut self, rows: &mut dyn Rows, table: Table, key: &[u8]) -> Result<()> {
        match rows.get(table.number(), key, &mut self.row)? {
            true => Ok(()),
            false => Err(missing(table, key)),
        }
    }

    fn select1(&mut self, rows: &mut dyn Rows, object: u32) -> Result<()> {
        self.must_get(rows, Table::Object, &reference(object, 10))?;
        let read = self.schemas.object.read(&self.row);
        let section = read.text(0)?.to_vec();
        let columns = [read.text(1)?, read.text(2)?, read.text(3)?].concat();
        self.returned(&columns);
        self.must_get(rows, Table::Section, &section)?;
        let read = self.schemas.section.read(&self.row);
        let (zone, name) = (read.text(0)?.to_vec(), read.text(1)?.to_vec());
        self.returned(&name);
        self.must_get(rows, Table::Zone, &zone)?;
        let name = self.schemas.zone.read(&self.row).text(0)?.to_vec();
        self.returned(&name);
        Ok(())
    }

    fn select2(&mut self, rows: &mut dyn Rows, object: u32) -> Result<()> {
        let (from, to) = (history_key(object, 0), history_key(object, u32::MAX));
        let mut found = std::mem::take(&mut self.history);
        found.clear();
        if self.options.hpk {
            rows.range(Table::History.number(), Some(&from), Some(&to), Scan::Undeclared, &mut |_, row| {
                found.push(row.to_vec());
                Ok(true)
            })?;
        } else {
            let mut ids = Vec::with_capacity(HISTORY_PER_OBJECT as usize);
            rows.range(Table::HistoryIndex.number(), Some(&from), Some(&to), Scan::Undeclared, &mut |key, _| {
                ids.push(row_id(key)?);
                Ok(true)
            })?;
            for id in ids {
                self.must_get(rows, Table::History, &id)?;
                found.push(self.row.clone());
            }
        }
        if found.len() != HISTORY_PER_OBJECT as usize {
            return Err(Failure::fatal(format_args!("object {object} has {} rows of HISTORY", found.len())));
        }
        for row in &found {
            let stat = self.schemas.history.read(row).text(0)?.to_vec();
            self.returned(row);
            self.must_get(rows, Table::Stat, &stat)?;
            let name = self.schemas.stat.read(&self.row).text(0)?.to_vec();
            self.returned(&name);
        }
        self.history = found;
        Ok(())
    }

    fn new_row(&mut self, object: u32) -> HistoryRow {
        let horder = self.rng.below(u64::from(HISTORY_PER_OBJECT)) as u32;
        let (stat, date) = (self.rng.below(u64::from(STATS)) as u32, self.rng.below(100) as u32);
        HistoryRow { object, horder, stat, date }
    }

    fn update(&mut self, rows: &mut dyn Rows, object: u32) -> Result<()> {
        let new = self.new_row(object);
        let key = self.key_of(rows, &new)?;
        if !rows.get_for_update(Table::History.number(), &key, &mut self.row)? {
            return Err(missing(Table::History, &key));
        }
        new.encode(&self.schemas, self.options.hpk, &mut self.encoded);
        rows.put(Table::History.number(), &key, &self.encoded)
    }

    fn delete(&mut self, rows: &mut dyn Rows, row: &HistoryRow) -> Result<()> {
        let key = self.key_of(rows, row)?;
        if !rows.delete(Table::History.number(), &key)? {
            return Err(missing(Table::History, &key));
        }
        if !self.options.hpk {
            let entry = [&history_key(row.object, row.horder)[..], &key].concat();
            rows.delete(Table::HistoryIndex.number(), &entry)?;
        }
        Ok(())
    }

    fn insert(&mut self, rows: &mut dyn Rows, row: &HistoryRow) -> Result<()> {
        row.encode(&self.schemas, self.options.hpk, &mut self.encoded);
        let pair = history_key(row.object, row.horder);
        if self.options.hpk {
            return rows.put(Table::History.number(), &pair, &self.encoded);
        }
        let id = self.next_row_id.to_be_bytes();
        self.next_row_id += 1;
        rows.put(Table::History.number(), &id, &self.encoded)?;
        rows.put(Table::HistoryIndex.number(), &[&pair[..], &id].concat(), &[])
    }

    /// The clustered key of the row of a pair (REF_OBJECT, HORDER).
    fn key_of(&mut self, rows: &mut dyn Rows, row: &HistoryRow) -> Result<Vec<u8>> {
        let pair = history_key(row.object, row.horder);
        if self.options.hpk {
            return Ok(pair);
        }
        let (from, to) = ([&pair[..], &[0; 8]].concat(), [&pair[..], &[0xff; 8]].concat());
        let mut id = None;
        rows.range(Table::HistoryIndex.number(), Some(&from), Some(&to), Scan::Undeclared, &mut |key, _| {
            id = Some(row_id(key)?.to_vec());
            Ok(false)
        })?;
        id.ok_or_else(|| missing(Table::HistoryIndex, &pair))
    }
}

fn missing(table: Table, key: &[u8]) -> Failure {
    Failure::fatal(format_args!("{table:?} has no row {:?}", String::from_utf8_lossy(key)))
}
