//! Prepared transactions by xid, and which tables they have changed.
//!
//! A prepared transaction is *held* by the session that prepared it, *waits* after a crash or when
//! its session has gone, or is *adopted* by a user that ends it. Its end expects the rows where it
//! left them, so a table that it has changed must stay as it is until then. While its session holds
//! it, that session is among the table's writers. Afterwards no lock says so, but the undo log has
//! every change: it is read when a change of a definition asks about a transaction that waits, for
//! the first time, and when one is adopted, since the adopter owns the log from then on. The log
//! may be long, and each commit with an xid asks the list: so the list is free while a log is read,
//! and the transaction can be adopted when that is done.
//!
//! A change of a definition waits for the end of one that is adopted, which is under way; when a
//! session will adopt one, nothing says. A session that changes a definition and is killed reads no
//! further, and waits no more for another one that does, or that has adopted one. An adoption is
//! not given up so: a server has written down by then that the transaction ends.
//!
//! One of whose records not all are known, since a page of its log is damaged, may have changed any
//! table: none gets another definition until it has ended.
//!
//! An xid is in use as long as the first page of the log carries it, and until an attempt to undo
//! the changes has ended. From the end of a rollback that has failed on the transaction is a loser
//! like others ([`crate::recovery::losers`]), also if the page carries the xid still: one that was
//! adopted is no more, and the changes of definitions that wait for it ask the losers.
//!
//! No two prepared transactions get the same xid. If an open finds two all the same, both are
//! listed, and each has to be ended.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_base::{Error, IndexId, Result, TxnId, latches};

use crate::recovery::losers::{Changed, Loser};
use crate::wait::Wait;

/// A transaction that was prepared and neither committed nor rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedTxn {
    /// What the coordinator calls it.
    pub xid: Vec<u8>,
    /// Its id.
    pub txn: TxnId,
}

/// Where a prepared transaction is.
#[derive(Debug)]
enum Prepared {
    /// Its session has it, or the losers do, since its rollback has failed.
    Held,
    Waiting(Loser),
    /// It waits, and a thread that reads its log has it.
    Read,
    /// What it has changed.
    Adopted(Changed),
}

impl Prepared {
    /// The one that waits, for a thread that reads its log.
    fn take(&mut self) -> Option<Loser> {
        if !matches!(self, Prepared::Waiting(_)) {
            return None;
        }
        match std::mem::replace(self, Prepared::Read) {
            Prepared::Waiting(loser) => Some(loser),
            _ => None,
        }
    }

    /// True if another thread has it, and what it says about `indexes` is going to change.
    fn is_in_hand(&self, indexes: &[IndexId]) -> bool {
        match self {
            Prepared::Held | Prepared::Waiting(_) => false,
            Prepared::Read => true,
            Prepared::Adopted(changed) => changed.may_be_any_of(indexes),
        }
    }

    /// True if it waits for a decision, and has changed one of `indexes`, or may have: not all of
    /// its records are known.
    fn is_in_the_way(&self, indexes: &[IndexId]) -> bool {
        let Prepared::Waiting(loser) = self else { return false };
        loser.changed.as_ref().is_some_and(|changed| changed.may_be_any_of(indexes))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PreparedTxns {
    list: Mutex<BTreeMap<Name, Prepared>>,
    /// A log was read, or one that was adopted has ended.
    settled: Condvar,
}

/// The xid, and the transaction that has it.
type Name = (Vec<u8>, TxnId);

/// One that waits, while its log is read. If it is not adopted it waits again, whatever ends the
/// reading: else each thread that comes to it would wait for good behind a panic.
struct Reading<'p> {
    prepared: &'p PreparedTxns,
    name: Name,
    loser: Option<Loser>,
}

impl Reading<'_> {
    fn loser(&mut self) -> &mut Loser {
        self.loser.as_mut().expect("only an adoption takes it")
    }

    fn adopt(mut self, changed: Changed) -> Loser {
        let loser = self.loser.take().expect("it is adopted once");
        self.prepared.list.lock().insert(self.name.clone(), Prepared::Adopted(changed));
        loser
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(loser) = self.loser.take() {
            self.prepared.list.lock().insert(self.name.clone(), Prepared::Waiting(loser));
        }
        self.prepared.settled.notify_all();
    }
}

