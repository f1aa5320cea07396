//! The double-write file: a copy of every page is durable here before the page is overwritten at home, so that a
//! power cut in the middle of a page write leaves one good copy.
//!
//! ```text
//! file `doublewrite`:  | area 0: slot 0 .. n-1 | area 1: slot 0 .. n-1 |      a slot is one page image, sealed
//! ```
//!
//! A page image names its page and carries its own checksum, so the file needs no directory. Batches fill the current
//! area slot by slot, each with one write and one sync (concurrent batches share syncs). When the area is full the
//! other one becomes the current one, after everything written home from it has been synced there. The slot of a page whose home
//! write failed is not reused until that page has been written after all.
//!
//! At open, [`restore_torn_pages`] replaces pages that are damaged at home by their newest good image, if that image
//! cannot be stale. Images stay in the file until their slot is used again, so the newest one that is found may be older than
//! what was at home before a bit rotted there. Two things tell:
//! - Its page LSN lies beyond the checkpoint: whatever changed the page later is in the log, and redo does it again.
//!   A write that a power cut tore is always such a case, because it held the checkpoint.
//! - The damaged page carries the image's LSN and checksum: it was that very image.
//!
//! Otherwise the page stays damaged, and says so to those who read it: an old image would be a silent step back in time.
//!
//! Lock order: `state` is a leaf; nothing is waited for under it but its own condition variable, whose waiters wait
//! for home writes of other threads.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_base::{Error, Lsn, PageId, Result, SpaceId, page};
use holdfast_io::{AlignedBuf, Create, Disk, File, FileKind, OpenOptions};
use holdfast_metrics::Counter;
use parking_lot::{Condvar, Mutex};

use crate::config::{DoubleWrite, PoolConfig};
use crate::core::Core;
use crate::flush::BATCH;

/// The file's name.
pub(crate) const NAME: &str = "doublewrite";
/// Slots of an area: at least two batches, at most 4 MiB of 16 KiB pages.
const AREA_MIN: u32 = 2 * BATCH as u32;
const AREA_MAX: u32 = 256;
/// Buffers kept for reuse.
const BUFFERS: usize = 4;

#[derive(Default)]
struct State {
    current: usize,
    next: u32,
    /// Batches of each area that are not written home yet.
    in_flight: [u32; 2],
    /// Slots that hold the only good copy of a page, perhaps.
    stuck: HashMap<PageId, u32>,
    /// Writes to the file that wait for a sync, and that are synced: numbers of writes.
    written: u64,
    synced: u64,
    syncing: bool,
    ready: bool,
}

/// See the module's description.
pub(crate) struct DoubleWriter {
    file: Option<Arc<dyn File>>,
    disk: Arc<dyn Disk>,
    page_size: usize,
    area: u32,
    state: Mutex<State>,
    changed: Condvar,
    buffers: Mutex<Vec<AlignedBuf>>,
}

/// Where the images of one batch are.
pub(crate) struct Slots {
    area: usize,
    slots: Vec<(PageId, u32)>,
}

impl DoubleWriter {
    pub(crate) fn open(config: &PoolConfig, frames: u32) -> Result<DoubleWriter> {
        let area = (frames / 4).clamp(AREA_MIN, AREA_MAX);
        let file = if config.doublewrite == DoubleWrite::Off {
            None
        } else {
            let options = OpenOptions::new(FileKind::Data).create(Create::IfMissing);
            Some(config.disk.open(NAME, options)?)
        };
        Ok(DoubleWriter {
            file,
            disk: config.disk.clone(),
            page_size: config.page_size,
            area,
            state: Mutex::default(),
            changed: Condvar::new(),
            buffers: Mutex::default(),
        })
    }

    /// Whether the pages of `file` have to go through the double-write file.
    pub(crate) fn is_needed(&self, mode: DoubleWrite, file: &dyn File) -> bool {
        match mode {
            DoubleWrite::On => true,
            DoubleWrite::Off => false,
            DoubleWrite::Auto => file.atomic_write_unit() < self.page_size,
        }
    }

