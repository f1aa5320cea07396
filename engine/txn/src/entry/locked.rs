//! Locking an entry and reading it, waiting for its writer, and the conflict with a version that
//! the transaction does not see.

use std::sync::Arc;

use holdfast_base::{Error, Result, TxnId};
use holdfast_lock::{Implicit, LockManager, LockMode, LockWait, Owner};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::Spot;

use crate::entry::index::TableIndex;
use crate::entry::row::VersionHeader;
use crate::entry::visibility::split;
use crate::system::TxnSystem;

/// An entry of an index, there or not.
#[derive(Clone, Copy)]
pub(crate) struct EntryRef<'a> {
    pub index: &'a TableIndex,
    pub key: &'a [u8],
}

impl<'a> EntryRef<'a> {
    /// The entry of `key`.
    #[inline]
    pub fn new(index: &'a TableIndex, key: &'a [u8]) -> EntryRef<'a> {
        EntryRef { index, key }
    }
}

/// The request of a lock on an entry.
#[derive(Clone, Copy)]
pub(crate) struct LockRequest<'a> {
    pub owner: &'a Arc<Owner>,
    pub mode: LockMode,
    /// What to do about a lock of another transaction.
    pub wait: LockWait,
}

/// What a read has added to the lock of its entry, which is given up if that does not qualify. It
/// belongs to that entry alone: it says how the transaction had locked it before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyRelease {
    /// Nothing: the read has not locked the entry, or the lock stays until the end of the
    /// transaction.
    #[default]
    Nothing,
    /// What the read has added: the transaction had locked the entry in this mode before, or not at
    /// all.
    DownTo(Option<LockMode>),
}

impl EarlyRelease {
    /// Gives it up.
    pub(crate) fn apply(self, locks: &LockManager, owner: &Arc<Owner>, entry: EntryRef<'_>) {
        if let EarlyRelease::DownTo(before) = self {
            locks.unlock_row_to(owner, entry.index.id(), entry.key, before);
        }
    }
}

/// Locks `key` and reads what is there. Returns where that is; if there is an entry, its payload is
/// in `payload`. An entry that carries the owner's id is locked by that, and by nothing else.
/// `seen`: where the entry was read before it was locked, and its payload then; if nothing has
/// changed there, it needs not be looked for again.
pub(crate) fn lock_and_read(
    system: &TxnSystem,
    entry: EntryRef<'_>,
    request: LockRequest<'_>,
    mut seen: Option<(Spot, &[u8])>,
    acc: &Access<'_>,
    payload: &mut Vec<u8>,
) -> Result<Spot> {
    let EntryRef { index, key } = entry;
    let LockRequest { owner, mode, wait } = request;
    let (mut doubted, mut is_new) = (None, false);
    if let Some(spot) = read_own(system, entry, owner, acc, payload)? {
        return Ok(spot);
    }
    loop {
        let taken_back = system.locks.taken_back();
        is_new |= system.locks.enter_row(owner, index.id(), key, mode, wait, None)?.is_new;
        let before = system.map.moment();
        let spot = read_entry(entry, seen.take(), acc, payload)?;
        if system.locks.taken_back() != taken_back {
            // What is there now may be what a rollback to a savepoint has put back and keeps
            // locked.
            continue;
        }
        if !spot.exists() {
            return Ok(spot);
        }
        let header = split(index, payload)?.0;
        let writer = header.txn;
        if writer == owner.txn() {
            // Else the lock would outlast the entry when a rollback to a savepoint removes it. One
            // that is older may have been entered when there was no entry, and keeps its place
            // free then.
            if is_new && is_locked_by_id(writer, owner) {
                system.locks.leave_to_id(owner, index.id(), key);
            }
            return Ok(spot);
        }
        if holdfast_base::planted!("undone-version-believed") && system.map.is_active(writer) {
            // The writer has time to undo the version and to commit.
            let _ = holdfast_base::planted!("undone-version-believed", pause = 20);
        }
        if !system.map.is_active(writer) {
            // It ended since it wrote; if it undid that before, what was read never existed.
            if !system.map.is_doubtful(writer, before) || doubted == Some(header) {
                return Ok(spot);
            }
            doubted = Some(header);
            continue;
        }
        // It wrote before our lock was entered. This gives ours back and waits behind that
        // transaction; then we lock anew.
        let waited = wait_for_writer(system, entry, request, writer);
        if matches!(waited, Err(Error::WouldBlock)) {
            system.locks.unlock_row(owner, index.id(), key); // It was entered too late to be one.
        }
        waited?;
    }
}

/// True if an entry of this `writer` is locked by the id of `owner` in it. No id, which a loaded
/// entry and a transaction without changes share, locks nothing.
pub(crate) fn is_locked_by_id(writer: TxnId, owner: &Owner) -> bool {
    writer == owner.txn() && writer != TxnId::NONE
}

