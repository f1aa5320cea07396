//! Images in the double-write file for the pages of a batch, before these are written home. See
//! `doublewrite` for the file, and `unsynced` for what holds the checkpoint meanwhile.

use holdfast_base::{Lsn, Result};
use holdfast_metrics::Counter;

use crate::core::Core;
use crate::write::doublewrite::{Page, Slots};

impl Core {
    /// Sees to it that each of these pages has a durable image that recovery can start from, until
    /// its slots are [released](crate::write::doublewrite::DoubleWriter::release_slots). `images`:
    /// sealed, those of the pages in their order. `write`: the batch in
    /// [`Unsynced`](crate::checkpoint::unsynced::Unsynced), which holds the checkpoint.
    ///
    /// # Errors
    /// The errors of the write, with nothing taken; of the sync, which poisons the database.
    pub(crate) fn protect(&self, pages: &[Page], images: &[u8], write: u64) -> Result<Slots> {
        let file = &self.doublewrite;
        file.prepare(&self.wal)?;
        let slots = self.place(pages, write)?;
        let new = slots.new_images();
        self.metrics.add(Counter::DblwrPagesSpared, (pages.len() - new) as u64);
        if new == 0 {
            return Ok(slots);
        }
        let written = file.write_new(&slots, images).and_then(|()| {
            self.metrics.inc(Counter::DblwrWrites);
            self.metrics.add(Counter::DblwrPagesWritten, new as u64);
            file.sync(&self.wal)
        });
        if let Err(e) = written {
            file.release_slots(&slots);
            return Err(e);
        }
        file.rely_on(&slots);
        Ok(slots)
    }

    /// Slots for those of the pages that have no image which the batch may rely on.
    fn place(&self, pages: &[Page], write: u64) -> Result<Slots> {
        let slots = self.allocate(pages, self.unsynced.floor())?;
        if slots.oldest_relied_on().is_none_or(|oldest| self.unsynced.hold(write, oldest)) {
            return Ok(slots);
        }
        // A checkpoint began meanwhile.
        self.doublewrite.release_slots(&slots);
        self.allocate(pages, Lsn::MAX)
    }

    /// Images for all of these pages: those with a rec_lsn from `floor` on that there are, and
    /// slots for the others.
    fn allocate(&self, pages: &[Page], floor: Lsn) -> Result<Slots> {
        loop {
            match self.doublewrite.allocate(pages, floor)? {
                Ok(slots) => return Ok(slots),
                // Everything written home with the help of these areas so far is `done` in
                // `Unsynced`.
                Err(retired) => {
                    self.sync_home()?;
                    self.doublewrite.reuse(&retired);
                }
            }
        }
    }
}
