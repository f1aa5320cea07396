//! Spaces: one file of pages each, with its header and its allocation bitmaps.
//!
//! Page 0 is the [`header`], page 1 the first allocation [`bitmap`]; further bitmaps follow at
//! fixed distances. A page is allocated when its bit is set. Pages at and beyond the header's page
//! count do not exist: the file grows, and its storage is allocated, before the count is raised.
//!
//! Protocol: pages are allocated and freed within the caller's mini-transaction. Both latch page 0
//! first, then bitmap pages. So page 0 serialises them, and all of them are last in the lock order.
//! The caller has reserved frames for them: [`ALLOC_FRAMES`] or [`FREE_FRAMES`]. Everything that
//! can fail (a full disk) happens before the first change.
//!
//! The same space uses free pages again. Their storage goes back to the file system when the file
//! is removed, or, if they are at the end of the file, by [`SpaceFile::shrink`] and
//! [`SpaceFile::truncate_file`].

mod alloc;
pub mod bitmap;
mod check;
pub mod header;
mod rooms;
mod usage;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use holdfast_base::codec::get_u32;
use holdfast_base::page::{self, OFF_LSN, OFF_TYPE, PageType};
use holdfast_base::{Error, IndexId, Lsn, PageId, PageNo, Result, SpaceId};
use holdfast_io::{AlignedBuf, Create, Disk, File, FileKind, OpenOptions};
use holdfast_pool::{Access, AccessKind, Space};
use holdfast_wal::SpaceClass;

use crate::mtr::{Mtr, PageRef};
use crate::op::PageOp;
use crate::store::Store;
use rooms::Rooms;

pub use alloc::{ALLOC_FRAMES, FREE_BYTES, FREE_FRAMES, FreeingPage, NewPages};
pub use header::{Features, HEADER_MARKS, HEADS, MAY_GO, SpaceHeader};
pub use usage::AllocationWatch;

/// Pages of a file that was just created.
const FIRST_PAGES: u32 = 8;

/// Numbers about a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceInfo {
    /// Pages of the file.
    pub pages: u32,
    /// Pages not allocated.
    pub free_pages: u32,
    /// Pages that manage the others: the header and the bitmaps.
    pub own_pages: u32,
}

/// An open space: the pool's view of the file, and the allocation of its pages.
// In cache lines of its own, as a `Store` is.
#[repr(align(128))]
pub struct SpaceFile {
    store: Arc<Store>,
    space: Arc<Space>,
    rooms: Rooms,
    /// Incompatible features that the header is known to name.
    features: AtomicU32,
    /// The file is shorter than its page count says, since the disk was full after redo.
    is_short: AtomicBool,
}

/// How long a space is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is dropped.
    Lasting,
    /// Until the database is closed, or crashes: then it may be there, in part, or not.
    Temporary,
}

/// True if the checksum of the file's first page matches.
fn is_sound(file: &dyn File, id: SpaceId, page_size: usize) -> Result<bool> {
    let mut first = AlignedBuf::zeroed(page_size);
    file.read_at(0, &mut first)?;
    Ok(page::check(&first, PageId::new(id, PageNo(0))).is_ok())
}

impl SpaceFile {
    /// Creates the file `name`. Header and first bitmap are written and durable when this returns,
    /// so they need no log. The directory entry is durable too.
    ///
    /// # Errors
    /// If the file exists; [`Error::DiskFull`], with the file removed again; other errors of the
    /// disk.
    pub fn create(
        store: &Arc<Store>,
        disk: &dyn Disk,
        id: SpaceId,
        name: &str,
        uuid: [u8; 16],
    ) -> Result<Arc<SpaceFile>> {
        SpaceFile::create_for(Lifetime::Lasting, store, disk, id, name, uuid)
    }

    /// As [`SpaceFile::create`]; a temporary one is not durable when this returns.
    ///
    /// # Errors
    /// The errors of [`SpaceFile::create`].
    pub fn create_for(
        lifetime: Lifetime,
        store: &Arc<Store>,
        disk: &dyn Disk,
        id: SpaceId,
        name: &str,
        uuid: [u8; 16],
    ) -> Result<Arc<SpaceFile>> {
        let page_size = store.page_size();
        let file = disk.open(name, OpenOptions::new(FileKind::Data).create(Create::New))?;
        // The file has all pages that its header counts.
        let long_enough = file.set_len(u64::from(FIRST_PAGES) * page_size as u64);
        let made = long_enough.and_then(|()| match lifetime {
            Lifetime::Lasting => {
                write_first_pages(file.as_ref(), id, uuid, page_size, store.wal().next_lsn())?;
                file.sync()?;
                disk.sync_dir()
            }
            Lifetime::Temporary => Ok(()),
        });
        if let Err(error) = made {
            drop(file);
            // The caller gets the first error. An open of the database removes an orphan file.
            let _ = disk.remove(name);
            return Err(error);
        }
        let space = SpaceFile::attach(store, store.pool().open_space(id, file)?, 0);
        if lifetime == Lifetime::Temporary
            && let Err(error) = space.log_first_pages(uuid)
        {
            let _ = space.close(true).and_then(|()| disk.remove(name));
            return Err(error);
        }
        Ok(space)
    }

