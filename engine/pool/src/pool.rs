//! The pool's face: fixing pages, and everything that others ask of the pool as a whole.
//!
//! Life of a fix: translation entry -> frame header -> latch (or version) -> does the header name
//! the page? -> touch. A page that is not there is brought in (see `miss`) and looked for again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_base::HashMap;
use holdfast_base::blocking::Mutex;
use holdfast_base::page::PageHeader;
use holdfast_base::thread::{self, JoinHandle};
use holdfast_base::{Error, Lsn, PageId, PageNo, Result, SpaceId};
use holdfast_io::File;
use holdfast_metrics::Metrics;
use holdfast_policy::{PolicyKind, scan_budget};
use holdfast_wal::Wal;

use crate::admin::stats::{FrameInfo, PageOwner, PoolStats, Resident};
use crate::checkpoint::cleaner;
use crate::config::PoolConfig;
use crate::core::Core;
use crate::read::readahead;
use crate::read::request::{Access, AccessKind, Fill};
use crate::resident::access::OptPage;
use crate::resident::guard::{ExclusiveGuard, OptimisticGuard, PageStamp, SharedGuard};
use crate::resident::space::Space;
use crate::supply::reserve::Reserved;

/// The buffer pool of one database.
// In cache lines of its own: every access to a page reads this, and must not wait for a thread that
// writes to what the allocator has put beside it, or to the count of references.
#[repr(align(128))]
pub struct Pool {
    pub(crate) core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    /// Makes an empty pool and starts its threads. To be called after
    /// [`restore_torn_pages`](crate::restore_torn_pages).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for settings out of range; if the address space, the double-write
    /// file or a thread cannot be had.
    pub fn new(config: PoolConfig, wal: Arc<Wal>, metrics: Arc<Metrics>) -> Result<Arc<Pool>> {
        let core = Arc::new(Core::new(config, wal, metrics)?);
        let pool = Arc::new(Pool { core, threads: Mutex::default() });
        if pool.core.config.background {
            pool.start()?;
        }
        Ok(pool)
    }

    fn start(&self) -> Result<()> {
        self.spawn("holdfast-clean", cleaner::run_cleaner)?;
        let begin = self.core.wal.next_lsn();
        self.spawn("holdfast-ckpt", move |core| cleaner::run_checkpointer(core, begin))?;
        self.spawn("holdfast-write", cleaner::run_finisher)?;
        for i in 0..self.core.config.read_ahead_threads {
            self.spawn(&format!("holdfast-read-{i}"), readahead::run_reader)?;
        }
        let core = Arc::downgrade(&self.core);
        let wake = move || {
            if let Some(core) = core.upgrade() {
                core.signals.wake_checkpointer();
            }
        };
        self.core.wal.on_growth(|capacity| (capacity / 512).max(4096), wake);
        Ok(())
    }

    fn spawn(&self, name: &str, run: impl FnOnce(&Core) + Send + 'static) -> Result<()> {
        let core = self.core.clone();
        let thread = thread::spawn(name, move || run(&core));
        self.threads.lock().push(thread.map_err(|e| Error::io("start", format_args!("thread {name}"), e))?);
        Ok(())
    }

