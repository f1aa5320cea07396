//! What INFORMATION_SCHEMA and the monitor show of the locks.

use std::fmt;

use holdfast_base::{IndexId, TxnId};

use super::owner::{Owner, Serial, Target};
use super::queue::Queue;
use super::{KeyRange, LockManager};

/// What is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// One key.
    Row(Box<[u8]>),
    /// Inserts into a range.
    Range(KeyRange),
    /// The keys of the index that nobody else has locked.
    Table,
}

/// One explicit lock, held or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// Who.
    pub owner: Serial,
    /// Its transaction id, if it has one.
    pub txn: TxnId,
    /// Where.
    pub index: IndexId,
    /// What.
    pub kind: LockKind,
    /// "S", "X", "IS", "IX", or "GAP" for ranges.
    pub mode: &'static str,
    /// Held, or waited for.
    pub granted: bool,
}

/// One edge of the waits-for graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWaitInfo {
    /// Who waits.
    pub waiting: Serial,
    /// For whom.
    pub blocking: Serial,
    /// What for, in words.
    pub wanted: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Row { index, key, mode } => {
                write!(f, "RECORD LOCK index {index} key {} lock mode {}", Hex(key), mode.name())
            }
            Target::Table { index, mode } => write!(f, "TABLE LOCK index {index} lock mode {}", mode.name()),
            Target::Range { index, key } => {
                write!(f, "RANGE LOCK index {index} insert of key {} before it", Hex(key))
            }
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 32;
        for byte in self.0.iter().take(SHOWN) {
            write!(f, "{byte:02x}")?;
        }
        if self.0.len() > SHOWN { write!(f, "... ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

impl LockManager {
    /// All explicit locks. A listing, not a snapshot: shards are looked at one after the other.
    #[must_use]
    pub fn locks(&self) -> Vec<LockInfo> {
        let mut out = Vec::new();
        for shard in &self.shards {
            for (index, rows) in shard.lock().iter() {
                for (key, queue) in rows {
                    list(&mut out, queue, *index, &LockKind::Row((**key).into()));
                }
            }
        }
        for (index, queue) in self.tables.lock().iter() {
            list(&mut out, queue, *index, &LockKind::Table);
        }
        for (index, ranges) in self.ranges.lock().iter() {
            for lock in &ranges.locks {
                out.push(info(&lock.owner, *index, LockKind::Range(lock.range.clone()), "GAP", true));
            }
            for (owner, key) in &ranges.waiting {
                out.push(info(owner, *index, LockKind::Range(KeyRange::point(key)), "GAP", false));
            }
        }
        out
    }

    /// Who waits for whom.
    #[must_use]
    pub fn waits(&self) -> Vec<LockWaitInfo> {
        let mut waiting = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let queues = shard.values().flat_map(|rows| rows.values());
            waiting.extend(queues.flat_map(|q| q.waiting.iter()).map(|w| w.owner.clone()));
        }
        waiting.extend(self.tables.lock().values().flat_map(|q| q.waiting.iter()).map(|w| w.owner.clone()));
        waiting.extend(self.ranges.lock().values().flat_map(|i| i.waiting.iter()).map(|(o, _)| o.clone()));
        let mut out = Vec::new();
        for owner in waiting {
            let Some(target) = owner.waiting_for() else { continue };
            for blocker in self.blockers(&owner) {
                let wanted = target.to_string();
                out.push(LockWaitInfo { waiting: owner.serial(), blocking: blocker.serial(), wanted });
            }
        }
        out
    }
}

fn list(out: &mut Vec<LockInfo>, queue: &Queue, index: IndexId, kind: &LockKind) {
    for (owner, mode) in &queue.granted {
        out.push(info(owner, index, kind.clone(), mode.name(), true));
    }
    for waiter in &queue.waiting {
        out.push(info(&waiter.owner, index, kind.clone(), waiter.mode.name(), false));
    }
}

fn info(owner: &Owner, index: IndexId, kind: LockKind, mode: &'static str, granted: bool) -> LockInfo {
    LockInfo { owner: owner.serial(), txn: owner.txn(), index, kind, mode, granted }
}