    /// Makes the first pages by a mini-transaction, in the pool alone: most temporary spaces are
    /// dropped before any of their pages is written. After a crash redo makes the file whole, or
    /// the file is no space.
    fn log_first_pages(&self, uuid: [u8; 16]) -> Result<()> {
        let acc = self.store.pool().access(AccessKind::Point);
        let ticket = self.store.reserve(512, SpaceClass::User)?;
        let _frames = self.store.pool().reserve_frames(2, &acc)?;
        let mut mtr = self.store.begin(ticket, &acc);
        let pages = [mtr.fix_new(&self.space, PageNo(0))?, mtr.fix_new(&self.space, PageNo(1))?];
        make_first_pages(self.id(), uuid, self.page_size(), |no, op| mtr.apply(pages[no.0 as usize], op))?;
        mtr.commit().map(drop)
    }

    /// Opens the file `name` after a check that it is space `id` of the database `uuid`, in a
    /// format that this version can read.
    ///
    /// # Errors
    /// [`Error::NotADatabase`], [`Error::Incompatible`], [`Error::DamagedFile`] with what does not
    /// fit; errors of the disk.
    pub fn open(
        store: &Arc<Store>,
        disk: &dyn Disk,
        id: SpaceId,
        name: &str,
        uuid: [u8; 16],
        read_only: bool,
    ) -> Result<Arc<SpaceFile>> {
        let file = disk.open(name, OpenOptions::new(FileKind::Data).read_only(read_only))?;
        let found = SpaceFile::read_header(file.as_ref(), store.page_size())?;
        let checked = found.check(name, id, uuid, store.page_size());
        if matches!(checked, Err(Error::Incompatible(_))) && !is_sound(file.as_ref(), id, store.page_size())? {
            // A flipped bit names a newer version, too.
            return Err(Error::damaged_file(name, "the checksum of its header does not match"));
        }
        checked?;
        let space = store.pool().open_space(id, file)?;
        Ok(SpaceFile::attach(store, space, found.features.incompatible))
    }

