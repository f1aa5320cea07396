//! Writing pages to their files.
//!
//! Life of a write: *stage* - each page is copied under its shared latch, and marked WRITING;
//! *secure* - the log is flushed up to the newest page LSN of the batch (one flush for all: the WAL
//! rule), the copies are sealed with their checksums, and those of pages that have no image in the
//! double-write file to rely on are written to it, and it is synced; *home* - the copies are
//! written to where they belong. A page that no thread changed since it was copied is clean then;
//! one that was changed stays dirty from that change on. Nothing is latched after staging.
//!
//! A page that was written as a free one is not read again: its frame goes to the free list.
//!
//! A write that fails leaves its pages as dirty as they were; the thread that asked for the write
//! gets the error.

use holdfast_base::page::{OFF_TYPE, PageType};
use holdfast_base::{Error, Lsn, PageNo, latches, page};
use holdfast_io::WriteAt;
use holdfast_metrics::{Counter, Timing, WaitClass};

use crate::config::{BATCH, DoubleWrite};
use crate::core::Core;
use crate::resident::space::Space;
use crate::write::batch::{Batch, Secured, Staged};
use crate::write::doublewrite::{Page, Slots};

impl Core {
    /// Stages up to [`BATCH`] of these frames: those that hold a dirty page that is not being
    /// written. `wait`: also those that are latched exclusively now; the caller holds no latch
    /// then.
    ///
    /// # Errors
    /// If there is no memory for the copies.
    fn stage(&self, frames: &[u32], wait: bool) -> Result<Batch, Error> {
        let mut batch = Batch { staged: Vec::new(), images: self.image_memory.take()?, lsn: Lsn(0) };
        for &frame in frames.iter().take(BATCH) {
            let header = self.frames.header(frame);
            if wait {
                latches::none_while_waiting_for("a dirty page");
                self.latch_shared(header);
            } else if !header.latch.try_shared() {
                continue;
            }
            let place = header.page().and_then(|id| Some((id, self.space(id.space)?)));
            if let Some((id, space)) = place
                && let Some(rec_lsn) = self.partition(id).begin_write(header)
            {
                let image = batch.staged.len();
                // SAFETY: this thread holds the latch shared.
                let bytes = unsafe { self.frames.page(frame) };
                batch.images.push(bytes);
                batch.lsn = batch.lsn.max(page::lsn(bytes));
                let (has_image, is_written) = (false, false);
                batch.staged.push(Staged { frame, id, space, rec_lsn, image, has_image, is_written });
            }
            header.latch.release_shared();
        }
        // Neighbours go to the disk one after the other.
        batch.staged.sort_by_key(|s| s.id);
        Ok(batch)
    }

    /// A safe batch of these frames' pages; `None` if there is nothing to write. See
    /// [`Core::stage`] on `wait`.
    fn stage_and_secure(&self, frames: &[u32], wait: bool, cause: Counter) -> Result<Option<Secured>, Error> {
        let batch = self.stage(frames, wait)?;
        if batch.staged.is_empty() {
            self.image_memory.give(batch.images);
            return Ok(None);
        }
        self.secure(batch, cause).map(Some)
    }

    /// Makes a batch safe; on failure its pages are dirty as before.
    fn secure(&self, mut batch: Batch, cause: Counter) -> Result<Secured, Error> {
        let oldest = batch.staged.iter().map(|s| s.rec_lsn).min().unwrap_or(Lsn::MAX);
        let write = self.unsynced.begin(oldest);
        match self.try_secure(&mut batch, write) {
            Ok(slots) => Ok(Secured { batch, slots, write, next: 0, cause }),
            Err(e) => {
                self.metrics.add(Counter::FlushFailures, batch.staged.len() as u64);
                for staged in &batch.staged {
                    self.end_failed(staged, None);
                }
                if self.unsynced.cancel(write) {
                    self.signals.wake_checkpointer();
                }
                self.image_memory.give(batch.images);
                Err(e)
            }
        }
    }

    fn try_secure(&self, batch: &mut Batch, write: u64) -> Result<Option<Slots>, Error> {
        if !holdfast_base::planted!("page-before-log") {
            self.wal.flush_to(batch.lsn)?;
        }
        for image in batch.images.bytes_mut().chunks_exact_mut(self.frames.page_size()) {
            debug_assert!(page::lsn(image) <= batch.lsn, "invariant: the log of a page is durable before its image");
            page::seal(image);
        }
        for staged in &mut batch.staged {
            staged.has_image = self.doublewrite.is_needed(self.config.doublewrite, &*staged.space.file);
        }
        let doubled = batch.staged.iter().filter(|s| s.has_image);
        let mut pages: Vec<Page> = doubled.map(|s| Page { id: s.id, image: s.image, rec_lsn: s.rec_lsn }).collect();
        if pages.is_empty() {
            return Ok(None);
        }
        // As they lie in memory: what follows one another there goes out as one request.
        pages.sort_unstable_by_key(|page| page.image);
        self.protect(&pages, batch.images.bytes(), write).map(Some)
    }

