//! What the threads of a life share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use holdfast::Database;
use holdfast::raw::RawDatabase;
use holdfast_base::blocking;
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::copies::Copy;
use super::counters::Counters;
use super::definitions::Definitions;
use super::history::{Coverage, History, Txn};
use super::metadata::Metadata;
use super::plan::{Damage, Plan};
use super::struck::Struck;

/// What the threads of a life share.
pub(super) struct Life {
    pub plan: Plan,
    pub history: History,
    pub coverage: Arc<Coverage>,
    pub disk: CrashDisk,
    pub faulty: FaultDisk,
    /// The moment from which on a disk that was full has room again; 0: it was never full, or is.
    pub room: AtomicU64,
    /// Backups that were begun.
    pub copies: Mutex<Vec<Copy>>,
    /// Prepared transactions that no session has, by their numbers.
    pub left: blocking::Mutex<BTreeMap<u64, Txn>>,
    pub definitions: blocking::Mutex<Definitions>,
    pub counters: blocking::Mutex<Counters>,
    pub metadata: Arc<Metadata>,
    /// Tables that were damaged.
    pub struck: Struck,
    /// True if it is the last life.
    pub is_last: bool,
    pub(super) db: OnceLock<RawDatabase>,
    pub(super) next_txn: Arc<AtomicU64>,
    pub(super) wrong: Mutex<Option<anyhow::Error>>,
}

impl Life {
    pub fn db(&self) -> &Database {
        self.raw().database()
    }

    pub fn raw(&self) -> &RawDatabase {
        self.db.get().expect("a life begins with an open database")
    }

    pub fn next_txn(&self) -> u64 {
        self.next_txn.fetch_add(1, Ordering::Relaxed)
    }

    /// True if the power is off, or something wrong was found.
    pub fn is_over(&self) -> bool {
        self.disk.is_dead() || self.wrong().is_some()
    }

    pub(super) fn wrong(&self) -> std::sync::MutexGuard<'_, Option<anyhow::Error>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if pages of tables are damaged in this life.
    pub fn damages(&self) -> bool {
        self.is_last && self.plan.damage != Damage::None
    }

    /// There is room on the disk from now on.
    pub fn has_room(&self) {
        self.room.store(self.history.tick(), Ordering::Relaxed);
    }

    /// Keeps a backup to look at after the life.
    pub fn keep_copy(&self, copy: Copy) {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
    }

    /// Keeps the first thing that was wrong.
    pub fn keep(&self, outcome: anyhow::Result<()>) {
        if let Err(error) = outcome {
            self.wrong().get_or_insert(error);
        }
    }
}