    /// Opens the file `name` whatever its header says, so that redo brings its pages up to date and
    /// a salvage finds them.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn open_headless(store: &Arc<Store>, disk: &dyn Disk, id: SpaceId, name: &str) -> Result<Arc<SpaceFile>> {
        let file = disk.open(name, OpenOptions::new(FileKind::Data))?;
        Ok(SpaceFile::attach(store, store.pool().open_space(id, file)?, 0))
    }

    /// Opens the file `name` whatever its header says and whatever the log of `store`,
    /// to save what can be read of it.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn open_unchecked(store: &Arc<Store>, disk: &dyn Disk, id: SpaceId, name: &str) -> Result<Arc<SpaceFile>> {
        let file = disk.open(name, OpenOptions::new(FileKind::Data))?;
        let space = store.pool().open_space_of_another_log(id, file)?;
        Ok(SpaceFile::attach(store, space, 0))
    }

    /// Reads and decodes the header page of a file, which need not belong to a known database.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if it is no space file; [`Error::DamagedFile`] if it was one; errors
    /// of the disk.
    pub fn read_header(file: &dyn File, page_size: usize) -> Result<SpaceHeader> {
        if file.len()? < page_size as u64 {
            return Err(Error::NotADatabase(file.name().to_string()));
        }
        let mut buf = AlignedBuf::zeroed(page_size);
        file.read_at(0, &mut buf)?;
        SpaceHeader::decode(&buf).ok_or_else(|| Error::NotADatabase(file.name().to_string()))
    }

    fn attach(store: &Arc<Store>, space: Arc<Space>, features: u32) -> Arc<SpaceFile> {
        let (store, rooms, is_short) = (Arc::clone(store), Rooms::default(), AtomicBool::new(false));
        Arc::new(SpaceFile { store, space, rooms, features: AtomicU32::new(features), is_short })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> SpaceId {
        self.space.id()
    }

    /// The pool's handle.
    #[must_use]
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// What it was opened with.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The address of a page of this space.
    #[must_use]
    pub fn page_id(&self, no: PageNo) -> PageId {
        PageId::new(self.id(), no)
    }

    fn page_size(&self) -> usize {
        self.store.page_size()
    }

    /// Closes the file. `discard`: drops its dirty pages unwritten, because the table was dropped.
    ///
    /// # Errors
    /// The errors of writing the dirty pages.
    pub fn close(&self, discard: bool) -> Result<()> {
        self.store.pool().close_space(&self.space, discard)
    }

    /// The header as it is now.
    ///
    /// # Errors
    /// The errors of reading the page.
    pub fn header(&self, acc: &Access<'_>) -> Result<SpaceHeader> {
        let page = self.store.pool().fix_shared(&self.space, PageNo(0), acc)?;
        let header = SpaceHeader::decode(&page);
        let header = header.ok_or_else(|| Error::damaged_page(page.id(), "it should be the header of a space"))?;
        self.pages_of(&page)?;
        Ok(header)
    }

    /// Latches page 0, the first of the space's own pages in the lock order.
    ///
    /// # Errors
    /// [`Error::DamagedPage`] if it is no header; the errors of reading it.
    fn fix_header(&self, mtr: &mut Mtr<'_>) -> Result<PageRef> {
        let header = mtr.fix(self.space(), PageNo(0))?;
        if mtr.bytes(header).get(OFF_TYPE) != Some(&(PageType::SpaceHeader as u8)) {
            return Err(self.damaged(PageNo(0), "it should be the header of a space"));
        }
        Ok(header)
    }

    /// The page count in page 0, whose bytes are `head`.
    fn pages_of(&self, head: &[u8]) -> Result<u32> {
        let pages = get_u32(head, header::OFF_PAGES).filter(|&pages| pages >= FIRST_PAGES);
        pages.ok_or_else(|| self.damaged(PageNo(0), "the space header counts too few pages"))
    }

    /// Pages that the header counts, all of which the file has.
    ///
    /// # Errors
    /// [`Error::DamagedFile`] if the file ends before; [`Error::DiskFull`] if there was no room for
    /// all of it when the database was opened, and is none now; the errors of reading the header
    /// and of the disk.
    pub fn whole_pages(&self, acc: &Access<'_>) -> Result<u32> {
        self.make_whole(acc)?;
        // The file grows before the header counts more pages, and is truncated after it counts
        // fewer. With page 0 latched neither is half done.
        let header = self.store.pool().fix_shared(&self.space, PageNo(0), acc)?;
        let damaged = || Error::damaged_page(header.id(), "it should be the header of a space");
        let pages = SpaceHeader::decode(&header).ok_or_else(damaged)?.pages;
        let (file, page_size) = (self.space.file(), self.page_size() as u64);
        let there = file.len()? / page_size;
        if there < u64::from(pages) {
            let what = format!("it ends after {there} pages, and its header counts {pages}");
            return Err(Error::damaged_file(file.name(), what));
        }
        Ok(pages)
    }

    /// Makes the header name an incompatible feature before its first use: a version that does not
    /// know the feature refuses the file from then on. The first call writes.
    ///
    /// # Errors
    /// The errors of the log and of reading the page.
    pub fn require(&self, feature: u32, acc: &Access<'_>) -> Result<()> {
        if self.features.load(Ordering::Acquire) & feature == feature {
            return Ok(());
        }
        let ticket = self.store.reserve(64, Store::class_of(acc))?;
        let mut mtr = self.store.begin(ticket, acc);
        let page = self.fix_header(&mut mtr)?;
        let damaged = || self.store.damaged(mtr.id(page), "it should be the header of a space");
        let known = SpaceHeader::decode(mtr.bytes(page)).ok_or_else(damaged)?.features.incompatible;
        let (offset, bytes) = (header::OFF_INCOMPATIBLE as u16, (known | feature).to_le_bytes());
        mtr.apply(page, &PageOp::WriteBytes { offset, bytes: &bytes })?;
        mtr.commit()?;
        self.features.fetch_or(feature, Ordering::Release);
        Ok(())
    }

    /// One of the [`HEADER_MARKS`] numbers that the header keeps for the floors above (an
    /// AUTO_INCREMENT's high-water mark).
    ///
    /// # Errors
    /// The errors of reading the page.
    ///
    /// # Panics
    /// If there is no such mark.
    pub fn mark(&self, which: usize, acc: &Access<'_>) -> Result<u64> {
        assert!(which < HEADER_MARKS);
        Ok(self.header(acc)?.marks[which])
    }

    /// Sets a mark within a mini-transaction.
    ///
    /// # Errors
    /// The errors of reading the page.
    ///
    /// # Panics
    /// If there is no such mark.
    pub fn set_mark_in(&self, mtr: &mut Mtr<'_>, which: usize, value: u64) -> Result<()> {
        assert!(which < HEADER_MARKS);
        let page = self.fix_header(mtr)?;
        let offset = (header::OFF_MARKS + which * 8) as u16;
        mtr.apply(page, &PageOp::WriteBytes { offset, bytes: &value.to_le_bytes() })
    }

    /// Sets a mark in a mini-transaction of its own. Returns the log position to flush to, to make
    /// it durable.
    ///
    /// # Errors
    /// The errors of the log and of reading the page.
    ///
    /// # Panics
    /// If there is no such mark.
    pub fn set_mark(&self, which: usize, value: u64, acc: &Access<'_>) -> Result<Lsn> {
        let ticket = self.store.reserve(64, SpaceClass::User)?;
        let mut mtr = self.store.begin(ticket, acc);
        self.set_mark_in(&mut mtr, which, value)?;
        mtr.commit()
    }

    /// Says in the header whether what is in the file is a part of something that is being made
    /// ([`SpaceHeader::is_filling`]). Durable before what is logged later.
    ///
    /// # Errors
    /// The errors of the log and of reading the page.
    pub fn set_filling(&self, is_filling: bool, acc: &Access<'_>) -> Result<()> {
        self.set_state(if is_filling { header::FILLING } else { 0 }, None, acc)
    }

    /// Says in the header that what was being made has been thrown away: the trees are empty
    /// ([`SpaceHeader::emptied`]). Durable before what is logged later.
    ///
    /// # Errors
    /// The errors of the log and of reading the page.
    pub fn set_emptied(&self, acc: &Access<'_>) -> Result<()> {
        self.set_state(0, Some(self.store.wal().next_lsn()), acc)
    }

    fn set_state(&self, state: u64, emptied: Option<Lsn>, acc: &Access<'_>) -> Result<()> {
        let ticket = self.store.reserve(128, SpaceClass::User)?;
        let mut mtr = self.store.begin(ticket, acc);
        let page = self.fix_header(&mut mtr)?;
        let compatible = get_u32(mtr.bytes(page), header::OFF_COMPATIBLE).unwrap_or(0);
        if compatible & header::FILLINGS == 0 {
            let bytes = (compatible | header::FILLINGS).to_le_bytes();
            mtr.apply(page, &PageOp::WriteBytes { offset: header::OFF_COMPATIBLE as u16, bytes: &bytes })?;
        }
        self.set_mark_in(&mut mtr, header::STATE, state)?;
        if let Some(Lsn(emptied)) = emptied {
            self.set_mark_in(&mut mtr, header::EMPTIED, emptied)?;
            self.set_mark_in(&mut mtr, header::EMPTIED + 1, !emptied)?;
        }
        mtr.commit().map(drop)
    }

    fn damaged(&self, no: PageNo, what: &str) -> Error {
        self.store.damaged(PageId::new(self.id(), no), what)
    }
}

