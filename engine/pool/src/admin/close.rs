//! Closing a space while others may still use it.
//!
//! 1. The space is marked closing: no thread claims a translation entry of it any more. Claiming
//!    and marking are sequentially consistent on both sides - claim, then read the mark; mark, then
//!    read the entries - so the walk finds a claim that misses the mark.
//! 2. Without `discard`, its dirty pages are written and the file is synced.
//! 3. Every page is taken out, waiting for the holders of its latch and for a write in progress.
//! 4. The space leaves the registry. Its translation is freed with the last `Arc`.

use std::sync::atomic::Ordering;

use holdfast_base::{PageNo, Result, latches};
use holdfast_metrics::Counter;

use crate::core::Core;
use crate::resident::header::WRITING;
use crate::resident::space::Space;
use crate::resident::translation::{CLAIMED, CLAIMED_WAITED};

impl Core {
    /// See [`Pool::close_space`](crate::Pool::close_space).
    pub(crate) fn close_space(&self, space: &Space, discard: bool) -> Result<()> {
        latches::none_while_waiting_for("the users of a space that is closed");
        space.close();
        if !discard {
            self.flush_space(space)?;
        }
        loop {
            let mut pages = Vec::new();
            space.translation.for_each(|no, entry| pages.push((no, entry)));
            if pages.is_empty() {
                break;
            }
            for (no, entry) in pages {
                if entry >= CLAIMED {
                    wait_for_claim(space, no);
                } else {
                    self.take_out(space, no, entry - 1, discard)?;
                }
            }
        }
        if discard {
            // First: a batch that has written a page of it may end later.
            space.set_discarded();
            self.unsynced.forget(space.id());
        } else {
            self.sync_space(space)?;
        }
        self.doublewrite.forget(space.id());
        self.held.forget(space.id());
        self.spaces_mut().remove(&space.id());
        Ok(())
    }

    /// Takes the page out of its frame, after its users.
    fn take_out(&self, space: &Space, no: PageNo, frame: u32, discard: bool) -> Result<()> {
        let (header, id) = (self.frames.header(frame), space.page_id(no));
        loop {
            let mut waiter = self.supply.waiter();
            self.latch_exclusive(header);
            if !header.holds(id.to_u64()) {
                header.latch.release_exclusive(false);
                return Ok(());
            }
            let (writing, dirty) = (header.has(WRITING), header.rec_lsn() != 0);
            if !writing && (discard || !dirty) {
                if dirty {
                    self.partition(id).forget_dirty(frame, header);
                }
                self.metrics.inc(Counter::PagesEvictedDrop);
                self.forget_page(frame, id);
                return Ok(());
            }
            header.latch.release_exclusive(false);
            if writing {
                // The end of the write is an event.
                waiter.sleep();
            } else if let (_, Some(e)) = self.write_all(&[frame], true, 1, Counter::FlushedShutdown) {
                return Err(e);
            }
        }
    }
}

/// Waits until the entry is published or given up.
fn wait_for_claim(space: &Space, no: PageNo) {
    let Some(entry) = space.translation.entry(no) else { return };
    let _ = entry.compare_exchange(CLAIMED, CLAIMED_WAITED, Ordering::SeqCst, Ordering::SeqCst);
    let waited = || entry.load(Ordering::Relaxed) == CLAIMED_WAITED;
    holdfast_latch::sleep_at(std::ptr::from_ref(entry) as usize, waited);
}