/// All names with this xid.
fn named(xid: &[u8]) -> RangeInclusive<Name> {
    (xid.to_vec(), TxnId(0))..=(xid.to_vec(), TxnId(u64::MAX))
}

impl PreparedTxns {
    /// Those that wait for a decision.
    pub fn waiting(&self) -> Vec<PreparedTxn> {
        let of = |((xid, txn), prepared): (&Name, &Prepared)| match prepared {
            Prepared::Waiting(_) | Prepared::Read => Some(PreparedTxn { xid: xid.clone(), txn: *txn }),
            Prepared::Held | Prepared::Adopted(_) => None,
        };
        self.list.lock().iter().filter_map(of).collect()
    }

    /// Takes out one with this xid that waits. `changed` returns what it has changed.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is none; the errors of `changed`.
    pub fn adopt(&self, xid: &[u8], changed: impl FnOnce(&Loser) -> Result<Changed>) -> Result<Loser> {
        latches::none_while_waiting_for("the log of a prepared transaction");
        let mut list = self.list.lock();
        let (name, loser) = loop {
            let waiting = list.range_mut(named(xid)).find_map(|(name, one)| Some((name.clone(), one.take()?)));
            match waiting {
                Some(found) => break found,
                None if list.range(named(xid)).any(|(_, one)| matches!(one, Prepared::Read)) => {
                    self.settled.wait(&mut list);
                }
                None => return Err(Error::invalid("there is no prepared transaction with this xid")),
            }
        };
        drop(list);
        let mut reading = Reading { prepared: self, name, loser: Some(loser) };
        let changed = changed(reading.loser())?;
        Ok(reading.adopt(changed))
    }

    /// Reserves `xid` for transaction `txn`, which is about to be prepared.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a prepared transaction has it.
    pub fn reserve(&self, xid: &[u8], txn: TxnId) -> Result<()> {
        let mut prepared = self.list.lock();
        if prepared.range(named(xid)).next().is_some() {
            return Err(Error::invalid("there is a prepared transaction with this xid"));
        }
        prepared.insert((xid.to_vec(), txn), Prepared::Held);
        Ok(())
    }

    /// Transaction `txn` is not prepared any more under `xid`, or was not after all.
    pub fn release(&self, xid: Vec<u8>, txn: TxnId) {
        let released = self.list.lock().remove(&(xid, txn));
        // Nothing waits for one that its session has, and each commit with an xid comes here.
        if !matches!(released, Some(Prepared::Held)) {
            self.settled.notify_all();
        }
    }

    /// The rollback of transaction `txn` has failed while its log says `xid`: it is among the
    /// losers by now, which may have released it already.
    pub fn leave_to_losers(&self, xid: Vec<u8>, txn: TxnId) {
        if let Some(prepared) = self.list.lock().get_mut(&(xid, txn)) {
            *prepared = Prepared::Held;
        }
        self.settled.notify_all();
    }

    /// Lists a prepared transaction that no session holds (any more).
    pub fn list(&self, xid: Vec<u8>, loser: Loser) {
        self.list.lock().insert((xid, loser.log.txn()), Prepared::Waiting(loser));
        self.settled.notify_all();
    }

    /// True if one whose session has gone has, or may have, changed one of `indexes`; `reads`
    /// returns what one has changed that waits. Another thread that reads, or has adopted one that
    /// has, is waited for.
    ///
    /// # Errors
    /// The errors of `reads` and of [`Wait::at`].
    pub fn has_changed(
        &self,
        indexes: &[IndexId],
        wait: &Wait<'_>,
        reads: impl Fn(&Loser) -> Result<Changed>,
    ) -> Result<bool> {
        let is_unknown = |one: &Prepared| matches!(one, Prepared::Waiting(loser) if loser.changed.is_none());
        let waits = |list: &BTreeMap<Name, Prepared>| {
            !list.values().any(|one| is_unknown(one) || one.is_in_the_way(indexes))
                && list.values().any(|one| one.is_in_hand(indexes))
        };
        let mut list = self.list.lock();
        loop {
            wait.at(&self.settled, &mut list, waits)?;
            // Whatever becomes of the others.
            if list.values().any(|one| one.is_in_the_way(indexes)) {
                return Ok(true);
            }
            let mut unknown = list.iter_mut().filter(|(_, one)| is_unknown(one));
            let Some((name, loser)) = unknown.find_map(|(name, one)| Some((name.clone(), one.take()?))) else {
                return Ok(false);
            };
            drop(list);
            let mut reading = Reading { prepared: self, name, loser: Some(loser) };
            let changed = reads(reading.loser())?;
            reading.loser().changed = Some(changed);
            drop(reading);
            list = self.list.lock();
        }
    }

