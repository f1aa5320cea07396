//! How fast pages are written for the checkpoint.
//!
//! A page has to be written before its rec_lsn is `target` bytes old, and should be written late:
//! it may change again. If every page were written just then, the writes would come as the first
//! changes did, in lumps, and each lump would be one lap of the log later the same lump again:
//! pages that are written together are soon changed together. So the rate is the *least even* rate
//! that is in time for every page: of all stretches of the log, the largest quotient of the pages
//! up to there and the bytes of log that are left until the last of them is due. (The taut string
//! over the deadlines: with equal deadlines for equal work no schedule has a lower peak.) A lump
//! that is due later raises the rate now, a lap smooths it out, and the age of an even load settles
//! at the target; there is no threshold on the way. Pages younger than [`AHEAD`] of the target do
//! not count: a young log is not written in advance.
//!
//! Only if the device cannot keep up, or if there are too few old pages for a write, do pages
//! become older than the target; those are written at a rate at which half of what lies between
//! target and limit would do, and at the limit at once: from there on users are delayed, and the
//! log, whose growth sets the pace, would stand still together with the checkpoint.

use holdfast_base::Lsn;

use crate::config::BATCH;
use crate::write::dirty::AgeCounts;

/// From this share of the target age on a page counts.
const AHEAD: f64 = 0.3;

/// Ages of the log, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ages {
    /// That of an even load.
    pub(crate) target: u64,
    /// Everything older is written at once: that from which on users are delayed.
    pub(crate) limit: u64,
}

impl Ages {
    /// The age from which on a page counts.
    pub(crate) fn counts_from(&self) -> u64 {
        (self.target as f64 * AHEAD) as u64
    }
}

/// See the module's description.
pub(crate) struct Pacer {
    seen: Lsn,
    owed: f64,
}

impl Pacer {
    pub(crate) fn new(now: Lsn) -> Pacer {
        Pacer { seen: now, owed: 0.0 }
    }

    /// Pages to write now that the log has grown up to `now`; the oldest first. None until they are
    /// worth a write to the double-write file.
    pub(crate) fn step(&mut self, now: Lsn, oldest: Lsn, dirty: &AgeCounts, ages: Ages) -> usize {
        let growth = now.since(self.seen);
        self.seen = now;
        let total = dirty.total();
        self.owed = (self.owed + rate(now, oldest, dirty, ages) * growth as f64).min(f64::from(total));
        let worth = (total as usize / 32).clamp(1, BATCH / 2);
        let pages = self.owed as usize;
        if pages < worth {
            return 0;
        }
        self.owed -= pages as f64;
        pages
    }
}

/// Pages per byte of log.
fn rate(now: Lsn, oldest: Lsn, dirty: &AgeCounts, ages: Ages) -> f64 {
    let young = now.0.saturating_sub(ages.counts_from());
    // What is late counts as due within that.
    let least = (ages.limit.saturating_sub(ages.target) / 2).max(1);
    let width = dirty.width();
    let (mut pages, mut rate) = (0, 0.0_f64);
    let mut stretch = oldest.0 / width * width;
    while stretch < young {
        pages += dirty.at(stretch);
        let left = (stretch + width / 2 + ages.target).saturating_sub(now.0).max(least);
        rate = rate.max(f64::from(pages) / left as f64);
        stretch += width;
    }
    rate
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MB: u64 = 1 << 20;
    const CAPACITY: u64 = 64 * MB;
    const AGES: Ages = Ages { target: 40 * MB, limit: 46 * MB };

    /// A load whose pages change again as soon as they have been written.
    struct Load {
        now: u64,
        dirty: BTreeSet<(u64, u32)>,
        counts: AgeCounts,
        pacer: Pacer,
    }

    impl Load {
        fn new(rec_lsns: impl Iterator<Item = u64>, now: u64) -> Load {
            let mut counts = AgeCounts::new(CAPACITY);
            let dirty: BTreeSet<_> = rec_lsns.inspect(|&lsn| counts.add(lsn)).zip(0..).collect();
            Load { now, dirty, counts, pacer: Pacer::new(Lsn(now)) }
        }

        fn age(&self) -> u64 {
            self.now - self.dirty.first().map_or(self.now, |&(lsn, _)| lsn)
        }

        /// Pages written while the log grows by `bytes`.
        fn grow(&mut self, bytes: u64) -> usize {
            let (mut written, end) = (0, self.now + bytes);
            while self.now < end {
                self.now += CAPACITY / 512;
                let oldest = Lsn(self.now - self.age());
                for _ in 0..self.pacer.step(Lsn(self.now), oldest, &self.counts, AGES) {
                    let (lsn, page) = self.dirty.pop_first().unwrap();
                    self.counts.take(lsn);
                    self.counts.add(self.now);
                    self.dirty.insert((self.now, page));
                    written += 1;
                }
            }
            written
        }
    }

    #[test]
    fn a_young_log_is_not_written() {
        let mut load = Load::new((0..1000).map(|n| n * 1000), MB);
        assert_eq!(load.grow(10 * MB), 0);
    }

    #[test]
    fn the_age_of_an_even_load_settles_at_the_target() {
        let mut load = Load::new((0..10_240).map(|n| n * 4096), 40 * MB);
        load.grow(200 * MB);
        for _ in 0..40 {
            load.grow(MB);
            let age = load.age();
            assert!(age > AGES.target / 20 * 19 && age < AGES.target / 20 * 21, "{} MB", age / MB);
        }
    }

    #[test]
    fn a_lump_is_gone_after_two_laps() {
        // All pages change first within a megabyte: written when they are due, they would be that
        // lump for ever.
        let mut load = Load::new((0..10_000).map(|n| n * 100), MB);
        let lap = AGES.target;
        let oldest = (0..2 * lap / MB).map(|_| (load.grow(MB), load.age()).1).max();
        assert!(oldest < Some(AGES.limit), "{oldest:?}");
        let written: Vec<usize> = (0..lap / MB).map(|_| load.grow(MB)).collect();
        let mean = written.iter().sum::<usize>() / written.len();
        assert!(written.iter().all(|&n| n > mean / 4 * 3 && n < mean / 4 * 5), "{written:?}");
    }

    #[test]
    fn pages_that_are_late_are_hurried() {
        let mut load = Load::new((0..1000).map(|n| n * 1000), 42 * MB);
        let written = [(); 2].map(|()| load.grow(3 * MB));
        assert!(written[0] > 600 && written[1] > 200, "{written:?}");
    }
}
