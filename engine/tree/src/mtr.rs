//! Mini-transactions: a few pages change together, or not at all.
//!
//! Protocol: log space is reserved before the first latch, and so is a frame for each page if there
//! is more than one: no wait under a latch. Each page is latched exclusively as it is fixed and
//! stays latched until the end. [`Mtr::apply`] checks an operation, applies it and encodes its
//! record.
//!
//! *Checked first.* Whatever can fail comes before the first change: every page is latched (and so
//! read), its bytes are checked, each operation is found possible, allocations are planned. After
//! the first change nothing fails, whatever the pages contain: a page of one table with a right
//! checksum and a wrong content must not stop the database. Debug builds assert it.
//!
//! [`Mtr::commit`] publishes a writer slot, appends all records as one group, stamps the changed
//! pages with the group's end, and releases the latches. So no page with a change that is not in
//! the log can be written, and redo sees all records of the group or none.
//!
//! A mini-transaction that has changed something and is dropped instead of committed leaves pages
//! that cannot be repaired in memory: it poisons the database, and recovery starts from the log. By
//! the rule above only the log itself causes that.

use std::cell::Cell;

#[cfg(debug_assertions)]
use holdfast_base::latches;
use holdfast_base::{Lsn, PageId, PageNo, Result};
use holdfast_pool::{Access, ExclusiveGuard, Space};
use holdfast_wal::SpaceTicket;

use crate::op::PageOp;
use crate::store::Store;

/// A page that a mini-transaction has latched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef(usize);

#[derive(Debug)]
struct Latched<'a> {
    guard: ExclusiveGuard<'a>,
    changed: bool,
}

/// A mini-transaction. Begin one with [`Store::begin`].
#[derive(Debug)]
pub struct Mtr<'a> {
    store: &'a Store,
    acc: &'a Access<'a>,
    ticket: Option<SpaceTicket<'a>>,
    pages: Vec<Latched<'a>>,
    records: Vec<u8>,
    last: Option<PageId>,
    /// Frames that were reserved when it began.
    #[cfg(debug_assertions)]
    reserved: usize,
}

/// A change that was found possible: [`Mtr::apply_planned`] makes it.
#[derive(Debug)]
pub struct PlannedPut<'a> {
    pub(crate) page: PageRef,
    pub(crate) op: PageOp<'a>,
}

/// Longest buffer that is kept for the next mini-transaction of the thread, in bytes.
const KEEP_BUFFER_MAX: usize = 64 << 10;

thread_local! {
    /// The buffer of the thread's last mini-transaction, so that a row change allocates none.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Store {
    /// Begins a mini-transaction that may log as much as `ticket` promises.
    pub fn begin<'a>(&'a self, ticket: SpaceTicket<'a>, acc: &'a Access<'a>) -> Mtr<'a> {
        Mtr::new(self, ticket, acc)
    }
}

