//! The dirty pages of a partition: in the order of their rec_lsn, and how many of them there are in
//! each stretch of the log.

use std::collections::BTreeSet;

use holdfast_base::Lsn;

/// Stretches that the log's capacity is divided into.
const STRETCHES: u64 = 64;
/// Counters: twice as many, so that pages as old as the log may become do not share one with the
/// newest.
const COUNTERS: usize = 2 * STRETCHES as usize;

/// How many pages have their rec_lsn in each stretch of the log.
#[derive(Clone)]
pub(crate) struct AgeCounts {
    width: u64,
    counts: [u32; COUNTERS],
}

impl AgeCounts {
    /// No pages, in a log of this capacity.
    pub(crate) fn new(capacity: u64) -> AgeCounts {
        AgeCounts { width: (capacity / STRETCHES).max(1), counts: [0; COUNTERS] }
    }

    /// Bytes of a stretch.
    pub(crate) fn width(&self) -> u64 {
        self.width
    }

    /// Pages whose rec_lsn lies in the stretch of `lsn`.
    pub(crate) fn at(&self, lsn: u64) -> u32 {
        self.counts[self.counter(lsn)]
    }

    /// All pages.
    pub(crate) fn total(&self) -> u32 {
        self.counts.iter().sum()
    }

    pub(crate) fn add(&mut self, lsn: u64) {
        self.counts[self.counter(lsn)] += 1;
    }

    pub(crate) fn take(&mut self, lsn: u64) {
        self.counts[self.counter(lsn)] -= 1;
    }

    fn counter(&self, lsn: u64) -> usize {
        (lsn / self.width) as usize % COUNTERS
    }

    fn add_all(&mut self, other: &AgeCounts) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// See the module's description.
pub(crate) struct DirtyPages {
    by_age: BTreeSet<(u64, u32)>,
    counts: AgeCounts,
}

impl DirtyPages {
    /// None, in a log of this capacity.
    pub(crate) fn new(log_capacity: u64) -> DirtyPages {
        DirtyPages { by_age: BTreeSet::new(), counts: AgeCounts::new(log_capacity) }
    }

    pub(crate) fn insert(&mut self, rec_lsn: u64, frame: u32) {
        let is_new = self.by_age.insert((rec_lsn, frame));
        debug_assert!(is_new, "invariant: a dirty frame is in the dirty set once: frame {frame}, {rec_lsn}");
        self.counts.add(rec_lsn);
    }

    pub(crate) fn remove(&mut self, rec_lsn: u64, frame: u32) {
        let was_there = self.by_age.remove(&(rec_lsn, frame));
        debug_assert!(was_there, "invariant: a dirty frame is in the dirty set once: frame {frame}, {rec_lsn}");
        self.counts.take(rec_lsn);
    }

    pub(crate) fn len(&self) -> u32 {
        self.by_age.len() as u32
    }

    /// The smallest rec_lsn.
    pub(crate) fn first(&self) -> Option<Lsn> {
        self.by_age.first().map(|&(lsn, _)| Lsn(lsn))
    }

    /// The pages with the smallest rec_lsn, below `below`, as (rec_lsn, frame).
    pub(crate) fn oldest(&self, below: Lsn) -> impl Iterator<Item = (u64, u32)> {
        self.by_age.iter().copied().take_while(move |&(lsn, _)| lsn < below.0)
    }

    /// Adds how many there are to `counts`. The first to ask after a change of the log's capacity
    /// has them counted anew, in the stretches of now.
    pub(crate) fn count_into(&mut self, counts: &mut AgeCounts) {
        if self.counts.width != counts.width {
            self.counts = AgeCounts { width: counts.width, counts: [0; COUNTERS] };
            self.by_age.iter().for_each(|&(lsn, _)| self.counts.add(lsn));
        }
        counts.add_all(&self.counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(dirty: &mut DirtyPages, capacity: u64) -> AgeCounts {
        let mut counts = AgeCounts::new(capacity);
        dirty.count_into(&mut counts);
        counts
    }

    #[test]
    fn the_stretches_follow_the_capacity() {
        let mut dirty = DirtyPages::new(6400);
        dirty.insert(50, 1);
        dirty.insert(150, 2);
        assert_eq!((counts(&mut dirty, 12800).at(0), counts(&mut dirty, 12800).total()), (2, 2));
        dirty.insert(250, 3);
        dirty.remove(50, 1);
        assert_eq!((counts(&mut dirty, 12800).at(0), counts(&mut dirty, 12800).at(200)), (1, 1));
        assert_eq!((counts(&mut dirty, 6400).at(100), counts(&mut dirty, 6400).total()), (1, 2));
    }

    #[test]
    fn pages_are_counted_by_stretch_as_they_come_and_go() {
        let mut dirty = DirtyPages::new(6400);
        dirty.insert(50, 1);
        dirty.insert(50, 2);
        dirty.insert(6450, 3);
        assert_eq!((counts(&mut dirty, 6400).at(99), counts(&mut dirty, 6400).at(6400)), (2, 1));
        dirty.remove(50, 2);
        assert_eq!((counts(&mut dirty, 6400).at(0), dirty.len(), dirty.first()), (1, 2, Some(Lsn(50))));
        assert_eq!(dirty.oldest(Lsn(6450)).collect::<Vec<_>>(), [(50, 1)]);
    }
}
