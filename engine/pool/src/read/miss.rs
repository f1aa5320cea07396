//! Bringing a page in.
//!
//! 1. Claim the translation entry (see `translation`); losers wait for the winner.
//! 2. Get a frame: a reserved one, a free one, or the first of a batch of clean victims; if all
//!    candidates are dirty, by writing some (see `evict`). If even that would mean to wait for
//!    other threads' latches, the claim is given up first: no thread waits for this one while it
//!    waits for latches.
//! 3. Take the frame's latch, write the page id into the header, publish the entry. From here on
//!    others wait for the latch.
//! 4. Read, check, and enter the page into the policy. On an error the entry is emptied and the
//!    frame returned; the threads that waited try for themselves and get their own error.

use std::sync::atomic::{AtomicU32, Ordering};

use holdfast_base::page::{self, PageHeader, PageType};
use holdfast_base::{Error, PageId, PageNo, Result, latches};
use holdfast_io::ReadAt;
use holdfast_metrics::{Counter, Timing, WaitClass};
use holdfast_policy::{ScanHint, Touch};

use crate::core::Core;
use crate::read::request::{Access, Fill};
use crate::resident::header::{EXAMINED, READ_AHEAD};
use crate::resident::space::Space;
use crate::resident::translation::{CLAIMED, CLAIMED_WAITED};

/// A batch of pages that a thread is going to read fills one in so many frames at most, since many
/// threads may read batches at the same time.
const TOGETHER_DIVISOR: usize = 64;

/// Frames that are this thread's alone; those left return to the free list on drop.
pub(crate) struct Lease<'a> {
    core: &'a Core,
    frame: Option<u32>,
}

impl<'a> Lease<'a> {
    pub(crate) fn new(core: &'a Core, frame: Option<u32>) -> Lease<'a> {
        Lease { core, frame }
    }

    /// The frame, if its number is below `limit`.
    pub(crate) fn take_below(&mut self, limit: u32) -> Option<u32> {
        self.frame.take_if(|frame| *frame < limit)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.frame {
            self.core.supply.give(&[frame]);
        }
    }
}

/// A claimed translation entry; emptied on drop unless it was published.
struct Claim<'a> {
    entry: &'a AtomicU32,
}

impl Claim<'_> {
    fn publish(self, value: u32) {
        Self::set(self.entry, value);
        std::mem::forget(self);
    }

    fn set(entry: &AtomicU32, value: u32) {
        // Sequentially consistent: see `close` on spaces that are closed meanwhile.
        if entry.swap(value, Ordering::SeqCst) == CLAIMED_WAITED {
            holdfast_latch::wake_all_at(std::ptr::from_ref(entry) as usize);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        Self::set(self.entry, 0);
    }
}

impl Core {
    /// Brings page `no` in. Returns its frame, whose latch the caller now holds exclusively; `None`
    /// if another thread has brought it in meanwhile, or tried to: look again. The caller holds no
    /// latch, or has reserved frames.
    ///
    /// # Errors
    /// The errors of the read; [`Error::DamagedPage`]; [`Error::Closed`]; the errors of `evict`.
    pub(crate) fn bring_in(&self, space: &Space, no: PageNo, fill: Fill, acc: &Access<'_>) -> Result<Option<u32>> {
        let mut lease = Lease::new(self, None);
        space.check_withheld(no)?;
        if matches!(fill, Fill::Read { redo: false, .. }) {
            self.check_reach(space, no)?;
        }
        loop {
            space.check_open()?;
            let Some(claim) = self.claim(space, no) else { return Ok(None) };
            space.check_open()?;
            if lease.frame.is_none() {
                lease.frame = acc.take_reserved();
            }
            if lease.frame.is_none() {
                latches::none_while_waiting_for("a frame, which was not reserved");
                lease.frame = self.find_frame(acc)?;
            }
            let Some(frame) = lease.frame.take() else {
                drop(claim);
                lease.frame = Some(self.wait_for_frame(acc)?);
                continue;
            };
            self.occupy(frame, space.page_id(no), |value| claim.publish(value));
            self.fill(space, no, frame, fill).inspect_err(|_| self.vacate(frame, space, no))?;
            // The read took its time: a page that comes in is not older than it is.
            acc.refresh_tick();
            let touch = acc.touch(space.page_id(no));
            self.admit(frame, space.page_id(no), &touch);
            if fill == Fill::Zero {
                acc.count_created();
            } else {
                acc.count_read();
            }
            return Ok(Some(frame));
        }
    }