    /// An empty buffer for images.
    pub(crate) fn take_buffer(&self) -> AlignedBuf {
        let mut buffer = self.buffers.lock().pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    pub(crate) fn give_buffer(&self, buffer: AlignedBuf) {
        let mut buffers = self.buffers.lock();
        if buffers.len() < BUFFERS {
            buffers.push(buffer);
        }
    }

    /// Writes sealed images of pages and makes them durable. `pages`: each with the position of its image in `images`, in that order.
    ///
    /// # Errors
    /// Of the write, with nothing taken; of the sync, which poisons the database.
    pub(crate) fn write(&self, pages: &[(PageId, usize)], images: &[u8], core: &Core) -> Result<Slots> {
        let Some(file) = &self.file else { return Err(Error::invalid("the double-write file is switched off")) };
        self.prepare(&**file)?;
        let slots = self.allocate(pages, core)?;
        if let Err(e) = self.write_slots(&**file, &slots, pages, images) {
            self.finish(slots, &[]);
            return Err(e);
        }
        core.metrics.inc(Counter::DblwrWrites);
        core.metrics.add(Counter::DblwrPagesWritten, pages.len() as u64);
        if let Err(e) = self.sync(&**file, core) {
            self.finish(slots, &[]);
            return Err(e);
        }
        Ok(slots)
    }

    /// One request for all that follow one another, in the file and in memory.
    fn write_slots(&self, file: &dyn File, slots: &Slots, pages: &[(PageId, usize)], images: &[u8]) -> Result<()> {
        let places: Vec<(u32, usize)> = slots.slots.iter().zip(pages).map(|(slot, page)| (slot.1, page.1)).collect();
        for run in places.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 + 1 == b.1) {
            let (slot, image) = run[0];
            file.write_at(self.offset(slot), &images[image * self.page_size..][..run.len() * self.page_size])?;
        }
        Ok(())
    }

    /// Before the first use: the file has its full length, so that it does not run out of space later.
    fn prepare(&self, file: &dyn File) -> Result<()> {
        let mut state = self.state.lock();
        if !state.ready {
            let len = self.offset(2 * self.area);
            if file.len()? < len {
                file.set_len(len)?;
                file.sync()?;
            }
            self.disk.sync_dir()?;
            state.ready = true;
        }
        Ok(())
    }

    fn offset(&self, slot: u32) -> u64 {
        u64::from(slot) * self.page_size as u64
    }

    fn allocate(&self, pages: &[(PageId, usize)], core: &Core) -> Result<Slots> {
        let mut state = self.state.lock();
        loop {
            let current = state.current;
            if let Some(slots) = state.fit(pages, self.area) {
                state.in_flight[current] += 1;
                return Ok(Slots { area: current, slots });
            }
            if state.next == 0 {
                return Err(Error::DiskFull(
                    "writing pages: too many failed page writes keep the double-write file".into(),
                ));
            }
            let other = 1 - current;
            if state.in_flight[other] > 0 {
                self.changed.wait(&mut state);
                continue;
            }
            // Everything written home from the other area so far is `done` in `Unsynced`.
            drop(state);
            core.sync_home()?;
            state = self.state.lock();
            if state.current == current && state.in_flight[other] == 0 {
                (state.current, state.next) = (other, 0);
                self.changed.notify_all();
            }
        }
    }

    /// Waits until everything written to the file before is durable; concurrent callers share syncs.
    fn sync(&self, file: &dyn File, core: &Core) -> Result<()> {
        let mut state = self.state.lock();
        state.written += 1;
        let mine = state.written;
        while state.synced < mine {
            core.wal.check_poisoned()?;
            if state.syncing {
                self.changed.wait(&mut state);
                continue;
            }
            state.syncing = true;
            let upto = state.written;
            drop(state);
            let result = file.sync();
            state = self.state.lock();
            state.syncing = false;
            match &result {
                Ok(()) => state.synced = state.synced.max(upto),
                Err(e) => core.wal.poison(&format!("a sync of {NAME} failed: {e}")),
            }
            self.changed.notify_all();
            result?;
        }
        Ok(())
    }

    /// The batch is written home, but for the pages `failed`.
    pub(crate) fn finish(&self, slots: Slots, failed: &[PageId]) {
        let mut state = self.state.lock();
        for (id, slot) in slots.slots {
            if failed.contains(&id) {
                state.stuck.insert(id, slot);
            } else if !state.stuck.is_empty() {
                state.stuck.remove(&id);
            }
        }
        state.in_flight[slots.area] -= 1;
        drop(state);
        self.changed.notify_all();
    }
}

