//! Verification of a space: its header, its bitmaps, and whether the pages that trees and chains
//! reach are the allocated pages. Shortening of a file whose end is free.

use std::sync::atomic::Ordering;

use holdfast_base::limits::EXTENT_PAGES;
use holdfast_base::{Lsn, PageNo, Result};
use holdfast_io::AlignedBuf;
use holdfast_pool::Access;
use holdfast_wal::SpaceClass;

use super::bitmap::{ALLOCATED_BEYOND, bitmaps};
use super::{FIRST_PAGES, FREE_BYTES, FREE_FRAMES, SpaceFile, bitmap, header};
use crate::finding::{PageFinding, PageSet};
use crate::op::PageOp;

/// Pages that are given back by one mini-transaction.
const BATCH: usize = 64;
/// Pages behind the end of a file that are read at a time.
const TAIL_PIECE: usize = 64;

impl SpaceFile {
    /// Compares the bitmaps with `reached`, all pages that the space's trees, overflow chains and
    /// undo logs reach, and reports each difference to `sink`. No thread may allocate or free pages
    /// of this space meanwhile.
    ///
    /// # Errors
    /// The errors of reading pages other than damage, which is reported;
    /// [`holdfast_base::Error::DiskFull`] as of [`SpaceFile::whole_pages`].
    pub fn verify(&self, reached: &PageSet, acc: &Access<'_>, sink: &mut dyn FnMut(PageFinding)) -> Result<()> {
        let found = match self.header(acc) {
            Ok(found) => found,
            Err(error) if error.is_damage() => {
                sink(PageFinding::damage(self.page_id(PageNo(0)), error.to_string()));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.make_whole(acc)?;
        let page_size = self.page_size();
        let len = self.space().file().len()?;
        if len < u64::from(found.pages) * page_size as u64 {
            let what = format!("the header counts {} pages, the file has {len} bytes", found.pages);
            sink(PageFinding::damage(self.page_id(PageNo(0)), what));
        }
        let there = found.pages.min(u32::try_from(len.div_ceil(page_size as u64)).unwrap_or(u32::MAX));
        for no in bitmaps(there, page_size) {
            let page = match self.store.pool().fix_shared(self.space(), no, acc) {
                Ok(page) => page.to_vec(),
                Err(error) if error.is_damage() => {
                    sink(PageFinding::damage(self.page_id(no), error.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.verify_bitmap(&page, no, found.pages, reached, sink);
        }
        if let Some(no) = self.used_behind(found.pages, acc)? {
            sink(PageFinding::damage(self.page_id(no), ALLOCATED_BEYOND));
        }
        for no in reached.iter().filter(|no| no.0 >= found.pages) {
            sink(PageFinding::damage(self.page_id(no), "in use, but beyond the end of the file"));
        }
        Ok(())
    }

    fn verify_bitmap(&self, page: &[u8], no: PageNo, pages: u32, reached: &PageSet, sink: &mut dyn FnMut(PageFinding)) {
        let first = bitmap::first_covered(no);
        if !bitmap::is_typed(page) {
            sink(PageFinding::damage(self.page_id(no), "it should be an allocation bitmap"));
            return;
        }
        let covered = bitmap::pages_covered(self.page_size());
        let inside = pages.saturating_sub(first).min(covered);
        // Behind the end all should be free: looked at one by one only if they are not.
        let end = if bitmap::all_equal(page, inside, covered - inside, false) { inside } else { covered };
        for bit in 0..end {
            let at = PageNo(first + bit);
            let allocated = bitmap::all_equal(page, bit, 1, true);
            let own = at.0 == 0 || bitmap::is_bitmap(at, self.page_size());
            let what = if at.0 >= pages {
                allocated.then_some("allocated, but beyond the end of the file")
            } else if own {
                (!allocated).then_some("header and bitmap pages have to be allocated")
            } else if reached.contains(at) {
                (!allocated).then_some("in use, but not allocated")
            } else {
                if allocated {
                    sink(PageFinding::leak(self.page_id(at), "allocated, but nothing leads to it"));
                }
                None
            };
            if let Some(what) = what {
                sink(PageFinding::damage(self.page_id(at), what));
            }
        }
    }

    /// The pages that are allocated but not in `reached`: an interrupted bulk load or a crash
    /// leaves such pages. The condition of [`SpaceFile::verify`] holds here, too.
    ///
    /// # Errors
    /// The errors of reading pages.
    pub fn unreached(&self, reached: &PageSet, acc: &Access<'_>) -> Result<Vec<PageNo>> {
        let mut lost = Vec::new();
        self.verify(reached, acc, &mut |finding| {
            if finding.severity == crate::finding::Severity::Leak {
                lost.push(finding.page.no);
            }
        })?;
        Ok(lost)
    }

    /// Shows `visit` those of `pages`, to which nothing leads, that can be read. What is not in the
    /// pool is read past it: such a page may be damaged, or free by now and hold anything, and the
    /// pool disables the table of a page that it finds damaged.
    ///
    /// # Errors
    /// The errors of reading pages, but for pages that are damaged or that the device does not
    /// return.
    pub fn visit_unreached(
        &self,
        pages: impl IntoIterator<Item = PageNo>,
        acc: &Access<'_>,
        visit: &mut dyn FnMut(PageNo, &[u8]),
    ) -> Result<()> {
        let (pool, space) = (self.store.pool(), self.space());
        let mut bytes = AlignedBuf::zeroed(self.page_size());
        for no in pages {
            let read = if pool.is_resident(space, no) {
                pool.fix_shared(space, no, acc).map(|page| bytes.copy_from_slice(&page))
            } else {
                let read = space.file().read_at(u64::from(no.0) * bytes.len() as u64, &mut bytes);
                read.and_then(|()| pool.check_page(space, &bytes, no).map(drop))
            };
            match read {
                Err(error) if error.is_damage() || error.is_unread() => {}
                read => {
                    read?;
                    visit(no, &bytes);
                }
            }
        }
        Ok(())
    }

    /// Gives pages back to which nothing leads any more, in batches.
    ///
    /// # Errors
    /// The errors of [`SpaceFile::free_unlatched`]; errors of the log. Some of the pages may be
    /// free then.
    pub fn free_pages(&self, pages: &[PageNo], class: SpaceClass, acc: &Access<'_>) -> Result<()> {
        self.batches(pages).try_for_each(|batch| self.free_batch(batch, class, acc))
    }

    /// The pages as [`SpaceFile::free_batch`] takes them: one bitmap for each mini-transaction.
    pub(crate) fn batches<'p>(&self, pages: &'p [PageNo]) -> impl Iterator<Item = &'p [PageNo]> + use<'p> {
        let size = self.page_size();
        let groups = pages.chunk_by(move |a, b| bitmap::page_for(*a, size) == bitmap::page_for(*b, size));
        groups.flat_map(|group| group.chunks(BATCH))
    }

    /// Gives back all pages of a batch, or none.
    pub(crate) fn free_batch(&self, batch: &[PageNo], class: SpaceClass, acc: &Access<'_>) -> Result<()> {
        let ticket = self.store.reserve(batch.len() * FREE_BYTES, class)?;
        let _frames = self.store.pool().reserve_frames(FREE_FRAMES, acc)?;
        let mut mtr = self.store.begin(ticket, acc);
        self.free_unlatched(&mut mtr, batch)?;
        mtr.commit().map(drop)
    }

    /// Lowers the page count to just behind the last allocated page. [`SpaceFile::truncate_file`]
    /// makes the file itself shorter after the next checkpoint. Returns the number of pages given
    /// up, and the log position that the checkpoint has to pass.
    ///
    /// # Errors
    /// The errors of the log and of reading pages.
    pub fn shrink(&self, acc: &Access<'_>) -> Result<(u32, Lsn)> {
        let (mut given_up, mut end) = (0, Lsn(0));
        while let Some((pages, lsn)) = self.shrink_by_a_bitmap(acc)? {
            (given_up, end) = (given_up + pages, lsn);
        }
        Ok((given_up, end))
    }

    /// Gives up the free pages at the end of the file that the last bitmap covers, and the bitmap
    /// with them if all of it is free. Returns the number of pages given up, if there were any.
    fn shrink_by_a_bitmap(&self, acc: &Access<'_>) -> Result<Option<(u32, Lsn)>> {
        let ticket = self.store.reserve(256, SpaceClass::User)?;
        let _frames = self.store.pool().reserve_frames(FREE_FRAMES, acc)?;
        let mut mtr = self.store.begin(ticket, acc);
        let head = self.fix_header(&mut mtr)?;
        let pages = self.pages_of(mtr.bytes(head))?;
        let Some(no) = bitmaps(pages, self.page_size()).last() else { return Ok(None) };
        let behind = match self.last_in(no, self.fix_bitmap(&mut mtr, no)?, pages) {
            Some(last) => last.0 + 1,
            None => bitmap::first_covered(no),
        };
        let target = behind.max(FIRST_PAGES);
        let target = if target <= EXTENT_PAGES { target } else { target.next_multiple_of(EXTENT_PAGES) };
        if target >= pages {
            return Ok(None);
        }
        let offset = header::OFF_PAGES as u16;
        mtr.apply(head, &PageOp::WriteBytes { offset, bytes: &target.to_le_bytes() })?;
        self.note_pages(target);
        if no.0 < target {
            self.note_room(no, self.fix_bitmap(&mut mtr, no)?, target);
        }
        let end = mtr.commit()?;
        Ok(Some((pages - target, end)))
    }

    /// Truncates the file behind its last page, if `checkpoint`, the LSN of the last checkpoint,
    /// has passed `shrunk`, the position that [`SpaceFile::shrink`] returned. Returns whether it
    /// did. The file is shorter after a power cut, too, and does not grow before: otherwise it
    /// could grow into what a power cut has left of the pages.
    ///
    /// # Errors
    /// The errors of the disk and of reading the header.
    pub fn truncate_file(&self, shrunk: Lsn, checkpoint: Lsn, acc: &Access<'_>) -> Result<bool> {
        if checkpoint < shrunk {
            return Ok(false);
        }
        let head = self.store.pool().fix_exclusive(self.space(), PageNo(0), acc)?;
        let pages = header::SpaceHeader::decode(head.bytes())
            .ok_or_else(|| self.damaged(PageNo(0), "it should be the header of a space"))?
            .pages;
        self.space().will_be_cut(pages);
        self.space().file().set_len(u64::from(pages) * self.page_size() as u64)?;
        self.store.pool().sync_space(self.space())?;
        drop(head);
        Ok(true)
    }

    /// Checks that no page is allocated behind the last one that the header counts. To be called
    /// before what lies there is cut off, or left out of a copy: a count that is damaged must not
    /// take pages along.
    ///
    /// # Errors
    /// [`holdfast_base::Error::DamagedPage`] if there is one; the errors of reading pages.
    pub fn check_end(&self, acc: &Access<'_>) -> Result<()> {
        loop {
            let pages = self.header(acc)?.pages;
            let found = match self.last_bitmap_ends_at(pages, acc)? {
                true => self.used_behind(pages, acc)?,
                false => bitmaps(pages, self.page_size()).last(),
            };
            let Some(no) = found else { return Ok(()) };
            // The file may have grown, or become shorter, in between.
            if self.header(acc)?.pages == pages {
                return Err(self.damaged(no, ALLOCATED_BEYOND));
            }
        }
    }

    /// True if the last bitmap of a file of `pages` pages is there, and has nothing allocated
    /// behind them.
    fn last_bitmap_ends_at(&self, pages: u32, acc: &Access<'_>) -> Result<bool> {
        let Some(no) = bitmaps(pages, self.page_size()).last() else { return Ok(true) };
        let (inside, covered) = (pages - bitmap::first_covered(no), bitmap::pages_covered(self.page_size()));
        let Some(page) = self.bitmap(no, acc)? else { return Ok(false) };
        Ok(inside >= covered || bitmap::all_equal(&page, inside, covered - inside, false))
    }

    /// The first bitmap page of the file that lies behind its `pages` pages and has another page
    /// allocated than itself: the count is too small. One that was given up has none, and what
    /// cannot be read there is no bitmap.
    fn used_behind(&self, pages: u32, acc: &Access<'_>) -> Result<Option<PageNo>> {
        let mut found = None;
        self.visit_unreached(self.bitmaps_behind(pages)?, acc, &mut |no, bytes| {
            if found.is_none() && bitmap::is_typed(bytes) && !bitmap::is_given_up(bytes) {
                found = Some(no);
            }
        })?;
        Ok(found)
    }

    /// Where the file has bitmap pages behind its `pages` pages, if it is longer.
    fn bitmaps_behind(&self, pages: u32) -> Result<impl Iterator<Item = PageNo> + use<>> {
        let there = self.space().file().len()? / self.page_size() as u64;
        let there = u32::try_from(there).unwrap_or(u32::MAX);
        Ok(bitmaps(there, self.page_size()).filter(move |no| no.0 >= pages))
    }

    /// Checks a page that is about to become the bitmap of new pages, latched for that: what is
    /// there must not be a bitmap that is in use.
    pub(super) fn check_new_bitmap(&self, no: PageNo, latched: &[u8]) -> Result<()> {
        let check = |bytes: &[u8]| match bitmap::is_given_up(bytes) {
            true => Ok(()),
            false => Err(self.damaged(no, ALLOCATED_BEYOND)),
        };
        if bitmap::is_typed(latched) {
            return check(latched);
        }
        // It was not in the pool: its file may have it.
        let (file, mut bytes) = (self.space().file(), AlignedBuf::zeroed(self.page_size()));
        let read = file.read_at(u64::from(no.0) * bytes.len() as u64, &mut bytes);
        match read.and_then(|()| self.store.pool().check_page(self.space(), &bytes, no)) {
            Ok(_) if bitmap::is_typed(&bytes) => check(&bytes),
            Err(error) if !error.is_damage() && !error.is_unread() => Err(error),
            _ => Ok(()),
        }
    }

    /// True if the file is longer than its page count says: a crash came between a change of the
    /// one and of the other.
    ///
    /// # Errors
    /// The errors of the disk and of reading the header.
    pub fn has_tail(&self, acc: &Access<'_>) -> Result<bool> {
        let head = self.store.pool().fix_shared(self.space(), PageNo(0), acc)?;
        let len = u64::from(self.pages_of(&head)?) * self.page_size() as u64;
        Ok(self.space().file().len()? > len)
    }

    /// Called once when a database is opened, after redo. Where the file is longer than its page
    /// count says, what is no page there becomes a page of zeros: a power cut while the file was
    /// cut may have left parts of pages, and the file grows into them. Pages are left as they are,
    /// since the log may still have records of them.
    ///
    /// # Errors
    /// The errors of the disk and of reading the header.
    pub fn wipe_tail(&self, acc: &Access<'_>) -> Result<()> {
        if !self.has_tail(acc)? {
            return Ok(());
        }
        let (pool, file, size) = (self.store.pool(), self.space().file(), self.page_size());
        // What redo has made is written first, or it would pass for parts of pages.
        pool.flush_space(self.space())?;
        let pages = u32::try_from(file.len()? / size as u64).unwrap_or(u32::MAX);
        let (mut piece, blank) = (AlignedBuf::zeroed(TAIL_PIECE * size), AlignedBuf::zeroed(size));
        for first in (self.header(acc)?.pages..pages).step_by(TAIL_PIECE) {
            piece.resize(TAIL_PIECE.min((pages - first) as usize) * size);
            file.read_at(u64::from(first) * size as u64, &mut piece)?;
            for (no, bytes) in (first..pages).map(PageNo).zip(piece.chunks_exact(size)) {
                if pool.check_page(self.space(), bytes, no).is_err() {
                    file.write_at(u64::from(no.0) * size as u64, &blank)?;
                }
            }
        }
        pool.sync_space(self.space())
    }

    /// Called once after redo: makes the file as long as its page count says. A crash may have
    /// undone that the file grew, although the log knows of it. Of the pages behind the end redo
    /// has made those that are in use, and they are dirty: until there is room they stay in the
    /// pool.
    ///
    /// # Errors
    /// [`holdfast_base::Error::DiskFull`], after which the space can be used all the same; other
    /// errors of the disk; damage, if the header is not valid or counts pages that have no bitmap.
    pub fn finish_recovery(&self, acc: &Access<'_>) -> Result<()> {
        let (pages, page_size) = (self.header(acc)?.pages, self.page_size());
        let (file, wanted) = (self.space().file(), u64::from(pages) * page_size as u64);
        if file.len()? >= wanted {
            return Ok(());
        }
        // Redo has made the bitmaps of pages that came in behind the checkpoint.
        for no in bitmaps(pages, page_size) {
            let page = self.store.pool().fix_shared(self.space(), no, acc)?;
            if !bitmap::is_typed(&page) {
                return Err(self.damaged(PageNo(0), "its header counts more pages than there are"));
            }
        }
        self.is_short.store(true, Ordering::Release);
        self.make_whole(acc)
    }

    /// Called when a database is opened, after [`SpaceFile::finish_recovery`]: makes a file longer
    /// that lacks nothing but free pages at its end, since an earlier life of the database had no
    /// room for them. A file that lacks others is damaged, and stays as it is.
    ///
    /// # Errors
    /// The errors of the disk and of reading header and bitmaps.
    pub fn add_missing_end(&self, acc: &Access<'_>) -> Result<()> {
        let there = self.space().file().len()? / self.page_size() as u64;
        if there < u64::from(self.header(acc)?.pages) && u64::from(self.last_allocated(acc)?.0) < there {
            self.is_short.store(true, Ordering::Release);
            self.make_whole(acc)?;
        }
        Ok(())
    }

    /// Makes the file as long as its page count says, if there was no room for that after redo.
    ///
    /// # Errors
    /// The errors of the disk and of reading the header.
    pub(super) fn make_whole(&self, acc: &Access<'_>) -> Result<()> {
        if !self.is_short.load(Ordering::Acquire) {
            return Ok(());
        }
        // Latched, the count does not change: the file never gets shorter here.
        let head = self.store.pool().fix_exclusive(self.space(), PageNo(0), acc)?;
        let wanted = u64::from(self.pages_of(head.bytes())?) * self.page_size() as u64;
        let file = self.space().file();
        if file.len()? < wanted {
            file.set_len(wanted)?;
        }
        self.is_short.store(false, Ordering::Release);
        Ok(())
    }
}