    /// Refuses a page number that only damaged bytes can have named, before memory is spent on its
    /// translation.
    fn check_reach(&self, space: &Space, no: PageNo) -> Result<()> {
        if space.translation.entry(no).is_some() || self.home(no) < space.file.len()? {
            return Ok(());
        }
        let error = Error::damaged_page(space.page_id(no), "it lies past the end of the file");
        if !space.was_cut(no) {
            self.metrics.inc(Counter::PagesDamaged);
            space.mark_damaged(&error);
        }
        Err(error)
    }

    /// Brings pages of one space in ahead of requests, in one batch of reads: those that need no
    /// waiting and no writing. Returns how many it brought.
    pub(crate) fn bring_in_ahead(&self, space: &Space, pages: &[(PageNo, Touch)]) -> u64 {
        let mut taken = Vec::with_capacity(pages.len());
        for &(no, touch) in pages {
            if space.check_open().is_err() {
                break;
            }
            if space.check_withheld(no).is_err() {
                continue;
            }
            let Some(claim) = self.try_claim(space, no) else { continue };
            if space.check_open().is_err() {
                break;
            }
            let Some(frame) = self.find_clean_frame() else { break };
            self.occupy(frame, space.page_id(no), |value| claim.publish(value));
            taken.push((no, frame, touch));
        }
        let all_read = self.read_all(space, &taken);
        let mut brought = 0;
        for (no, frame, touch) in taken {
            let id = space.page_id(no);
            // One page that cannot be read must not take the others along.
            if (all_read || self.read(space, no, frame).is_ok()) && self.is_sound(frame, space, no) {
                self.frames.header(frame).set(READ_AHEAD);
                self.admit(frame, id, &touch);
                self.frames.header(frame).latch.release_exclusive(true);
                brought += 1;
            } else {
                self.vacate(frame, space, no);
            }
        }
        brought
    }

    /// Brings those of `pages` in that are missing, in one batch of reads on the caller's thread,
    /// if they are more than one: as many as the pool has room for without giving up others that
    /// came in just before.
    pub(crate) fn bring_in_together(&self, space: &Space, pages: &[PageNo], acc: &Access<'_>) {
        let room = self.active_frames() / TOGETHER_DIVISOR;
        let end = space.file.len().unwrap_or(0);
        let missing = pages.iter().filter(|&&no| space.translation.frame(no).is_none() && self.home(no) < end);
        let wanted: Vec<_> = missing.take(room).map(|&no| (no, acc.touch(space.page_id(no)))).collect();
        if wanted.len() > 1 {
            let brought = self.bring_in_ahead(space, &wanted);
            (0..brought).for_each(|_| acc.count_read());
        }
    }

    /// Reads pages into frames that the caller has latched exclusively, in one batch; whether that
    /// worked.
    fn read_all(&self, space: &Space, pages: &[(PageNo, u32, Touch)]) -> bool {
        if pages.is_empty() {
            return true;
        }
        let mut reads: Vec<ReadAt<'_>> = pages
            .iter()
            .map(|&(no, frame, _)| {
                // SAFETY: the caller holds the latches exclusively, and the frames are different
                // ones.
                let buf = unsafe { self.frames.page_mut(frame) };
                ReadAt { offset: self.home(no), buf }
            })
            .collect();
        let start = holdfast_base::time::Instant::now();
        let result = space.file.read_batch(&mut reads);
        let took = start.elapsed();
        self.metrics.record_wait(WaitClass::ReadIo, took);
        self.metrics.record(Timing::PageRead, took);
        if result.is_ok() {
            self.metrics.add(Counter::PagesRead, pages.len() as u64);
        }
        result.is_ok()
    }