    /// Stops the pool's threads; writes nothing ([`Pool::flush_all`] does). The pool stays usable,
    /// without background work. Called by drop.
    pub fn shutdown(&self) {
        self.core.signals.stop();
        self.core.read_ahead.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            let _ = thread.join();
        }
        // The provider belongs to a floor that holds the pool: kept, each would keep the other
        // alive for ever.
        self.core.payload.clear();
    }

    /// Opens a space whose pages are in `file`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a space of this number is open.
    pub fn open_space(&self, id: SpaceId, file: Arc<dyn File>) -> Result<Arc<Space>> {
        self.enter(Space::new(id, file))
    }

    /// As [`Pool::open_space`], for pages that were written under another log than the pool's: they
    /// may be newer than its end.
    ///
    /// # Errors
    /// The errors of [`Pool::open_space`].
    pub fn open_space_of_another_log(&self, id: SpaceId, file: Arc<dyn File>) -> Result<Arc<Space>> {
        self.enter(Space::of_another_log(id, file))
    }

    fn enter(&self, space: Space) -> Result<Arc<Space>> {
        let (id, space) = (space.id(), Arc::new(space));
        let mut spaces = self.core.spaces_mut();
        if spaces.contains_key(&id) {
            return Err(Error::invalid(format!("space {id} is open already")));
        }
        spaces.insert(id, space.clone());
        Ok(space)
    }

    /// Checks that `page`, as read from the file of the space, is what was written there: checksum,
    /// address, known type, and an LSN that the log has. Returns its header.
    ///
    /// # Errors
    /// [`Error::DamagedPage`] with what does not fit.
    pub fn check_page(&self, space: &Space, page: &[u8], no: PageNo) -> Result<PageHeader> {
        self.core.check_page(space, page, no)
    }

    /// Takes all pages of a space out of the pool and forgets it. Waits for the guards that others
    /// hold; threads that ask for its pages later get [`Error::Closed`]. `discard`: changes are
    /// thrown away (the table was dropped); otherwise they are written and synced. The caller holds
    /// no latch.
    ///
    /// # Errors
    /// The errors of the writes and the sync; the call may be repeated then.
    pub fn close_space(&self, space: &Space, discard: bool) -> Result<()> {
        self.core.close_space(space, discard)
    }

    /// The open space of this number.
    #[must_use]
    pub fn space(&self, id: SpaceId) -> Option<Arc<Space>> {
        self.core.space(id)
    }

    /// An access to the pool, for one statement on one thread.
    #[must_use]
    pub fn access(&self, kind: AccessKind) -> Access<'_> {
        Access::new(&self.core, kind)
    }

    /// Reads a page without a latch. `None`: it is not in the pool, is being read, or is latched
    /// exclusively for longer than a moment; the caller then gives up what it holds, calls
    /// [`Pool::load`], and starts over.
    #[inline]
    pub fn fix_optimistic<'a>(&'a self, space: &Space, no: PageNo, acc: &Access<'_>) -> Option<OptimisticGuard<'a>> {
        let core = &*self.core;
        let frame = space.translation.frame(no)?;
        let header = core.frames.header(frame);
        #[cfg(miri)]
        header.latch.shared();
        let stamp = match header.latch.optimistic() {
            Some(stamp) => stamp,
            None => header.latch.optimistic_spin()?,
        };
        if !header.holds_page(space.key, no) {
            #[cfg(miri)]
            header.latch.release_shared();
            return None;
        }
        let id = space.page_id(no);
        core.touch(frame, header, id, acc);
        Some(OptimisticGuard { core, header, at: PageStamp { frame, stamp }, id })
    }

    /// Loads a page, or waits for the thread that does, or for the exclusive holder of its latch.
    /// The page may have left again when this returns. The caller holds no latch, or has reserved
    /// frames.
    ///
    /// # Errors
    /// The errors of the read; [`Error::DamagedPage`]; [`Error::Closed`]; if no frame can be had,
    /// of the writes that failed.
    pub fn load(&self, space: &Space, no: PageNo, acc: &Access<'_>) -> Result<()> {
        let result = self.bring_in_or_wait(space, no, acc);
        // The touch that follows is not older than the page's arrival.
        acc.refresh_tick();
        result
    }

    /// As [`Pool::load`], for the first of several pages that are going to be read one after the
    /// other: those of them that are missing come in with one batch of reads, as far as that needs
    /// no waiting and they are few for the pool. A batch costs the system hardly more than a read,
    /// and a disk that does many things at once does them at once.
    ///
    /// # Errors
    /// The errors of [`Pool::load`], for the first page. The others are advice.
    pub fn load_together(&self, space: &Space, pages: &[PageNo], acc: &Access<'_>) -> Result<()> {
        let Some(&first) = pages.first() else { return Ok(()) };
        self.core.bring_in_together(space, pages, acc);
        self.load(space, first, acc)
    }

    /// As [`Pool::load`], for a page that leads to others. A scan that goes through the ring comes
    /// back to it for each of those, so the page comes in as an ordinary one.
    ///
    /// # Errors
    /// The errors of [`Pool::load`].
    pub fn load_inner(&self, space: &Space, no: PageNo, acc: &Access<'_>) -> Result<()> {
        acc.outside_of_scan(|| self.load(space, no, acc))
    }

    fn bring_in_or_wait(&self, space: &Space, no: PageNo, acc: &Access<'_>) -> Result<()> {
        let core = &*self.core;
        if let Some(frame) = space.translation.frame(no) {
            let (header, id) = (core.frames.header(frame), space.page_id(no));
            let there = || header.holds(id.to_u64());
            if core.latch_shared_while(header, there) {
                let is_there = there();
                header.latch.release_shared();
                if is_there {
                    return Ok(());
                }
            }
        }
        let fill = acc.fill();
        if let Some(frame) = core.bring_in(space, no, fill, acc)? {
            core.frames.header(frame).latch.release_exclusive(true);
        }
        Ok(())
    }

    /// Latches a page shared; brings it in if needed.
    ///
    /// # Errors
    /// The errors of [`Pool::load`].
    pub fn fix_shared<'a>(&'a self, space: &Space, no: PageNo, acc: &Access<'_>) -> Result<SharedGuard<'a>> {
        let (core, id) = (&*self.core, space.page_id(no));
        loop {
            if let Some(frame) = space.translation.frame(no) {
                let header = core.frames.header(frame);
                let there = || header.holds(id.to_u64());
                if core.latch_shared_while(header, there) {
                    if there() {
                        core.touch(frame, header, id, acc);
                        return Ok(SharedGuard { core, header, frame, id });
                    }
                    header.latch.release_shared();
                }
            }
            let fill = acc.fill();
            if let Some(frame) = core.bring_in(space, no, fill, acc)? {
                let header = core.frames.header(frame);
                core.touch(frame, header, id, acc);
                header.latch.downgrade(true);
                return Ok(SharedGuard { core, header, frame, id });
            }
        }
    }

    /// Latches a page exclusively; brings it in if needed.
    ///
    /// # Errors
    /// The errors of [`Pool::load`].
    pub fn fix_exclusive<'a>(&'a self, space: &Space, no: PageNo, acc: &Access<'_>) -> Result<ExclusiveGuard<'a>> {
        self.latch_or_bring_in(space, no, acc.fill(), acc).map(|(guard, _)| guard)
    }

    /// Latches a page that is about to be made (or made anew) exclusively: it is not read, and is
    /// all zeros but for its address as soon as it is changed. A page that is given up unchanged is
    /// what it was: the dirty page that was there, or, taken out of the pool, what its file holds.
    ///
    /// # Errors
    /// [`Error::Closed`]; if no frame can be had, of the writes that failed.
    pub fn fix_new<'a>(&'a self, space: &Space, no: PageNo, acc: &Access<'_>) -> Result<ExclusiveGuard<'a>> {
        let (guard, brought_in) = self.latch_or_bring_in(space, no, Fill::Zero, acc)?;
        Ok(guard.fresh(!brought_in))
    }

    fn latch_or_bring_in<'a>(
        &'a self,
        space: &Space,
        no: PageNo,
        fill: Fill,
        acc: &Access<'_>,
    ) -> Result<(ExclusiveGuard<'a>, bool)> {
        let (core, id) = (&*self.core, space.page_id(no));
        loop {
            if let Some(frame) = space.translation.frame(no) {
                let header = core.frames.header(frame);
                let there = || header.holds(id.to_u64());
                if core.latch_exclusive_while(header, there) {
                    if there() {
                        core.touch(frame, header, id, acc);
                        return Ok((ExclusiveGuard::new(core, frame, id), false));
                    }
                    header.latch.release_exclusive(false);
                }
            }
            if let Some(frame) = core.bring_in(space, no, fill, acc)? {
                core.touch(frame, core.frames.header(frame), id, acc);
                return Ok((ExclusiveGuard::new(core, frame, id).brought_in(), true));
            }
        }
    }

    /// True if the page that `stamp` was taken of is still there and unchanged.
    #[inline]
    #[must_use]
    pub fn is_current(&self, stamp: PageStamp) -> bool {
        self.core.frames.header(stamp.frame).latch.validate(stamp.stamp)
    }

    /// True if a page is in the pool (or being read). Touches nothing.
    #[must_use]
    pub fn is_resident(&self, space: &Space, no: PageNo) -> bool {
        space.translation.frame(no).is_some()
    }

    /// Sets `n` frames aside for the misses and new pages of this access, in place of those it has.
    /// To be called before anything is latched; waits until it is this request's turn and all
    /// reservations together are at most a quarter of the pool. Up to
    /// [`RESERVED_MAX`](crate::RESERVED_MAX) frames can be had in every pool.
    ///
    /// # Errors
    /// [`Error::LimitReached`] if `n` is more than a quarter of the pool; of the writes that
    /// failed, if no frame can be had.
    pub fn reserve_frames<'r>(&self, n: usize, acc: &'r Access<'r>) -> Result<Reserved<'r>> {
        self.core.reserve(n, acc)
    }

    /// Brings pages in in the background, as far as that needs no waiting; charged to the scan
    /// budget. Returns how many of them, from the first on, are there or will be: behind those the
    /// budget is used up.
    pub fn prefetch(&self, space: &Space, pages: &[PageNo], acc: &Access<'_>) -> usize {
        self.core.prefetch(space, pages, acc)
    }

    /// Brings a page that leads to others in in the background, as an ordinary one: see
    /// [`Pool::load_inner`].
    pub fn prefetch_inner(&self, space: &Space, no: PageNo, acc: &Access<'_>) {
        self.core.prefetch_inner(space, no, acc);
    }

    /// How far ahead a scan may ask for pages: three quarters of the scan budget of one partition,
    /// for neighbours belong to the same one. The rest is for those that it has just read; more
    /// would push each other out before they are used.
    #[must_use]
    pub fn farthest_ahead(&self) -> usize {
        scan_budget(self.core.active_frames() / self.core.partitions.len()) * 3 / 4
    }

    /// Waits until no read-ahead is queued or in progress.
    pub fn wait_for_prefetch(&self) {
        if self.core.config.background {
            self.core.read_ahead.wait_idle();
        }
    }

    /// Changes the size of the pool, waiting for what has to be written. The caller holds no latch.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a size out of range; of the writes, with the size as before.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        self.core.resize(bytes)
    }

    /// Changes the replacement policy or its settings; all pages stay.
    pub fn set_policy(&self, kind: PolicyKind) {
        self.core.set_policy(kind);
    }

    /// True if cursors are to report one touch per row instead of one per visit of a leaf.
    #[must_use]
    pub fn per_row_touches(&self) -> bool {
        self.core.partitions[0].per_row_touches()
    }

    /// Writes all dirty pages and syncs their files. Pages dirtied meanwhile may or may not be
    /// among them.
    ///
    /// # Errors
    /// The errors of the writes and the syncs; what could not be written stays dirty.
    pub fn flush_all(&self) -> Result<()> {
        self.core.flush_all()
    }

    /// Writes the dirty pages of one space and syncs its file.
    ///
    /// # Errors
    /// The errors of [`Pool::flush_all`].
    pub fn flush_space(&self, space: &Space) -> Result<()> {
        self.core.flush_space(space)?;
        self.core.sync_space(space)
    }

    /// Writes a page of a space, if it is dirty. No older write of the page is under way when this
    /// returns, nor one that another thread has begun. The file is not synced.
    ///
    /// # Errors
    /// The errors of the write; the page stays dirty then.
    pub fn flush_page(&self, space: &Space, no: PageNo) -> Result<()> {
        self.core.flush_page(space, no)
    }

    /// Syncs the file of a space.
    ///
    /// # Errors
    /// The errors of the sync, which also stops the database.
    pub fn sync_space(&self, space: &Space) -> Result<()> {
        self.core.sync_space(space)
    }

    /// The smallest LSN at which a change starts that is not durable in its file; [`Lsn::MAX`] if
    /// there is none. Changes of mini-transactions that are still in a writer slot of the log may
    /// be missing: ask the log first.
    #[must_use]
    pub fn oldest_dirty(&self) -> Lsn {
        self.core.oldest_dirty()
    }

    /// Registers what is stored with every checkpoint. Until then the pool takes none. The callback
    /// gets the LSN of the checkpoint and may not call into the pool.
    pub fn set_checkpoint_payload(&self, provider: impl Fn(Lsn) -> Vec<u8> + Send + Sync + 'static) {
        self.core.payload.set(Box::new(provider));
    }

    /// Keeps the log from `lsn` on, until `space` is closed or [released](Pool::release): a page of
    /// it lacks what the log has, since recovery could not use the page, or the file. `why` it
    /// could not.
    pub fn hold_checkpoint(&self, space: SpaceId, lsn: Lsn, why: Error) {
        self.core.held.add(space, lsn, why);
    }

    /// Keeps images in the double-write file, until their pages have been written, or their spaces
    /// are closed or [released](Pool::release): those that an open
    /// [could not use](crate::RestoreReport::kept). To be called before the first write.
    pub fn keep_images(&self, images: &[(PageId, u32)]) {
        self.core.doublewrite.keep_found(images);
    }

    /// The log and the images of `space` need not be kept: it is gone, or no table has it.
    pub fn release(&self, space: SpaceId) {
        self.core.doublewrite.forget(space);
        self.core.held.forget(space);
    }

    /// Takes a checkpoint of what is on disk now: syncs, but writes no pages. Returns its LSN (that
    /// of the last one, if no payload is registered).
    ///
    /// # Errors
    /// The errors of the syncs and of the log.
    pub fn checkpoint(&self) -> Result<Lsn> {
        self.core.checkpoint()
    }

    /// True if the cleaner has looked at what the evictions so far have asked it to look at. For a
    /// test that lets it do so.
    #[doc(hidden)]
    #[must_use]
    pub fn cleaner_rests(&self) -> bool {
        self.core.signals.cleaner_rests()
    }

    /// Totals.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.core.stats()
    }

    /// Brings the pool's gauges in the metrics up to date, and the counters that the policies keep.
    pub fn publish_metrics(&self) {
        self.core.publish_metrics();
    }

    /// Calls `each` for every frame that holds a page. Nothing is latched or touched: what is read
    /// of a page may be half changed, or of another page by now, and is good for statistics only.
    pub fn each_page(&self, each: &mut dyn FnMut(&FrameInfo, &OptPage<'_>)) {
        self.core.each_page(each);
    }

    /// What is in the pool, by space, index and page type.
    #[must_use]
    pub fn residency(&self) -> HashMap<PageOwner, Resident> {
        self.core.residency()
    }

    /// Saves the ids of the pages worth loading after a restart; returns how many. Saves nothing
    /// while those saved last are being loaded.
    ///
    /// # Errors
    /// The errors of the writes.
    pub fn save_warmup(&self) -> Result<usize> {
        self.core.save_warmup()
    }

    /// Loads the pages saved last in the background, the hottest first, as long as frames are free.
    /// `open` gives the space of a number, opening it if that is wanted.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start_warmup(&self, open: impl FnMut(SpaceId) -> Option<Arc<Space>> + Send + 'static) -> Result<()> {
        let mut open = open;
        self.core.warming.store(true, Ordering::Release);
        let spawned = self.spawn("holdfast-warmup", move |core| {
            let pages = core.saved_warmup();
            core.load_warmup(&pages, &mut open, &|| core.signals.is_stopped());
        });
        spawned.inspect_err(|_| self.core.warming.store(false, Ordering::Release))
    }

    /// Like [`Pool::start_warmup`], on the calling thread. Returns how many pages were loaded.
    pub fn run_warmup(&self, mut open: impl FnMut(SpaceId) -> Option<Arc<Space>>) -> u64 {
        let pages = self.core.saved_warmup();
        self.core.load_warmup(&pages, &mut open, &|| false)
    }

    /// The pages that [`Pool::save_warmup`] saved last, coldest first.
    #[must_use]
    pub fn saved_warmup(&self) -> Vec<PageId> {
        self.core.saved_warmup()
    }

    /// Frames of the pool now.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.core.active_frames()
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.core.frames.page_size()
    }

    /// The log.
    #[must_use]
    pub fn wal(&self) -> &Arc<Wal> {
        &self.core.wal
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.core.metrics
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("config", &self.core.config).finish_non_exhaustive()
    }
}