/// Reads an entry that carries the owner's id. `None` if it is another one, or if no transaction
/// has a table lock: that of another transaction would be waited for, though it leaves out what the
/// owner has changed before.
fn read_own(
    system: &TxnSystem,
    EntryRef { index, key }: EntryRef<'_>,
    owner: &Owner,
    acc: &Access<'_>,
    payload: &mut Vec<u8>,
) -> Result<Option<Spot>> {
    if owner.txn() == TxnId::NONE || !system.locks.has_table_locks() {
        return Ok(None);
    }
    let spot = index.tree().get_at(key, acc, payload)?;
    let is_own = spot.exists() && split(index, payload)?.0.txn == owner.txn();
    Ok(is_own.then_some(spot))
}

/// Reads an entry that lies under a cover. `None` if the transaction that wrote it is still active,
/// or was when it was read: then it has to be locked the ordinary way.
pub(crate) fn read_covered(
    system: &TxnSystem,
    owner: &Owner,
    entry: EntryRef<'_>,
    seen: Option<(Spot, &[u8])>,
    acc: &Access<'_>,
    payload: &mut Vec<u8>,
) -> Result<Option<Spot>> {
    let before = system.map.moment();
    let spot = read_entry(entry, seen, acc, payload)?;
    if !spot.exists() {
        return Ok(Some(spot));
    }
    let writer = split(entry.index, payload)?.0.txn;
    let is_settled = writer == owner.txn() || !system.map.is_active(writer) && !system.map.is_doubtful(writer, before);
    Ok(is_settled.then_some(spot))
}

/// Reads an entry anew, without a descent if it is where it was `seen`, and without a look if
/// nothing there has changed.
fn read_entry(
    EntryRef { index, key }: EntryRef<'_>,
    seen: Option<(Spot, &[u8])>,
    acc: &Access<'_>,
    payload: &mut Vec<u8>,
) -> Result<Spot> {
    match seen {
        Some((spot, read)) if index.tree().is_current(&spot) => {
            payload.clear();
            payload.extend_from_slice(read);
            Ok(spot)
        }
        Some((spot, _)) => index.tree().get_again(key, &spot, acc, payload),
        None => index.tree().get_at(key, acc, payload),
    }
}

/// True if an error of a lock request means that another transaction has the lock and the caller
/// did not want to wait.
pub(crate) fn is_locked_by_others(error: &Error) -> bool {
    matches!(error, Error::WouldBlock)
}

/// Waits for the transaction `writer`, whose id is in the entry, and locks the entry. It must be
/// read again afterwards.
pub(crate) fn wait_for_writer(
    system: &TxnSystem,
    EntryRef { index, key }: EntryRef<'_>,
    LockRequest { owner, mode, wait }: LockRequest<'_>,
    writer: TxnId,
) -> Result<()> {
    let Some(holder) = system.owner_of(writer) else {
        // It has just ended, and the map knows that by now; or there never was such a transaction.
        return if system.map.is_active(writer) { system.check_writer(index, key, writer) } else { Ok(()) };
    };
    let given_up = holder.given_up();
    if given_up > 0 && !carries_id(system, EntryRef::new(index, key), writer)? {
        // A rollback that goes on has undone it since it was read, and told its waiters before this
        // one is among them.
        return Ok(());
    }
    let active = || system.map.is_active(writer) && holder.given_up() == given_up;
    let implicit = Implicit { owner: &holder, active: &active };
    system.locks.lock_row(owner, index.id(), key, mode, wait, Some(&implicit)).map(|_| ())
}

/// True if the entry carries the id of `writer` now.
fn carries_id(system: &TxnSystem, entry: EntryRef<'_>, writer: TxnId) -> Result<bool> {
    let acc = system.store.pool().access(AccessKind::Point);
    let mut payload = Vec::new();
    let found = entry.index.read(entry.key, &acc, &mut payload)?;
    Ok(found && VersionHeader::decode(&payload).is_some_and(|(header, _)| header.txn == writer))
}

/// The error for a transaction that does not see the newest version of an entry, though the first
/// one to change it wins.
pub(crate) fn conflict(system: &TxnSystem, owner: &Owner, entry: EntryRef<'_>) -> Error {
    system.metrics.inc(Counter::TrxConflicts);
    owner.conflicts_on(entry.index.id(), entry.key);
    Error::Conflict
}

/// True if the entry still is this version. The header alone does not tell: a transaction that has
/// undone a change may have made another one under the same roll pointer.
pub(crate) fn is_still(entry: EntryRef<'_>, version: Option<&[u8]>, acc: &Access<'_>) -> Result<bool> {
    let mut payload = Vec::new();
    let found = entry.index.read(entry.key, acc, &mut payload)?;
    Ok(found.then_some(payload.as_slice()) == version)
}