    /// Enters the page in `frame`, latched exclusively, into the policy.
    fn admit(&self, frame: u32, id: PageId, touch: &Touch) {
        self.partition(id).insert(frame, id.to_u64(), touch, &self.frames);
        if touch.scan == ScanHint::None {
            self.count_turnover();
        }
        self.supply.event();
    }

    fn try_claim<'s>(&self, space: &'s Space, no: PageNo) -> Option<Claim<'s>> {
        let entry = space.translation.entry_or_insert(no);
        let claimed = entry.compare_exchange(0, CLAIMED, Ordering::SeqCst, Ordering::Relaxed);
        // Lazily: a `Claim` that is dropped empties the entry.
        claimed.is_ok().then(|| Claim { entry })
    }

    /// Claims the entry, or waits while another thread has it claimed.
    fn claim<'s>(&self, space: &'s Space, no: PageNo) -> Option<Claim<'s>> {
        if let Some(claim) = self.try_claim(space, no) {
            return Some(claim);
        }
        let entry = space.translation.entry_or_insert(no);
        let seen = entry.load(Ordering::Acquire);
        let claimed = seen == CLAIMED_WAITED
            || seen == CLAIMED
                && entry.compare_exchange(CLAIMED, CLAIMED_WAITED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if claimed {
            let _wait = self.metrics.wait(WaitClass::ReadIo);
            let waited = || entry.load(Ordering::Relaxed) == CLAIMED_WAITED;
            holdfast_latch::sleep_at(std::ptr::from_ref(entry) as usize, waited);
        }
        None
    }

    /// Latches an unused frame exclusively, gives it to a page and publishes it.
    pub(crate) fn occupy(&self, frame: u32, id: PageId, publish: impl FnOnce(u32)) {
        let header = self.frames.header(frame);
        // Only a thread that still believes in the frame's former page can be in the way, for a
        // moment.
        header.latch.exclusive();
        let is_unused = header.page().is_none() && header.rec_lsn() == 0;
        debug_assert!(is_unused, "invariant: a frame and an entry name each other: {frame} has {:?}", header.page());
        header.clear(EXAMINED);
        header.set_page(id);
        publish(frame + 1);
    }

    /// Takes a page that could not be read out again. The caller holds the latch exclusively, and
    /// loses it.
    fn vacate(&self, frame: u32, space: &Space, no: PageNo) {
        let header = self.frames.header(frame);
        header.clear_page();
        space.translation.entry_or_insert(no).store(0, Ordering::SeqCst);
        header.latch.release_exclusive(true);
        self.supply.give(&[frame]);
    }

    fn fill(&self, space: &Space, no: PageNo, frame: u32, fill: Fill) -> Result<()> {
        let id = space.page_id(no);
        let Fill::Read { blank, redo } = fill else {
            self.zero(frame, id);
            return Ok(());
        };
        let past_end = match self.read(space, no, frame) {
            Ok(()) => false,
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::UnexpectedEof => true,
            Err(e) => return Err(e),
        };
        let checked = if past_end && redo {
            self.zero(frame, id);
            return Ok(());
        } else if past_end {
            Err(Error::damaged_page(id, "it lies past the end of the file"))
        } else {
            // SAFETY: the caller holds the latch exclusively.
            self.check_page(space, unsafe { self.frames.page(frame) }, no)
        };
        let mut is_missing = past_end;
        let checked = checked.and_then(|header| {
            // SAFETY: as above.
            if !blank && header.page_type == PageType::Free && page::is_blank(unsafe { self.frames.page(frame) }) {
                is_missing = true;
                return Err(Error::damaged_page(id, "it was never written"));
            }
            Ok(())
        });
        checked.map_err(|e| {
            // A mini-transaction that broke off leaves pages in memory that refer to pages which
            // were never written.
            if let Err(stopped) = self.wal.check_poisoned() {
                return stopped;
            }
            if is_missing && space.was_cut(no) {
                return e;
            }
            self.metrics.inc(Counter::PagesDamaged);
            if !redo {
                space.mark_damaged(&e);
            }
            e
        })
    }

    /// True if the page just read is one to keep although no thread has asked for it: damaged and
    /// blank pages are left to the threads that ask. The caller holds the latch exclusively.
    fn is_sound(&self, frame: u32, space: &Space, no: PageNo) -> bool {
        // SAFETY: as said.
        let page = unsafe { self.frames.page(frame) };
        self.check_page(space, page, no).is_ok() && !page::is_blank(page)
    }

    /// Checks that `page`, as read from the file of the space, is what was written there.
    pub(crate) fn check_page(&self, space: &Space, page: &[u8], no: PageNo) -> Result<PageHeader> {
        let header = page::check(page, space.page_id(no))?;
        let end = self.wal.end_lsn();
        if header.lsn > end && !space.is_of_another_log {
            let what =
                format!("its LSN is {}, and the log ends at {}: the end of the log is lost", header.lsn.0, end.0);
            return Err(Error::damaged_page(header.id, what));
        }
        Ok(header)
    }

    fn read(&self, space: &Space, no: PageNo, frame: u32) -> Result<()> {
        // SAFETY: the caller holds the latch exclusively.
        let page = unsafe { self.frames.page_mut(frame) };
        let start = holdfast_base::time::Instant::now();
        let result = space.file.read_at(self.home(no), page);
        let took = start.elapsed();
        self.metrics.record_wait(WaitClass::ReadIo, took);
        self.metrics.record(Timing::PageRead, took);
        if result.is_ok() {
            self.metrics.inc(Counter::PagesRead);
        }
        result
    }

    /// Makes the frame's page one of zeros but for its address. The caller holds the latch
    /// exclusively.
    pub(crate) fn zero(&self, frame: u32, id: PageId) {
        // SAFETY: as said.
        let page = unsafe { self.frames.page_mut(frame) };
        page.fill(0);
        holdfast_base::codec::put_u32(page, page::OFF_SPACE, id.space.0);
        holdfast_base::codec::put_u32(page, page::OFF_PAGE_NO, id.no.0);
    }

    /// Copies the page in frame `from` to frame `to`, another one. The caller holds the latches of
    /// both exclusively.
    pub(crate) fn copy(&self, from: u32, to: u32) {
        // SAFETY: as said.
        let (from, to) = unsafe { (self.frames.page(from), self.frames.page_mut(to)) };
        to.copy_from_slice(from);
    }

    /// Where page `no` lives in its file: the one place that knows.
    pub(crate) fn home(&self, no: PageNo) -> u64 {
        u64::from(no.0) * self.frames.page_size() as u64
    }

    /// Discards the page in `frame`: latched exclusively by the caller, whose latch is released;
    /// clean; its space open.
    pub(crate) fn forget_page(&self, frame: u32, id: PageId) {
        self.partition(id).remove(frame, &self.frames);
        self.release_frame(frame, id);
        self.supply.give(&[frame]);
    }

    /// Empties the translation entry and the header of a frame that left the policy, and releases
    /// its latch.
    pub(crate) fn release_frame(&self, frame: u32, id: PageId) {
        let header = self.frames.header(frame);
        header.clear_page();
        if let Some(entry) = self.spaces().get(&id.space).and_then(|space| space.translation.entry(id.no)) {
            entry.store(0, Ordering::SeqCst);
        }
        if header.clear(READ_AHEAD) {
            self.metrics.inc(Counter::ReadAheadEvicted);
        }
        header.latch.release_exclusive(true);
    }
}