impl DoubleWriter {
    /// The space is gone: its pages need no good copy.
    pub(crate) fn forget(&self, space: SpaceId) {
        self.state.lock().stuck.retain(|id, _| id.space != space);
    }
}

impl State {
    /// Slots of the current area for these pages, if they fit.
    fn fit(&mut self, pages: &[(PageId, usize)], area: u32) -> Option<Vec<(PageId, u32)>> {
        let base = self.current as u32 * area;
        let mut free = (self.next..area).filter(|&s| !self.stuck.values().any(|&stuck| stuck == base + s));
        let slots: Vec<(PageId, u32)> = pages.iter().map_while(|&(id, _)| Some((id, base + free.next()?))).collect();
        drop(free);
        if slots.len() < pages.len() {
            return None;
        }
        self.next = slots.last().map_or(self.next, |&(_, slot)| slot - base + 1);
        Some(slots)
    }
}

/// Whether the damaged page `home` says that it was `image`.
fn was_image(home: &[u8], image: &[u8]) -> bool {
    [page::OFF_CHECKSUM..page::OFF_SPACE, page::OFF_LSN..page::OFF_INDEX]
        .into_iter()
        .all(|part| home[part.clone()] == image[part])
}

/// What [`restore_torn_pages`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Good page images found in the double-write file.
    pub images: usize,
    /// Pages that were damaged at home and have been replaced by their images.
    pub restored: Vec<PageId>,
    /// Pages that are damaged at home and whose newest image may be older than what was there: left as they are.
    pub stale: Vec<PageId>,
}

/// To be called when a database is opened, before redo and before its pool is made: replaces every page that is damaged
/// in its file, and has a good image in the double-write file that is not stale, by that image. `checkpoint`: where redo will begin.
/// `resolve` gives the file of a space, or `None` if the space does not exist any more.
///
/// # Errors
/// Of the reads and writes.
pub fn restore_torn_pages(
    disk: &dyn Disk,
    page_size: usize,
    checkpoint: Lsn,
    resolve: &mut dyn FnMut(SpaceId) -> Result<Option<Arc<dyn File>>>,
) -> Result<RestoreReport> {
    let mut report = RestoreReport::default();
    if !disk.exists(NAME)? {
        return Ok(report);
    }
    let file = disk.open(NAME, OpenOptions::new(FileKind::Data))?;
    let mut newest: HashMap<PageId, (Lsn, u64)> = HashMap::new();
    let mut image = AlignedBuf::zeroed(page_size);
    for slot in 0..file.len()? / page_size as u64 {
        let offset = slot * page_size as u64;
        file.read_at(offset, &mut image)?;
        let Some(header) = page::PageHeader::decode(&image) else { continue };
        if page::is_blank(&image) || page::check(&image, header.id).is_err() {
            continue;
        }
        report.images += 1;
        let known = newest.entry(header.id).or_insert((header.lsn, offset));
        if known.0 < header.lsn {
            *known = (header.lsn, offset);
        }
    }
    let mut home = AlignedBuf::zeroed(page_size);
    let mut images: Vec<(PageId, Lsn, u64)> = newest.into_iter().map(|(id, (lsn, offset))| (id, lsn, offset)).collect();
    images.sort_unstable();
    for (id, lsn, offset) in images {
        let Some(target) = resolve(id.space)? else { continue };
        let at = u64::from(id.no.0) * page_size as u64;
        let damaged = match target.read_at(at, &mut home) {
            Ok(()) => page::check(&home, id).is_err(),
            // The file ends before or within the page.
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::UnexpectedEof => {
                home.fill(0);
                true
            }
            Err(e) => return Err(e),
        };
        if !damaged {
            continue;
        }
        file.read_at(offset, &mut image)?;
        if lsn <= checkpoint && !was_image(&home, &image) {
            report.stale.push(id);
            continue;
        }
        target.write_at(at, &image)?;
        target.sync()?;
        report.restored.push(id);
    }
    Ok(report)
}