    fn image<'b>(&self, batch: &'b Batch, staged: &Staged) -> &'b [u8] {
        let page_size = self.frames.page_size();
        &batch.images.bytes()[staged.image * page_size..][..page_size]
    }

    /// The page is written home.
    fn end_home(&self, batch: &Batch, staged: &Staged) {
        self.partition(staged.id).end_write(staged.frame, self.frames.header(staged.frame));
        self.supply.event();
        if self.image(batch, staged)[OFF_TYPE] == PageType::Free as u8 {
            self.empty_frame(staged.frame, staged.id);
        }
    }

    /// The write failed. `needed`: from where on the log is needed for what is in the page's file
    /// now.
    fn end_failed(&self, staged: &Staged, needed: Option<Lsn>) {
        self.partition(staged.id).fail_write(staged.frame, self.frames.header(staged.frame), needed);
        self.supply.event();
    }

    /// Checks that pages of one file which have no image still need none: the file may have taken
    /// its promise of atomic writes back since the batch was secured, as it does when it has
    /// refused a write of this batch. Written now, a page could be torn for good. The next batch
    /// with it has an image written.
    ///
    /// # Errors
    /// If they do.
    fn check_promise(&self, group: &[Staged]) -> Result<(), Error> {
        let Some(bare) = group.iter().find(|s| !s.has_image) else { return Ok(()) };
        let file = &*bare.space.file;
        if !self.doublewrite.is_needed(self.config.doublewrite, file) {
            return Ok(());
        }
        let source = std::io::Error::new(std::io::ErrorKind::Unsupported, "its device has ended atomic writes");
        Err(Error::io("write", file.name(), source))
    }

    /// Writes up to `n` pages of the batch home. How many were written, and what went wrong.
    fn write_home(&self, secured: &mut Secured, n: usize) -> (usize, Option<Error>) {
        let end = (secured.next + n).min(secured.batch.staged.len());
        let (mut written, mut failure) = (0, None);
        while secured.next < end {
            let first = &secured.batch.staged[secured.next];
            let rest = &secured.batch.staged[secured.next..end];
            let group = &rest[..rest.iter().take_while(|s| s.id.space == first.id.space).count()];
            let writes: Vec<WriteAt<'_>> = group
                .iter()
                .map(|s| {
                    let whole = !s.has_image && self.config.doublewrite == DoubleWrite::Auto;
                    WriteAt { offset: self.home(s.id.no), buf: self.image(&secured.batch, s), whole }
                })
                .collect();
            let start = holdfast_base::time::Instant::now();
            let result = self.check_promise(group).and_then(|()| first.space.file.write_batch(&writes));
            let took = start.elapsed();
            self.metrics.record_wait(WaitClass::WriteIo, took);
            self.metrics.record(Timing::PageWrite, took);
            first.space.note_write(group.iter().map(|s| s.id.no), result.is_err());
            let (from, pages, is_written) = (secured.next, group.len(), result.is_ok());
            match result {
                Ok(()) => {
                    written += group.len();
                    self.doublewrite.written(group.iter().map(|s| s.id));
                    group.iter().for_each(|staged| self.end_home(&secured.batch, staged));
                }
                Err(e) => {
                    self.metrics.add(Counter::FlushFailures, group.len() as u64);
                    failure = Some(e);
                    for staged in group {
                        if let Some(slots) = &secured.slots {
                            self.doublewrite.keep(slots, staged.id);
                        }
                        let needed = secured.slots.as_ref().and_then(|slots| slots.rec_lsn(staged.id));
                        self.end_failed(staged, needed);
                    }
                }
            }
            secured.batch.staged[from..from + pages].iter_mut().for_each(|staged| staged.is_written = is_written);
            secured.next += pages;
        }
        self.metrics.add(Counter::PagesWritten, written as u64);
        self.metrics.add(secured.cause, written as u64);
        (written, failure)
    }

    /// Writes the rest of the batch home, `at_once` pages at a time, and releases it.
    pub(crate) fn finish(&self, mut secured: Secured, at_once: usize) -> (usize, Option<Error>) {
        let (mut written, mut failure) = (0, None);
        while secured.next < secured.batch.staged.len() {
            let (n, error) = self.write_home(&mut secured, at_once);
            written += n;
            failure = error.or(failure);
        }
        let Secured { batch, slots, write, .. } = secured;
        // A page whose write has failed is dirty as it was: a file that took none needs no sync,
        // which might fail, too, and stop all tables.
        let met = self.unsynced.done(write, batch.staged.iter().filter(|s| s.is_written).map(|s| &s.space));
        if met && !holdfast_base::planted!("ended-writes-wake-no-checkpointer") {
            self.signals.wake_checkpointer();
        }
        if let Some(slots) = slots {
            self.doublewrite.release_slots(&slots);
        }
        self.image_memory.give(batch.images);
        (written, failure)
    }

    /// Writes these frames' pages, as many of them as are dirty and not being written, `at_once` of
    /// them at a time. How many were written, and the last thing that went wrong. See
    /// [`Core::stage`] on `wait`.
    pub(crate) fn write_all(
        &self,
        frames: &[u32],
        wait: bool,
        at_once: usize,
        cause: Counter,
    ) -> (usize, Option<Error>) {
        let (mut written, mut failure) = (0, None);
        for chunk in frames.chunks(BATCH) {
            match self.stage_and_secure(chunk, wait, cause) {
                Ok(None) => {}
                Ok(Some(secured)) => {
                    let (n, error) = self.finish(secured, at_once);
                    written += n;
                    failure = error.or(failure);
                }
                Err(e) => return (written, Some(e)),
            }
        }
        (written, failure)
    }

    /// Writes these frames' pages and returns as soon as the first is written, if the finisher
    /// runs; latched pages are left out.
    pub(crate) fn write_first(&self, frames: &[u32], cause: Counter) -> (usize, Option<Error>) {
        let mut secured = match self.stage_and_secure(frames, false, cause) {
            Ok(Some(secured)) => secured,
            Ok(None) => return (0, None),
            Err(e) => return (0, Some(e)),
        };
        if !self.config.background {
            return self.finish(secured, BATCH);
        }
        let (mut written, mut failure) = (0, None);
        while written == 0 && secured.next < secured.batch.staged.len() {
            let (n, error) = self.write_home(&mut secured, 1);
            written += n;
            failure = error.or(failure);
        }
        if let Some(secured) = self.signals.hand_over(secured) {
            // The finisher has stopped.
            self.finish(secured, BATCH);
        }
        (written, failure)
    }

    /// Writes all pages that are dirty now, and syncs their files.
    ///
    /// # Errors
    /// The errors of the writes and syncs; what could not be written stays dirty.
    pub(crate) fn flush_all(&self) -> Result<(), Error> {
        let upto = self.wal.next_lsn();
        self.flush_until_clean(|| {
            let mut dirty = Vec::new();
            self.partitions.iter().for_each(|p| p.oldest(upto, usize::MAX, &mut dirty));
            dirty.into_iter().map(|(_, frame)| frame).collect()
        })?;
        self.sync_home()
    }

    /// Writes all pages of a space that are dirty now.
    ///
    /// # Errors
    /// The errors of the writes.
    pub(crate) fn flush_space(&self, space: &Space) -> Result<(), Error> {
        let upto = self.wal.next_lsn();
        self.flush_until_clean(|| {
            let mut dirty = Vec::new();
            space.translation.for_each(|no, _| dirty.extend(self.dirty_frame(space, no, upto)));
            dirty
        })
    }

    /// Writes a page if it is dirty now. No older write of it is under way when this returns.
    ///
    /// # Errors
    /// The errors of the write.
    pub(crate) fn flush_page(&self, space: &Space, no: PageNo) -> Result<(), Error> {
        let upto = self.wal.next_lsn();
        self.flush_until_clean(|| self.dirty_frame(space, no, upto).into_iter().collect())
    }

    /// The frame of a page that has changes of before `upto` which its file lacks.
    fn dirty_frame(&self, space: &Space, no: PageNo, upto: Lsn) -> Option<u32> {
        let mut at = space.translation.frame(no);
        while let Some(frame) = at {
            if (1..upto.0).contains(&self.frames.header(frame).rec_lsn()) {
                return Some(frame);
            }
            // It may have moved to another frame meanwhile: see `resize`.
            at = space.translation.frame(no).filter(|&now| now != frame);
        }
        None
    }

    /// Writes pages until `dirty` names none, waiting for writes that others have begun.
    fn flush_until_clean(&self, dirty: impl Fn() -> Vec<u32>) -> Result<(), Error> {
        let mut waiter = self.supply.waiter();
        loop {
            self.wal.check_poisoned()?;
            let frames = dirty();
            if frames.is_empty() {
                return Ok(());
            }
            let (written, error) = self.write_all(&frames, true, BATCH, Counter::FlushedShutdown);
            error.map_or(Ok(()), Err)?;
            if written == 0 && !dirty().is_empty() {
                // All of them are being written by others, whose end is an event.
                waiter.sleep();
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use holdfast_base::{PageId, SpaceId};
    use holdfast_io::{Create, Disk, FileKind, OpenOptions};
    use holdfast_metrics::Metrics;
    use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp, HookedDisk};
    use holdfast_wal::{Wal, WalConfig};

    use super::*;
    use crate::{AccessKind, Pool, PoolConfig, restore_torn_pages};

    const PAGE: usize = 4096;

    fn open(pool: &Pool, disk: &dyn Disk, id: SpaceId) -> Arc<Space> {
        let options = OpenOptions::new(FileKind::Data).create(Create::New);
        pool.open_space(id, disk.open(&id.file_name(), options).unwrap()).unwrap()
    }

    /// Makes the page if it is `new`, and changes it.
    fn change(pool: &Pool, space: &Space, no: u32, new: bool) {
        let acc = pool.access(AccessKind::Point);
        let page =
            if new { pool.fix_new(space, PageNo(no), &acc) } else { pool.fix_exclusive(space, PageNo(no), &acc) };
        let mut page = page.unwrap();
        let slot = pool.wal().enter();
        let (start, end) = pool.wal().append(b"changed").unwrap();
        page.bytes_mut()[OFF_TYPE] = PageType::Tree as u8;
        page.bytes_mut()[PAGE - 1] += 1;
        page.mark_dirty(start, end);
        drop(slot);
    }

    /// The end of a batch took the page for written, and gave the only good copy of it away. The
    /// page had been changed since, and the next write of it had failed.
    #[test]
    fn a_good_copy_is_kept_though_an_older_batch_with_its_page_ends_later() {
        let hooked = HookedDisk::default();
        let faults = FaultDisk::new(Arc::new(hooked.clone()));
        let disk: Arc<dyn Disk> = Arc::new(faults.clone());
        let metrics = Metrics::new();
        let wal_config = WalConfig { capacity_bytes: 4 << 20, page_size: PAGE as u32, ..WalConfig::default() };
        let wal = Wal::create(disk.clone(), [7; 16], wal_config, metrics.clone()).unwrap();
        let mut config = PoolConfig::new(disk.clone(), PAGE, 64 * PAGE as u64);
        (config.background, config.doublewrite_bytes) = (false, 0);
        let pool = Pool::new(config, wal.clone(), metrics.clone()).unwrap();
        let (space, other) = (open(&pool, &*disk, SpaceId(16)), open(&pool, &*disk, SpaceId(17)));
        change(&pool, &space, 0, true);
        change(&pool, &other, 0, true);
        pool.flush_all().unwrap();
        change(&pool, &space, 0, false);
        change(&pool, &other, 0, false);
        let (again, its, once) = (pool.clone(), space.clone(), AtomicBool::new(false));
        hooked.on_write(move |name| {
            // The batch has written the page of the first space, and goes on with the other.
            if name == "t17.hf" && !once.swap(true, Ordering::Relaxed) {
                change(&again, &its, 0, false);
                faults.schedule(Fault::nth(FaultOp::Write, 1).kind(FaultKind::Torn).on("t16.hf"));
                assert!(again.flush_page(&its, PageNo(0)).is_err());
            }
        });
        let acc = pool.access(AccessKind::Point);
        let frames = [&space, &other].map(|space| space.translation.frame(PageNo(0)).unwrap());
        let (written, error) = acc.core.write_all(&frames, true, BATCH, Counter::FlushedCheckpoint);
        assert!(written == 2 && error.is_none(), "{error:?}");
        hooked.on_write(|_| ());
        // The double-write file turns over several times.
        let before = metrics.get(Counter::DblwrPagesWritten);
        for no in 0..900 {
            change(&pool, &other, no % 300, true);
            pool.flush_space(&other).unwrap();
        }
        assert!(metrics.get(Counter::DblwrPagesWritten) - before > 600);
        let log = wal.checkpoint_lsn()..wal.end_lsn();
        let own = |id| Ok((id == space.id()).then(|| space.file().clone()));
        let report = restore_torn_pages(&*disk, PAGE, log, &mut { own }).unwrap();
        assert_eq!(report.restored, [PageId::new(space.id(), PageNo(0))]);
    }
}
