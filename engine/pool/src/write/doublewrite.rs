//! The double-write file: a good copy of every page is durable here before the page is overwritten
//! at home, so that a power cut in the middle of a page write leaves one.
//!
//! ```text
//! file `doublewrite`:  | area 0: 128 slots | area 1: 128 slots | ...  slot: a page image, sealed
//! ```
//!
//! A page image names its page and carries its own checksum, so the file needs no directory.
//! Batches fill the current area slot by slot, each with one write and one sync (concurrent batches
//! share syncs).
//!
//! **Images are relied on again.** A page that is written once more needs no other image as long as
//! the one it has stands in the file and the log has all that changed the page since: if that write
//! is torn, recovery starts from the older image, and redo brings the page to where it was (the log
//! is durable up to what is written home, as always). The log has it as long as the checkpoint does
//! not pass the *rec_lsn* of the image: the start of the first change that was not in the page's
//! file before. So a batch relies on images only if
//! [`Unsynced`](crate::checkpoint::unsynced::Unsynced) holds the checkpoint back to there until its
//! writes are durable, and has an image written where the checkpoint, or one that is being taken,
//! is further. A page that goes out often has one image for each checkpoint.
//!
//! **Areas are used in turn.** The file grows by an area when the last one is full, up to a limit
//! and as long as the disk has room. From then on a quarter of the areas is *retired* at a time,
//! the oldest images: no batch relies on them from then on, the batches that do have written their
//! pages home, and these are synced. The slot of a page whose home write failed is not used again
//! until that page has been written after all. Nor is that of an image which an open found and
//! could not use, until its space is gone: the file may then have so many areas more.
//!
//! What becomes of the images at open: see [`restore`](crate::write::restore).
//!
//! Lock order: `state` is a leaf; no thread waits under it except on its own condition variable,
//! whose waiters wait for home writes of other threads. A batch gets slots and images to rely on at
//! one moment, so it holds none while it waits.

use std::sync::Arc;

use holdfast_base::HashMap;
use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_base::{Error, Lsn, PageId, Result, SpaceId};
use holdfast_io::{Create, Disk, File, FileKind, OpenOptions};
use holdfast_wal::Wal;

use crate::config::{BATCH, DoubleWrite, PoolConfig};

/// The file's name.
pub(crate) const NAME: &str = "doublewrite";
/// Slots of an area: two batches.
const AREA: u32 = 2 * BATCH as u32;
/// Areas that there are at least: one is filled while another one is retired.
const LEAST_AREAS: u32 = 2;
/// Slots of the file at most, whatever the limit: what is known of an image takes a few dozen bytes
/// of memory.
const MOST_SLOTS: u64 = 8192;

/// A page of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    pub(crate) id: PageId,
    /// Position of its image in the batch's images.
    pub(crate) image: usize,
    /// Start of its first change that is not in its file.
    pub(crate) rec_lsn: Lsn,
}

/// A durable image.
#[derive(Clone, Copy)]
struct Image {
    slot: u32,
    rec_lsn: Lsn,
}

#[derive(Default)]
struct State {
    /// Areas that the file has; 0 before the first use.
    areas: u32,
    current: u32,
    /// First slot of the current area that was not used.
    next: u32,
    /// Times that another area became the current one.
    turns: u64,
    /// Areas after the current one that are retired.
    free: u32,
    /// Pages of each area that are being written home: those whose images were written there and
    /// those that rely on one.
    in_flight: Vec<u32>,
    /// What can be relied on.
    images: HashMap<PageId, Image>,
    /// Slots that hold the only good copy of a page, perhaps.
    stuck: HashMap<PageId, u32>,
    /// Areas beyond the limit, as many as the slots take that an open could not use.
    more_areas: u32,
    /// Areas, one behind the other, that had no room for a batch because of such slots.
    blocked: u32,
    /// Writes to the file that wait for a sync, and that are synced: numbers of writes.
    written: u64,
    synced: u64,
    syncing: bool,
}

/// See the module's description.
pub(crate) struct DoubleWriter {
    file: Option<Arc<dyn File>>,
    disk: Arc<dyn Disk>,
    page_size: usize,
    most_areas: u32,
    state: Mutex<State>,
    changed: Condvar,
}

/// Areas that no batch relies on any more, and can be used again once the pages that their images
/// were for are durable.
pub(crate) struct Retired {
    turns: u64,
    areas: u32,
}

/// The images that one batch has and relies on.
pub(crate) struct Slots(Vec<Placed>);

struct Placed {
    page: Page,
    image: Image,
    /// True if the image is still to be written.
    new: bool,
}

impl Slots {
    /// The checkpoint must not pass this while the page's home write is not durable.
    pub(crate) fn rec_lsn(&self, id: PageId) -> Option<Lsn> {
        self.0.iter().find(|p| p.page.id == id).map(|p| p.image.rec_lsn)
    }