impl fmt::Debug for SpaceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpaceFile").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// The operations that make header and first bitmap of a new file out of pages of zeros.
fn make_first_pages(
    id: SpaceId,
    uuid: [u8; 16],
    page_size: usize,
    mut apply: impl FnMut(PageNo, &PageOp<'_>) -> Result<()>,
) -> Result<()> {
    let mut header = vec![0; header::END];
    let mut new = SpaceHeader::new(id, uuid, page_size, FIRST_PAGES);
    new.marks[MAY_GO] = 1;
    new.encode(&mut header);
    let (offset, bytes) = (page::HEADER_LEN as u16, &header[page::HEADER_LEN..]);
    let (first, second) = (PageNo(0), PageNo(1));
    apply(first, &PageOp::InitPage { page_type: PageType::SpaceHeader, index: IndexId(0) })?;
    apply(first, &PageOp::WriteBytes { offset, bytes })?;
    apply(second, &PageOp::InitPage { page_type: PageType::Allocation, index: IndexId(0) })?;
    apply(second, &PageOp::SetBits { first: 0, count: 2 })
}

/// Header and first bitmap of a new file, written.
fn write_first_pages(file: &dyn File, id: SpaceId, uuid: [u8; 16], page_size: usize, lsn: Lsn) -> Result<()> {
    let mut buf = AlignedBuf::zeroed(2 * page_size);
    let (first, second) = buf.split_at_mut(page_size);
    make_first_pages(id, uuid, page_size, |no, op| {
        op.apply(PageId::new(id, no), if no == PageNo(0) { &mut *first } else { &mut *second })
    })?;
    for half in [first, second] {
        holdfast_base::codec::put_u64(half, OFF_LSN, lsn.0);
        page::seal(half);
    }
    file.write_at(0, &buf)
}
