//! Recognizes sequential runs in a stream of page keys, several at a time.
//!
//! The pages of an undeclared scan leave the small queue in the order in which they came in: page
//! after page. They are remembered apart from the others, so that the scan does not push other keys
//! out of the ghost.

/// Runs followed at a time.
const STREAMS: usize = 8;
/// A key continues a run if it exceeds the run's last one by at most this much: some pages of the
/// run were resident already.
const GAP: u64 = 32;
/// The length up to which keys do not count as a run.
const SHORT: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    first: [u64; SHORT],
    last: u64,
    len: usize,
    seen: u64,
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
    /// Takes the next key of the stream.
    pub(crate) fn next(&mut self, key: u64) -> Step {
        self.clock += 1;
        let mut stalest = 0;
        for (i, stream) in self.streams.iter_mut().enumerate() {
            if stream.len > 0 && key > stream.last && key - stream.last <= GAP {
                (stream.last, stream.seen) = (key, self.clock);
                stream.len += 1;
                if stream.len <= SHORT {
                    stream.first[stream.len - 1] = key;
                    return Step::Alone;
                }
                return if stream.len == SHORT + 1 { Step::Recognized(stream.first) } else { Step::Continues };
            }
            if i == 0 || stream.seen < stalest {
                stalest = stream.seen;
            }
        }
        if let Some(stream) = self.streams.iter_mut().find(|s| s.seen == stalest) {
            *stream = Stream { first: [key; SHORT], last: key, len: 1, seen: self.clock };
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
        let mut found = [0; 3];
        let mut is_run = |key| runs.next(key) != Step::Alone;
        for i in 0..1000u64 {
            found[0] += u32::from(is_run(1_000_000 + i));
            found[1] += u32::from(is_run(9_000_000 + 3 * i));
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            found[2] += u32::from(is_run(noise >> 20));
        }
        assert_eq!(found, [1000 - SHORT as u32, 1000 - SHORT as u32, 0]);
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
    fn one_page_again_and_again_is_no_run() {
        let mut runs = Runs::default();
        assert!((0..100).all(|_| runs.next(5) == Step::Alone));
    }
}
