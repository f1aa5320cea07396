//! The transactions that have not ended, and the numbers by which they are known.
//!
//! Every short transaction is entered here and removed again, so each group of threads has a list
//! of its own and gives out numbers of its own, block after block: threads of different groups do
//! not meet. The number of a block names the group, so a transaction is found by its number
//! wherever it ends. Numbers follow time only approximately: to find the older of two transactions,
//! compare when they began.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::HashMap;
use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, TxnId};
use holdfast_metrics::{GROUPS, Spread, thread_group};

use crate::options::{Isolation, TxnOptions};
use holdfast_lock::{Owner, Serial};

/// Numbers that a group takes at a time.
const BLOCK: u64 = 64;

/// A transaction that has not ended.
#[derive(Clone)]
pub(crate) struct OpenTxn {
    pub owner: Arc<Owner>,
    pub isolation: Isolation,
    pub read_only: bool,
}

/// What the threads of one group have begun.
struct Group {
    open: HashMap<Serial, OpenTxn>,
    /// Those that have changed something.
    writers: HashMap<TxnId, Arc<Owner>>,
    /// Numbers not given out yet.
    numbers: Range<Serial>,
}

/// See the module.
pub(crate) struct OpenTxns {
    groups: Spread<Mutex<Group>>,
    /// Blocks given out, from 1 on: 0 is never a number.
    blocks: AtomicU64,
}

impl OpenTxns {
    /// No transaction has begun.
    pub fn new() -> OpenTxns {
        let none = || Mutex::new(Group { open: HashMap::default(), writers: HashMap::default(), numbers: 0..0 });
        OpenTxns { groups: Spread::new(none), blocks: AtomicU64::new(1) }
    }

    /// A new owner that is not in the lists.
    pub fn unlisted(&self) -> Arc<Owner> {
        let group = thread_group();
        Owner::new(self.number(&mut self.groups.of(group).lock(), group))
    }

    /// A new owner, in the list until it [ends](OpenTxns::end). `check` runs once it is in the
    /// list; an error of it removes the owner.
    pub fn begin(&self, options: &TxnOptions, check: impl FnOnce() -> Result<(), Error>) -> Arc<Owner> {
        let group = thread_group();
        let mut mine = self.groups.of(group).lock();
        let owner = Owner::new(self.number(&mut mine, group));
        let open = OpenTxn { owner: Arc::clone(&owner), isolation: options.isolation, read_only: options.read_only };
        mine.open.insert(owner.serial(), open);
        if let Err(error) = check() {
            owner.stop(error);
        }
        owner
    }

    fn number(&self, group: &mut Group, number: usize) -> Serial {
        group.numbers.next().unwrap_or_else(|| {
            let block = self.blocks.fetch_add(1, Ordering::Relaxed) * GROUPS as u64 + number as u64;
            group.numbers = block * BLOCK + 1..(block + 1) * BLOCK;
            block * BLOCK
        })
    }

    fn group_of(&self, serial: Serial) -> &Mutex<Group> {
        self.groups.by(serial / BLOCK)
    }

    /// Takes an owner out of the list, if it is there.
    pub fn end(&self, owner: &Owner) {
        self.group_of(owner.serial()).lock().open.remove(&owner.serial());
    }

    /// `owner` writes under `id` from here on, whether it is in the list or not.
    pub fn writes(&self, owner: &Arc<Owner>, id: TxnId) {
        self.group_of(owner.serial()).lock().writers.insert(id, Arc::clone(owner));
    }

    /// What `owner` has changed is committed, or undone.
    pub fn writes_no_more(&self, owner: &Owner) {
        if owner.txn() != TxnId::NONE {
            self.group_of(owner.serial()).lock().writers.remove(&owner.txn());
        }
    }

    /// The owner that writes under `id`, of any group: a transaction asks that finds the id in its
    /// way.
    pub fn writer(&self, id: TxnId) -> Option<Arc<Owner>> {
        self.groups.all().find_map(|group| group.lock().writers.get(&id).cloned())
    }

    /// The owner with this number.
    pub fn find(&self, serial: Serial) -> Option<Arc<Owner>> {
        self.group_of(serial).lock().open.get(&serial).map(|open| Arc::clone(&open.owner))
    }

    /// All, the oldest first.
    pub fn all(&self) -> Vec<OpenTxn> {
        let mut all: Vec<OpenTxn> = Vec::new();
        self.groups.all().for_each(|group| all.extend(group.lock().open.values().cloned()));
        all.sort_unstable_by_key(|txn| txn.owner.seniority());
        all
    }

    /// Stops every wait for a lock, now and later.
    pub fn stop(&self, error: &Error) {
        self.groups.all().for_each(|group| {
            group.lock().open.values().for_each(|txn| txn.owner.stop(error.clone()));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_out_once_and_lead_to_their_owners() {
        let open = OpenTxns::new();
        let begin = || {
            let owners = (0..3 * BLOCK).map(|_| open.begin(&TxnOptions::default(), || Ok(())));
            owners.collect::<Vec<_>>()
        };
        let mut owners = begin();
        owners.extend(std::thread::scope(|scope| scope.spawn(begin).join().unwrap()));
        let mut serials: Vec<Serial> = owners.iter().map(|owner| owner.serial()).collect();
        assert!(serials.iter().all(|&serial| serial > 0));
        assert_eq!(serials, open.all().iter().map(|txn| txn.owner.serial()).collect::<Vec<_>>(), "the oldest first");
        serials.sort_unstable();
        serials.dedup();
        assert_eq!(serials.len(), owners.len());
        for owner in &owners {
            assert!(Arc::ptr_eq(owner, &open.find(owner.serial()).unwrap()));
        }
        // Whichever thread it ends on.
        owners.iter().for_each(|owner| open.end(owner));
        assert!(open.all().is_empty());
        assert!(open.find(owners[0].serial()).is_none());
    }

    #[test]
    fn who_begins_after_the_end_is_stopped() {
        let open = OpenTxns::new();
        let (early, unlisted) = (open.begin(&TxnOptions::default(), || Ok(())), open.unlisted());
        open.stop(&Error::Closed("test"));
        let late = open.begin(&TxnOptions::default(), || Err(Error::Closed("test")));
        assert!(early.stopped().is_some() && late.stopped().is_some());
        assert!(unlisted.stopped().is_none());
    }
}
