//! Recognizes sequential runs in a stream of page keys, several at a time.
//!
//! The pages of an undeclared scan leave the small queue in the order in which they came in: page
//! after page, upwards or, if the scan reads the table from its end, downwards. They are remembered
//! apart from the others, so that the scan does not push other keys out of the ghost.

/// Runs followed at a time.
const STREAMS: usize = 8;
/// A key continues a run if it is at most this far from the run's last one, in the run's direction:
/// some pages of the run were resident already.
const GAP: u64 = 32;
/// The length up to which keys do not count as a run.
const SHORT: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    first: [u64; SHORT],
    last: u64,
    /// The second key gives a run its direction.
    descends: bool,
    len: usize,
    seen: u64,
}

impl Stream {
    fn begin(key: u64, seen: u64) -> Stream {
        Stream { first: [key; SHORT], last: key, descends: false, len: 1, seen }
    }

    /// True if `key` may come next.
    fn leads_to(&self, key: u64) -> bool {
        let is_near = key != self.last && key.abs_diff(self.last) <= GAP;
        is_near && (self.len == 1 || self.len > 1 && (key < self.last) == self.descends)
    }

    fn add(&mut self, key: u64, seen: u64) -> Step {
        (self.descends, self.last, self.seen) = (key < self.last, key, seen);
        self.len += 1;
        if let Some(place) = self.first.get_mut(self.len - 1) {
            *place = key;
            return Step::Alone;
        }
        if self.len == SHORT + 1 { Step::Recognized(self.first) } else { Step::Continues }
    }
}

/// The runs followed now.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    streams: [Stream; STREAMS],
    clock: u64,
}

/// The relation of a key to the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The key belongs to no run so far.
    Alone,
    /// The run of the key has just become long enough to count as one; these keys were its
    /// beginning.
    Recognized([u64; SHORT]),
    /// The key belongs to a run recognized before.
    Continues,
}

impl Runs {
    /// The first keys of a run that has just been recognized are mostly among the last `REACH` keys
    /// that were [`Step::Alone`]: a run is given up when [`STREAMS`] others have begun since its
    /// last key.
    pub(crate) const REACH: usize = STREAMS * SHORT;

    /// Takes the next key of the stream. A key that continues several runs belongs to the longest.
    pub(crate) fn next(&mut self, key: u64) -> Step {
        self.clock += 1;
        let continued = self.streams.iter_mut().filter(|stream| stream.leads_to(key)).max_by_key(|stream| stream.len);
        if let Some(stream) = continued {
            return stream.add(key, self.clock);
        }
        if let Some(stalest) = self.streams.iter_mut().min_by_key(|stream| stream.seen) {
            *stalest = Stream::begin(key, self.clock);
        }
        Step::Alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_recognized_among_each_other_and_among_noise() {
        let mut runs = Runs::default();
        let mut noise = 0u64;
        let mut found = [0; 4];
        let mut is_run = |key| runs.next(key) != Step::Alone;
        for i in 0..1000u64 {
            found[0] += u32::from(is_run(1_000_000 + i));
            found[1] += u32::from(is_run(9_000_000 + 3 * i));
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            found[2] += u32::from(is_run(noise >> 20));
            found[3] += u32::from(is_run(5_000_000 - 2 * i));
        }
        let all = 1000 - SHORT as u32;
        assert_eq!(found, [all, all, 0, all]);
    }

    #[test]
    fn the_beginning_of_a_run_is_given_once_it_is_recognized() {
        let mut runs = Runs::default();
        let steps: Vec<Step> = (0..20).map(|i| runs.next(100 + 2 * i)).collect();
        assert!(steps[..SHORT].iter().all(|s| *s == Step::Alone));
        assert_eq!(steps[SHORT], Step::Recognized(std::array::from_fn(|i| 100 + 2 * i as u64)));
        assert!(steps[SHORT + 1..].iter().all(|s| *s == Step::Continues));
    }

    #[test]
    fn a_run_goes_downwards_as_well() {
        let mut runs = Runs::default();
        let steps: Vec<Step> = (0..20).map(|i| runs.next(100 - 2 * i)).collect();
        assert!(steps[..SHORT].iter().all(|s| *s == Step::Alone));
        assert_eq!(steps[SHORT], Step::Recognized(std::array::from_fn(|i| 100 - 2 * i as u64)));
        assert!(steps[SHORT + 1..].iter().all(|s| *s == Step::Continues));
    }

    #[test]
    fn pages_that_come_to_and_fro_are_no_run() {
        let mut runs = Runs::default();
        assert!((0..100).all(|i| runs.next(1000 + i % 2 * 20) == Step::Alone));
    }

    /// The page before took over the run when that came near, and the run began again.
    #[test]
    fn a_page_near_a_run_does_not_break_it() {
        let mut runs = Runs::default();
        assert_eq!(runs.next(140), Step::Alone);
        let steps: Vec<Step> = (100..200).map(|key| runs.next(key)).collect();
        assert!(steps[SHORT + 1..].iter().all(|s| *s == Step::Continues));
    }

    #[test]
    fn one_page_again_and_again_is_no_run() {
        let mut runs = Runs::default();
        assert!((0..100).all(|_| runs.next(5) == Step::Alone));
    }
}
