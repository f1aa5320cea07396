//! Recognizes sequential runs in a stream of page keys, several at a time.
//!
//! A scan that nobody declared leaves the small queue in the order in which it came in: page after page. Such
//! pages are remembered apart from the others, so that the scan does not make the policy forget everybody else.

/// Runs followed at a time.
const STREAMS: usize = 8;
/// A key continues a run if it is at most so much greater than the run's last one: some pages were there already.
const GAP: u64 = 4;
/// Keys of a run that are not yet taken for one.
const SHORT: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    last: u64,
    len: u32,
    seen: u64,
}

/// The runs followed now.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    streams: [Stream; STREAMS],
    clock: u64,
}

impl Runs {
    /// Takes the next key; whether it belongs to a run that has been going on for a while.
    pub(crate) fn continues(&mut self, key: u64) -> bool {
        self.clock += 1;
        let seen = self.clock;
        let mut stalest = 0;
        for i in 0..STREAMS {
            let stream = &mut self.streams[i];
            if key > stream.last && key - stream.last <= GAP {
                *stream = Stream { last: key, len: stream.len.saturating_add(1), seen };
                return stream.len > SHORT;
            }
            if self.streams[i].seen < self.streams[stalest].seen {
                stalest = i;
            }
        }
        self.streams[stalest] = Stream { last: key, len: 1, seen };
        false
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
        for i in 0..1000u64 {
            found[0] += u32::from(runs.continues(1_000_000 + i));
            found[1] += u32::from(runs.continues(9_000_000 + 3 * i));
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            found[2] += u32::from(runs.continues(noise >> 20));
        }
        assert_eq!(found, [1000 - SHORT, 1000 - SHORT, 0]);
    }

    #[test]
    fn one_page_again_and_again_is_no_run() {
        let mut runs = Runs::default();
        assert!((0..100).all(|_| !runs.continues(5)));
    }
}
