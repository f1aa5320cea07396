//! A table that grows by more than a backup copies at a time, whenever the backup says how far it
//! is: the copy of its file ends all the same.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use holdfast::{Database, Error, Result, TableDefinition};
use holdfast_io::{Disk, FileKind, OpenOptions};
use holdfast_testkit::CrashDisk;

use super::life::Life;
use super::tall::explain;

type Values = TableDefinition<u64, &'static [u8]>;

/// Begins with what [`super::temporary::drop_left`] drops.
const NAME: &str = "z growing";

/// More than is copied at a time.
const BYTES: usize = 150_000;

/// Once the copy of its file is begun, the table grows so many times at most.
const TIMES: u64 = 5;

/// See the module.
pub(super) struct Growing {
    db: Database,
    file: String,
    disk: CrashDisk,
    copy: CrashDisk,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    times: u64,
    /// Where the copy of the file ends at most.
    end: u64,
    error: Option<Error>,
}

impl Growing {
    /// Makes the table, unless it is there; none if the disk does not have it.
    ///
    /// # Errors
    /// An answer of the engine that nothing explains.
    pub fn begin(life: &Life, copy: &CrashDisk) -> anyhow::Result<Option<Growing>> {
        let db = life.db().clone();
        explain(life, db.create_table(&Values::named(NAME)).and_then(|()| grow(&db, 0)))?;
        let file = db.list_tables().into_iter().find(|table| table.name == NAME).map(|table| table.file);
        let (disk, copy) = (life.disk.clone(), copy.clone());
        Ok(file.map(|file| Growing { db, file, disk, copy, state: Mutex::default() }))
    }

    /// The backup says how far it is.
    pub fn goes_on(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_begun = len(&self.copy, &self.file).is_ok_and(|copied| copied > 0);
        if !is_begun || state.times == TIMES || state.error.is_some() {
            return;
        }
        state.times += 1;
        state.error = grow(&self.db, state.times).err();
        if state.times == 1 {
            // Behind the first piece the backup looks for the end.
            state.end = len(&self.disk, &self.file).unwrap_or(u64::MAX);
        }
    }

    /// Checks the file of a backup that is complete.
    ///
    /// # Errors
    /// If it has more than was there when its copy was begun; an answer of the engine that nothing
    /// explains.
    pub fn check(&self, life: &Life) -> anyhow::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        explain(life, state.error.take().map_or(Ok(()), Err))?;
        if state.times == 0 || self.copy.is_dead() {
            return Ok(());
        }
        life.coverage.count("backup: beside a table that grows");
        let copied = len(&self.copy, &self.file).context("the file in the backup")?;
        ensure!(copied <= state.end, "a backup has copied {copied} bytes of a file that had {} then", state.end);
        Ok(())
    }
}

fn grow(db: &Database, row: u64) -> Result<()> {
    let value = vec![7u8; BYTES];
    db.transact(|txn| txn.open_table(&Values::named(NAME))?.upsert(row, &value).map(drop))
}

fn len(disk: &CrashDisk, file: &str) -> Result<u64> {
    disk.open(file, OpenOptions::new(FileKind::Data).read_only(true))?.len()
}
