//! Putting a new version into its leaf, together with the undo record that takes it away again.
//!
//! # Protocol
//! *Where it was read.* Mostly the leaf is still as it was when the entry was read. Then undo
//! record and new version are one mini-transaction: the page of the undo log is latched first (and
//! loaded, if need be, while nothing else is held), then the leaf, which is neither looked for nor
//! loaded. Under both latches the locks of others are asked about. If they stand in the way,
//! nothing has happened.
//!
//! *By its key.* If the leaf has changed, has left the pool, has no room, or the record needs
//! another undo page: the undo record in a mini-transaction of its own, then the version in
//! another, which descends from the root. Under the latch of the leaf the entry must still carry
//! what was read. If that fails, the undo record is cut. If that fails, too, the transaction is
//! half undone: the record stays in its log, and its rollback comes to it.
//!
//! A thread holds the latch of an undo page while it takes that of a leaf, never the other way
//! round: a reader of an old version has copied the newer one and holds no leaf.

use holdfast_base::{Result, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::Access;
use holdfast_tree::Action;
use holdfast_wal::SpaceClass;

use crate::entry::attempt::{Blocker, Found, NewVersion};
use crate::entry::locked::EntryRef;
use crate::entry::row::VersionHeader;
use crate::entry::values;
use crate::txn::Txn;
use crate::undo::space::SMALL_MTR;
use crate::undo::{UndoLog, UndoRecord};

/// What came of the attempt to put a version where it was read.
enum AtSpot {
    Done,
    Blocked(Blocker),
    /// It has to be put by its key.
    Elsewhere,
}

impl Txn {
    /// Undo record and entry. `None`: done.
    pub(crate) fn put_version(
        &mut self,
        entry: EntryRef<'_>,
        seen: &Found<'_>,
        new: &mut NewVersion,
        acc: &Access<'_>,
    ) -> Result<Option<Blocker>> {
        let EntryRef { index, key } = entry;
        let new_chain = if new.overflow { Some(values::reference(new.body())?) } else { None };
        let mut log = match self.log.take() {
            Some(log) => log,
            None => self.begin_log(acc)?,
        };
        if new.deleted || seen.header.is_some_and(|h| h.overflow) {
            log.ask_purge();
        }
        let undo = UndoRecord { index: index.id(), key, prior: seen.payload, new_chain, deletes: new.deleted };
        let chain_pages = undo.chain_pages(self.system.undo.page_size());
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        undo.encode(&mut record);
        let put = match self.put_at(&mut log, entry, seen, &record, new, acc) {
            Ok(AtSpot::Done) => Ok(None),
            Ok(AtSpot::Blocked(blocker)) => Ok(Some(blocker)),
            Ok(AtSpot::Elsewhere) => self.put_by_key(&mut log, entry, seen, &record, new, acc),
            Err(e) => Err(e),
        };
        if matches!(put, Ok(None)) || self.is_half_undone() {
            log.keep_chain(chain_pages);
        }
        if matches!(put, Ok(None)) {
            self.system.metrics.inc(Counter::UndoRecords);
        }
        (self.record, self.log) = (record, Some(log));
        put
    }

    /// The undo log, and the transaction's id. The page comes first: whatever id the page carries
    /// was given out before the page was free, so the new one is greater, and the greatest id on
    /// the pages of the undo space never falls.
    fn begin_log(&mut self, acc: &Access<'_>) -> Result<UndoLog> {
        let early = holdfast_base::planted!("id-before-its-page").then(|| self.early_id());
        debug_assert!(early.is_some() || self.id == TxnId::NONE, "a transaction has one log");
        let page = self.system.undo.take_page(acc)?;
        self.id = early.unwrap_or_else(|| self.system.new_txn_id(self.owner()));
        self.keep_views();
        Ok(UndoLog::new(&self.system.undo, self.id, page))
    }

    /// A planted fault: others commit and are purged before the page is taken.
    fn early_id(&mut self) -> TxnId {
        if self.id == TxnId::NONE {
            self.id = self.system.new_txn_id(self.owner());
            let _ = holdfast_base::planted!("id-before-its-page", pause = 300);
        }
        self.id
    }

    /// What forbids to put a version, asked under the latch of the leaf, where `seen` is.
    fn forbidden(&self, entry: EntryRef<'_>, seen: &Found<'_>, deletes: bool) -> Option<Blocker> {
        let EntryRef { index, key } = entry;
        let (locks, owner, id) = (&self.system.locks, self.owner(), index.id());
        if !seen.is_by(self.id) && locks.blocked(owner, id, key) {
            Some(Blocker::Lock)
        } else if seen.comes_to_life(deletes)
            && !holdfast_base::planted!("ranges-not-asked")
            && locks.range_blocked(owner, id, key)
        {
            Some(Blocker::Range)
        } else {
            None
        }
    }

    fn put_at(
        &self,
        log: &mut UndoLog,
        entry: EntryRef<'_>,
        seen: &Found<'_>,
        record: &[u8],
        new: &mut NewVersion,
        acc: &Access<'_>,
    ) -> Result<AtSpot> {
        let EntryRef { index, key } = entry;
        let (undo, store, tree) = (&self.system.undo, &self.system.store, index.tree());
        let page_size = undo.page_size();
        if !log.has_room(page_size, record.len()) || !tree.is_current(&seen.spot) {
            return Ok(AtSpot::Elsewhere);
        }
        let bytes = SMALL_MTR + record.len() + key.len() + new.payload.len();
        let mut mtr = store.begin(store.reserve(bytes, SpaceClass::User)?, acc);
        let tail = log.fix_tail(undo, &mut mtr)?;
        let Some(leaf) = tree.latch_at(&seen.spot, &mut mtr) else { return Ok(AtSpot::Elsewhere) };
        if let Some(blocker) = self.forbidden(entry, seen, new.deleted) {
            return Ok(AtSpot::Blocked(blocker));
        }
        new.sign(self.id, log.next_roll());
        let Some(planned) = tree.plan_put(&seen.spot, &mtr, leaf, key, &new.payload)? else {
            return Ok(AtSpot::Elsewhere);
        };
        log.put(&mut mtr, tail, record, page_size)?;
        mtr.apply_planned(&planned);
        mtr.commit()?;
        Ok(AtSpot::Done)
    }

    fn put_by_key(
        &mut self,
        log: &mut UndoLog,
        entry: EntryRef<'_>,
        seen: &Found<'_>,
        record: &[u8],
        new: &mut NewVersion,
        acc: &Access<'_>,
    ) -> Result<Option<Blocker>> {
        let EntryRef { index, key } = entry;
        // It is asked again under the latch; but a record that has to be cut again costs more than
        // to ask twice.
        if let Some(blocker) = self.forbidden(entry, seen, new.deleted) {
            return Ok(Some(blocker));
        }
        let undo = &self.system.undo;
        let limit = (self.system.config.max_undo_per_txn / undo.page_size() as u64).max(1);
        let roll = log.append(undo, record, limit, acc)?;
        new.sign(self.id, roll);
        let mut blocker = None;
        let mut decide = |current: Option<&[u8]>| {
            let now = current.and_then(VersionHeader::decode).map(|(h, _)| h);
            let changed = now != seen.header || current.is_some() != seen.header.is_some();
            blocker =
                if changed { Some(Blocker::Changed(seen.header)) } else { self.forbidden(entry, seen, new.deleted) };
            Ok(if blocker.is_some() { Action::Keep } else { Action::Put(new.payload.clone()) })
        };
        let result = index.tree().modify(key, acc, &mut decide);
        if result.is_err() || blocker.is_some() {
            let pages = log.pages();
            log.pop();
            let keep = log.records();
            let cut = log.cut(undo, acc).inspect_err(|_| log.unpop(pages));
            // As long as the page has a record of what did not come about, the transaction must not
            // be committed. The rollback takes the record off, and releases the chain.
            self.set_half_undone(keep, &cut);
            cut?;
        }
        result?;
        Ok(blocker)
    }
}