    /// How many images are still to be written.
    pub(crate) fn new_images(&self) -> usize {
        self.0.iter().filter(|p| p.new).count()
    }

    /// The oldest of those that were there before.
    pub(crate) fn oldest_relied_on(&self) -> Option<Lsn> {
        self.0.iter().filter(|p| !p.new).map(|p| p.image.rec_lsn).min()
    }
}

fn sync_failed(wal: &Wal, error: &Error) {
    wal.poison(&format!("a sync of {NAME} failed: {error}"));
}

impl DoubleWriter {
    pub(crate) fn open(config: &PoolConfig) -> Result<DoubleWriter> {
        let file = if config.doublewrite == DoubleWrite::Off {
            None
        } else {
            let options = OpenOptions::new(FileKind::Data).create(Create::IfMissing);
            Some(config.disk.open(NAME, options)?)
        };
        let slots = (config.doublewrite_bytes / config.page_size as u64).min(MOST_SLOTS);
        Ok(DoubleWriter {
            file,
            disk: config.disk.clone(),
            page_size: config.page_size,
            most_areas: (slots as u32 / AREA).max(LEAST_AREAS),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// True if a page of `file` that is written now has to go through the double-write file. Asked
    /// for each batch: a file makes the promise of atomic writes when it has done one, and takes it
    /// back when one is refused.
    pub(crate) fn is_needed(&self, mode: DoubleWrite, file: &dyn File) -> bool {
        match mode {
            DoubleWrite::On => true,
            DoubleWrite::Off => false,
            DoubleWrite::Auto => !file.writes_whole(self.page_size),
        }
    }

    fn file(&self) -> Result<&dyn File> {
        self.file.as_deref().ok_or_else(|| Error::invalid("the double-write file is switched off"))
    }

    /// Writes the images that are not there yet; one request for all that follow one another, in
    /// the file and in memory.
    pub(crate) fn write_new(&self, slots: &Slots, images: &[u8]) -> Result<()> {
        let file = self.file()?;
        let places: Vec<(u32, usize)> =
            slots.0.iter().filter(|p| p.new).map(|p| (p.image.slot, p.page.image)).collect();
        for run in places.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 + 1 == b.1) {
            let (slot, image) = run[0];
            file.write_at(self.offset(slot), &images[image * self.page_size..][..run.len() * self.page_size])?;
        }
        Ok(())
    }

    /// The new images are durable: from now on batches rely on them.
    pub(crate) fn rely_on(&self, slots: &Slots) {
        let durable = slots.0.iter().filter(|p| p.new).map(|p| (p.page.id, p.image));
        self.state.lock().images.extend(durable);
    }

    /// Before the first use: the file has its least length, so that it does not run out of space
    /// later.
    pub(crate) fn prepare(&self, wal: &Wal) -> Result<()> {
        let file = self.file()?;
        let mut state = self.state.lock();
        if state.areas == 0 {
            let (len, least) = (file.len()?, self.offset(LEAST_AREAS * AREA));
            let mut synced = Ok(());
            if len < least {
                file.set_len(least)?;
                synced = file.sync();
            }
            synced.and_then(|()| self.disk.sync_dir()).inspect_err(|e| sync_failed(wal, e))?;
            let there = u32::try_from(len / self.offset(AREA)).unwrap_or(u32::MAX);
            state.areas = there.clamp(LEAST_AREAS, self.most_areas + state.more_areas);
            state.in_flight = vec![0; state.areas as usize];
            state.free = state.areas - 1;
        }
        Ok(())
    }

    /// Images for all of these pages: those with a rec_lsn from `floor` on that there are, and
    /// slots for the others. If all areas are full, the oldest ones are retired: the caller syncs
    /// the files of the pages, calls [`DoubleWriter::reuse`], and tries again.
    pub(crate) fn allocate(&self, pages: &[Page], floor: Lsn) -> Result<Result<Slots, Retired>> {
        let file = self.file()?;
        let mut state = self.state.lock();
        loop {
            if let Some(slots) = state.fit(pages, floor) {
                state.blocked = 0;
                return Ok(Ok(slots));
            }
            if state.free > 0 || self.grow(file, &mut state) {
                state.blocked += u32::from(state.next == 0);
                if state.blocked > state.areas {
                    state.blocked = 0;
                    return Err(Error::DiskFull(
                        "writing pages: too many failed page writes keep the double-write file".into(),
                    ));
                }
                state.current = (state.current + 1) % state.areas;
                state.turns += 1;
                state.free -= 1;
                state.next = 0;
                self.changed.notify_all();
                continue;
            }
            if !state.retire() {
                return Ok(Err(Retired { turns: state.turns, areas: state.oldest_areas() }));
            }
            self.changed.wait(&mut state);
        }
    }

    /// The pages that were written home with the help of retired areas are durable.
    pub(crate) fn reuse(&self, retired: &Retired) {
        let mut state = self.state.lock();
        if state.turns == retired.turns && state.free == 0 {
            state.free = retired.areas;
        }
    }

    /// Waits until everything written to the file before is durable; concurrent callers share
    /// syncs.
    pub(crate) fn sync(&self, wal: &Wal) -> Result<()> {
        if holdfast_base::planted!("double-write-not-synced") {
            return Ok(());
        }
        let file = self.file()?;
        let mut state = self.state.lock();
        state.written += 1;
        let mine = state.written;
        while state.synced < mine {
            wal.check_poisoned()?;
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
                Err(e) => sync_failed(wal, e),
            }
            self.changed.notify_all();
            result?;
        }
        Ok(())
    }

    fn offset(&self, slot: u32) -> u64 {
        u64::from(slot) * self.page_size as u64
    }

    /// Gives the file another area, if the last one is current, the limit allows it and the disk
    /// has room. The sync after the first write there makes the length durable, too.
    fn grow(&self, file: &dyn File, state: &mut State) -> bool {
        let more = state.current + 1 == state.areas
            && state.areas < self.most_areas + state.more_areas
            && file.set_len(self.offset((state.areas + 1) * AREA)).is_ok();
        if more {
            state.areas += 1;
            state.free = 1;
            state.in_flight.push(0);
        }
        more
    }

    /// The home write of page `id` has failed: the image that it relies on is kept until it has
    /// been written after all. To be called while the page is still marked as being written: a
    /// thread that drops its space waits for the end of that, and forgets the image then.
    pub(crate) fn keep(&self, slots: &Slots, id: PageId) {
        if let Some(placed) = slots.0.iter().find(|p| p.page.id == id) {
            self.state.lock().stuck.insert(id, placed.image.slot);
        }
    }

    /// Keeps the slots of images that an open has found and could not use.
    pub(crate) fn keep_found(&self, images: &[(PageId, u32)]) {
        let mut state = self.state.lock();
        state.stuck.extend(images.iter().copied());
        state.more_areas = (images.len() as u32).div_ceil(AREA);
    }

    /// The pages are written home: an image that was [kept](DoubleWriter::keep) for one of them is
    /// not the only good copy any more. To be called while they are still marked as being written:
    /// the next write of one of them, on another thread, may fail, and keep its image, before this
    /// batch ends.
    pub(crate) fn written(&self, pages: impl Iterator<Item = PageId>) {
        let mut state = self.state.lock();
        if !state.stuck.is_empty() {
            for id in pages {
                state.stuck.remove(&id);
            }
        }
    }

    /// Releases the slots of images that no write needs any more.
    pub(crate) fn release_slots(&self, slots: &Slots) {
        let mut state = self.state.lock();
        slots.0.iter().for_each(|p| state.in_flight[(p.image.slot / AREA) as usize] -= 1);
        drop(state);
        self.changed.notify_all();
    }

    /// The space is gone: its pages need no good copy.
    pub(crate) fn forget(&self, space: SpaceId) {
        let mut state = self.state.lock();
        state.stuck.retain(|id, _| id.space != space);
        state.images.retain(|id, _| id.space != space);
    }
}

impl State {
    /// Images with a rec_lsn from `floor` on, and slots of the current area for the pages that have
    /// none, if they fit.
    fn fit(&mut self, pages: &[Page], floor: Lsn) -> Option<Slots> {
        let base = self.current * AREA;
        let mut free = (self.next..AREA).filter(|&s| !self.stuck.values().any(|&stuck| stuck == base + s));
        let mut next = self.next;
        let mut slots = Vec::with_capacity(pages.len());
        for &page in pages {
            let known = self.images.get(&page.id).filter(|image| image.rec_lsn >= floor);
            let image = match known {
                Some(&image) => image,
                None => {
                    let slot = free.next()?;
                    next = slot + 1;
                    Image { slot: base + slot, rec_lsn: page.rec_lsn }
                }
            };
            slots.push(Placed { page, image, new: known.is_none() });
        }
        self.next = next;
        slots.iter().for_each(|p| self.in_flight[(p.image.slot / AREA) as usize] += 1);
        Some(Slots(slots))
    }

    /// How many areas are retired at a time: those that follow the current one.
    fn oldest_areas(&self) -> u32 {
        (self.areas / 4).max(1)
    }

    /// True if an area that is to be retired is still needed. From now on no further batch relies
    /// on its images.
    fn retire(&mut self) -> bool {
        let (first, areas) = (self.current + 1, self.areas);
        let oldest = |area: u32| (area + areas - first % areas) % areas < self.oldest_areas();
        let retired: Vec<bool> = (0..areas).map(oldest).collect();
        self.images.retain(|_, image| !retired[(image.slot / AREA) as usize]);
        self.in_flight.iter().zip(&retired).any(|(&in_flight, &retired)| retired && in_flight > 0)
    }
}