    /// Has threads in [`PreparedTxns::has_changed`] ask their observers whether they give up.
    pub fn wake_waits(&self) {
        // A thread that has asked already sleeps by the time that it releases the mutex.
        drop(self.list.lock());
        self.settled.notify_all();
    }

    /// True if there is one whose session has gone.
    pub fn any_left(&self) -> bool {
        self.list.lock().values().any(|prepared| !matches!(prepared, Prepared::Held))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::time::Duration;

    use holdfast_lock::Owner;

    use super::*;
    use crate::recovery::losers::Left;
    use crate::undo::UndoLog;
    use crate::wait::tests::assert_ends;

    const CHANGED: [IndexId; 1] = [IndexId(5)];

    fn changed() -> Changed {
        Changed { indexes: CHANGED.to_vec(), whole: true }
    }

    fn nothing() -> Changed {
        Changed { indexes: Vec::new(), whole: true }
    }

    /// A prepared transaction whose session has gone.
    fn left() -> Loser {
        let (owner, log) = (Owner::new(1), UndoLog::in_memory(1));
        Loser { owner, log, xid: None, left: Left::All, stopped_by: None, changed: None }
    }

    /// One prepared transaction that waits.
    fn one_waits() -> PreparedTxns {
        let prepared = PreparedTxns::default();
        prepared.list(b"left".to_vec(), left());
        prepared
    }

    fn at_once() -> Wait<'static> {
        Wait::begins(Duration::ZERO)
    }

    /// True if a transaction is prepared and committed by another thread.
    fn others_commit(prepared: &PreparedTxns) -> bool {
        let (done, is_done) = mpsc::channel();
        std::thread::scope(|s| {
            s.spawn(move || {
                prepared.reserve(b"other", TxnId(7)).unwrap();
                prepared.release(b"other".to_vec(), TxnId(7));
                done.send(()).unwrap_or(());
            });
            is_done.recv_timeout(Duration::from_secs(20)).is_ok()
        })
    }

    /// The list was locked while the log of a transaction was read that had been left prepared:
    /// with a binary log each commit of the server waited, and each change of a definition read it
    /// once more.
    #[test]
    fn commits_go_on_while_a_log_is_read_and_it_is_read_once() {
        let (prepared, reads) = (one_waits(), Cell::new(0));
        let read = |_: &Loser| {
            reads.set(reads.get() + 1);
            // Another thread may not wait for a lock of this one: it would not end.
            let is_free = prepared.list.try_lock().is_some();
            assert!(is_free && others_commit(&prepared), "the list is locked");
            assert_eq!(prepared.waiting().len(), 1);
            Ok(changed())
        };
        assert!(prepared.has_changed(&CHANGED, &at_once(), read).unwrap());
        assert!(!prepared.has_changed(&[IndexId(6)], &at_once(), read).unwrap());
        assert_eq!(reads.get(), 1);
        prepared.adopt(b"left", read).unwrap();
        assert!(matches!(prepared.has_changed(&CHANGED, &at_once(), read), Err(Error::LockTimeout)));
        assert!(prepared.waiting().is_empty());
        assert_eq!(reads.get(), 2);
    }

    #[test]
    fn one_whose_log_cannot_be_read_waits_as_before() {
        let prepared = one_waits();
        let fails = |_: &Loser| Err(Error::WouldBlock);
        assert!(prepared.has_changed(&CHANGED, &at_once(), fails).is_err());
        assert!(prepared.adopt(b"left", fails).is_err());
        assert_eq!(prepared.waiting().len(), 1);
        assert!(prepared.has_changed(&CHANGED, &at_once(), |_| Ok(changed())).unwrap());
    }

    /// The transaction was lost until the next open, and a session that came to its xid waited for
    /// good.
    #[test]
    fn one_whose_reader_panics_waits_as_before() {
        let prepared = one_waits();
        let panics = |_: &Loser| -> Result<Changed> { panic!("planned") };
        let ends = |read: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
        ends(&|| drop(prepared.has_changed(&CHANGED, &at_once(), panics)));
        ends(&|| drop(prepared.adopt(b"left", panics)));
        assert!(prepared.has_changed(&CHANGED, &at_once(), |_| Ok(changed())).unwrap());
        prepared.adopt(b"left", |_| Ok(changed())).unwrap();
    }

