//! Read-ahead for a log whose pages are looked at from the last to the first, each of which names
//! the one before.
//!
//! A transaction that is large, or alone, has its pages in the order of the file: those in front of
//! a page are likely to be the ones before it. How many of them come with it in one batch doubles
//! as long as at least half of the last batch were pages of the log.

use holdfast_base::{PageNo, Result};
use holdfast_pool::Access;

use super::space::UndoSpace;

/// The most pages of a batch.
const MOST: u32 = 64;

/// The last batch: pages `from..to`.
#[derive(Default)]
pub(super) struct Backwards {
    from: u32,
    to: u32,
    /// How many of them the log has.
    met: u32,
}

impl Backwards {
    /// Page `no` is looked at next.
    ///
    /// # Errors
    /// The errors of reading it.
    pub fn bring_in(&mut self, space: &UndoSpace, no: PageNo, acc: &Access<'_>) -> Result<()> {
        let pages = self.batch(no);
        space.store().pool().load_together(space.file().space(), &pages, acc)
    }

    /// The pages that are to come in with `no`, which is the first of them; none if it has come
    /// with the last batch, or is to come alone.
    fn batch(&mut self, no: PageNo) -> Vec<PageNo> {
        if (self.from..self.to).contains(&no.0) {
            self.met += 1;
            return Vec::new();
        }
        let last = self.to - self.from;
        let goes_on = no.0 < self.from && self.from - no.0 <= MOST && 2 * self.met >= last;
        let pages = if goes_on { (2 * last).min(MOST) } else { 1 };
        self.to = no.0.saturating_add(1);
        self.from = self.to.saturating_sub(pages);
        self.met = 1;
        if pages == 1 { Vec::new() } else { (self.from..self.to).rev().map(PageNo).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the batches in which the pages of a log come.
    fn batches(log: impl IntoIterator<Item = u32>) -> Vec<usize> {
        let mut backwards = Backwards::default();
        log.into_iter().map(|no| backwards.batch(PageNo(no)).len()).filter(|len| *len > 0).collect()
    }

    #[test]
    fn a_log_in_one_piece_comes_in_ever_larger_batches() {
        assert_eq!(batches((1_000..1_200).rev()), [2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(batches((1..6).rev()), [2, 3]);
    }

    #[test]
    fn pages_that_lie_apart_come_alone_or_with_few_others() {
        assert!(batches((0..50).rev().map(|n| n * 10)).iter().all(|len| *len <= 4));
        assert!(batches((0..50).rev().map(|n| n * 1_000)).is_empty());
        assert!(batches(1..50).is_empty());
        assert!(batches([u32::MAX, u32::MAX, 0, 0]).is_empty());
    }
}