impl<'a> Mtr<'a> {
    fn new(store: &'a Store, ticket: SpaceTicket<'a>, acc: &'a Access<'a>) -> Mtr<'a> {
        // A thread that ends has none any more.
        let records = SPARE.try_with(Cell::take).unwrap_or_default();
        Mtr {
            store,
            acc,
            ticket: Some(ticket),
            pages: Vec::with_capacity(2),
            records,
            last: None,
            #[cfg(debug_assertions)]
            reserved: acc.reserved_frames(),
        }
    }

    /// Checks, in debug builds, that the next page can be latched without a wait for a frame,
    /// whether or not its page is resident.
    fn check_reserved(&self) {
        #[cfg(debug_assertions)]
        debug_assert!(
            latches::held() == 0 || self.pages.len() < self.reserved,
            "no wait under a latch: page {} of a mini-transaction with {} frames reserved",
            self.pages.len() + 1,
            self.reserved
        );
    }

    /// True if a page is latched by this mini-transaction.
    #[must_use]
    pub fn has_latched(&self, id: PageId) -> bool {
        self.find(id).is_some()
    }

    /// What it was begun with.
    #[must_use]
    pub fn access(&self) -> &'a Access<'a> {
        self.acc
    }

    /// The pages' size in bytes.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.store.page_size()
    }

    fn find(&self, id: PageId) -> Option<PageRef> {
        self.pages.iter().position(|p| p.guard.id() == id).map(PageRef)
    }

    /// Latches a page, unless it is latched already; loads it if needed.
    ///
    /// # Errors
    /// The errors of loading the page.
    pub fn fix(&mut self, space: &Space, no: PageNo) -> Result<PageRef> {
        if let Some(page) = self.find(PageId::new(space.id(), no)) {
            return Ok(page);
        }
        debug_assert!(!self.has_changes(), "checked first: page {no} is latched after the first change");
        self.check_reserved();
        let guard = self.store.pool().fix_exclusive(space, no, self.acc)?;
        Ok(self.adopt(guard))
    }

    /// Latches a page whose content does not matter, because the first operation initialises it.
    /// Reads nothing.
    ///
    /// # Errors
    /// The errors of finding a frame.
    pub fn fix_new(&mut self, space: &Space, no: PageNo) -> Result<PageRef> {
        if let Some(page) = self.find(PageId::new(space.id(), no)) {
            return Ok(page);
        }
        debug_assert!(!self.has_changes(), "checked first: new page {no} is latched after the first change");
        self.check_reserved();
        let guard = self.store.pool().fix_new(space, no, self.acc)?;
        Ok(self.adopt(guard))
    }

    /// Takes over a latch that the caller holds already.
    pub fn adopt(&mut self, guard: ExclusiveGuard<'a>) -> PageRef {
        self.pages.push(Latched { guard, changed: false });
        PageRef(self.pages.len() - 1)
    }

    /// The bytes of a latched page, changes of this mini-transaction included.
    #[must_use]
    pub fn bytes(&self, page: PageRef) -> &[u8] {
        self.pages[page.0].guard.bytes()
    }

    /// The address of a latched page.
    #[must_use]
    pub fn id(&self, page: PageRef) -> PageId {
        self.pages[page.0].guard.id()
    }

    /// True if anything was changed.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.records.is_empty()
    }

    /// True if `op` can be applied to the page as it is.
    #[must_use]
    pub fn can_apply(&self, page: PageRef, op: &PageOp<'_>) -> bool {
        op.check(self.bytes(page)) && self.spares_neighbours(page, op)
    }

    /// True if `op` writes into no record of the page but its own.
    pub(crate) fn spares_neighbours(&self, page: PageRef, op: &PageOp<'_>) -> bool {
        op.spares_neighbours(&self.pages[page.0].guard)
    }

    /// Applies `op` to a latched page and adds its record.
    ///
    /// # Errors
    /// [`holdfast_base::Error::DamagedPage`] if it cannot be applied. The page is unchanged, and
    /// the mini-transaction can be given up: this is its first change, or the caller has checked
    /// the operation before the first one.
    pub fn apply(&mut self, page: PageRef, op: &PageOp<'_>) -> Result<()> {
        if !self.can_apply(page, op) {
            debug_assert!(!self.has_changes(), "checked first: page {} cannot take {}", self.id(page), op.name());
            return Err(self.store.damaged(self.id(page), format!("cannot apply {}", op.name())));
        }
        self.apply_checked(page, op);
        Ok(())
    }

    /// Makes a change that [`Tree::plan_put`](crate::Tree::plan_put) has found possible.
    pub fn apply_planned(&mut self, planned: &PlannedPut<'_>) {
        self.apply_checked(planned.page, &planned.op);
    }

    /// As [`Mtr::apply`], for a caller that has just checked.
    pub(crate) fn apply_checked(&mut self, page: PageRef, op: &PageOp<'_>) {
        let latched = &mut self.pages[page.0];
        let id = latched.guard.id();
        op.apply_checked(id, latched.guard.bytes_mut());
        if op.initialises() {
            latched.guard.note_examined();
        }
        latched.changed = true;
        op.encode(id, self.last, &mut self.records);
        self.last = Some(id);
    }

    /// Ends a mini-transaction that has changed nothing; the log space can be used for another one.
    pub(crate) fn give_up(mut self) -> SpaceTicket<'a> {
        self.ticket.take().expect("only the end takes the ticket")
    }

    /// Logs the changes as one group and releases all latches. Returns the end of the group: the
    /// changes are durable once the log is flushed up to there. If nothing was changed, logs
    /// nothing and returns LSN 0.
    ///
    /// # Errors
    /// If the log refuses the group, the database is poisoned: its pages hold changes that are not
    /// logged.
    pub fn commit(mut self) -> Result<Lsn> {
        if self.records.is_empty() {
            return Ok(Lsn(0));
        }
        let wal = self.store.wal();
        let slot = wal.enter();
        let (start, end) = wal.append(&self.records)?;
        // Now, while this core has what the end of the log and the promises are counted in.
        self.ticket = None;
        for latched in self.pages.iter_mut().filter(|p| p.changed) {
            latched.guard.mark_dirty(start, end);
        }
        drop(slot);
        self.records.clear();
        Ok(end)
    }
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        if !self.records.is_empty() {
            self.store.wal().poison("a mini-transaction broke off after it had changed pages");
            self.records.clear();
        }
        if self.records.capacity() <= KEEP_BUFFER_MAX {
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.records)));
        }
    }
}