    /// It waited until the other one had read, which may take minutes.
    #[test]
    fn a_session_does_not_wait_longer_than_it_may_for_another_one_that_reads() {
        let prepared = one_waits();
        let read = |_: &Loser| {
            assert_ends(|wait| prepared.has_changed(&CHANGED, wait, |_| Ok(nothing())));
            Ok(changed())
        };
        assert!(prepared.has_changed(&CHANGED, &at_once(), read).unwrap());
    }

    /// A change failed at once, or the layer above waited for all that were adopted, deaf to KILL.
    #[test]
    fn the_end_of_one_that_is_adopted_is_waited_for() {
        let prepared = one_waits();
        let loser = prepared.adopt(b"left", |_| Ok(changed())).unwrap();
        let has_changed = |index, wait: &Wait<'_>| prepared.has_changed(&[index], wait, |_| Ok(nothing()));
        assert_ends(|wait| has_changed(CHANGED[0], wait));
        assert!(!has_changed(IndexId(6), &at_once()).unwrap());
        std::thread::scope(|s| {
            let change = s.spawn(|| has_changed(CHANGED[0], &Wait::begins(Duration::from_secs(20))));
            prepared.release(b"left".to_vec(), loser.log.txn());
            assert!(!change.join().unwrap().unwrap());
        });
    }

    /// A change of a definition waited for it for its whole time, as long as its log could not be
    /// written: it is blocked, and keeps no session waiting.
    #[test]
    fn one_whose_rollback_has_failed_is_left_to_the_losers() {
        let prepared = one_waits();
        let loser = prepared.adopt(b"left", |_| Ok(changed())).unwrap();
        prepared.leave_to_losers(b"left".to_vec(), loser.log.txn());
        assert!(!prepared.has_changed(&CHANGED, &at_once(), |_| Ok(nothing())).unwrap());
        assert!(prepared.reserve(b"left", TxnId(7)).is_err(), "the log says the xid");
        prepared.release(b"left".to_vec(), loser.log.txn());
        prepared.leave_to_losers(b"left".to_vec(), loser.log.txn());
        prepared.reserve(b"left", TxnId(7)).unwrap();
    }

    /// The change waited for the end of the other one, and failed then all the same.
    #[test]
    fn nothing_is_waited_for_or_read_beside_one_that_is_in_the_way() {
        let prepared = one_waits();
        let read = |_: &Loser| Ok(changed());
        assert!(prepared.has_changed(&CHANGED, &at_once(), read).unwrap());
        prepared.list(b"adopted".to_vec(), left());
        prepared.adopt(b"adopted", read).unwrap();
        prepared.list(b"unread".to_vec(), left());
        assert!(prepared.has_changed(&CHANGED, &at_once(), |_| Err(Error::WouldBlock)).unwrap());
    }

    #[test]
    fn one_whose_log_is_being_read_is_waited_for() {
        let prepared = one_waits();
        std::thread::scope(|s| {
            let adopted = Cell::new(None);
            let read = |_: &Loser| {
                adopted.set(Some(s.spawn(|| prepared.adopt(b"left", |_| Ok(changed())).is_ok())));
                Ok(changed())
            };
            let answer = prepared.has_changed(&CHANGED, &at_once(), read);
            // It may be adopted before the reader asks again.
            assert!(matches!(answer, Ok(true) | Err(Error::LockTimeout)), "{answer:?}");
            assert!(adopted.take().unwrap().join().unwrap());
        });
        assert!(prepared.waiting().is_empty());
    }

    /// The table could be made empty, and the transaction committed afterwards without its changes.
    #[test]
    fn one_of_whose_records_not_all_are_known_is_in_the_way_of_each_change() {
        let prepared = one_waits();
        let read = |_: &Loser| Ok(Changed { whole: false, ..changed() });
        assert!(prepared.has_changed(&[IndexId(6)], &at_once(), read).unwrap());
        prepared.adopt(b"left", read).unwrap();
        assert!(matches!(prepared.has_changed(&[IndexId(6)], &at_once(), read), Err(Error::LockTimeout)));
    }
}
