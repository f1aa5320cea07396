//! The schedule of a fixed request rate: open loop, as sysbench's `--rate`.
//!
//! Requests arrive at exponentially distributed intervals whatever the system under test does. A
//! request that starts late because the one before it took too long has waited in a queue, and its
//! latency counts from its scheduled start. A measurement from its actual start would hide the wait
//! ("coordinated omission").
//!
//! The schedule reads no clock: the caller passes the time and does the sleeping.

use std::time::Duration;

use crate::rng::Rng;

/// Arrival times of one session's requests, as durations since the session began.
#[derive(Clone, Debug)]
pub struct Schedule {
    interval: Duration,
    next: Duration,
    rng: Rng,
}

/// The next request, or the time of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The request is due: run it, and measure its latency from this time.
    Due(Duration),
    /// Sleep until this time and ask again.
    At(Duration),
}

impl Schedule {
    /// `per_second` requests a second on average, the first at `start`.
    ///
    /// # Panics
    /// If `per_second` is not above 0.
    #[must_use]
    pub fn new(per_second: f64, start: Duration, seed: u64) -> Schedule {
        assert!(per_second > 0.0, "a rate is above 0");
        Schedule { interval: Duration::from_secs_f64(1.0 / per_second), next: start, rng: Rng::new(seed) }
    }

    /// The next request, at time `now`. A request that is due is taken off the schedule.
    pub fn poll(&mut self, now: Duration) -> Next {
        if self.next > now {
            return Next::At(self.next);
        }
        let due = self.next;
        // The inverse of the exponential distribution; 1 - unit() is in (0, 1].
        self.next += self.interval.mul_f64(-(1.0 - self.rng.unit()).ln());
        Next::Due(due)
    }

    /// Moves the whole schedule by `pause`, for a session that was suspended, not slow.
    pub fn shift(&mut self, pause: Duration) {
        self.next += pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the schedule on a clock set by hand; each request takes `service`.
    fn run(rate: f64, service: Duration, requests: usize) -> (Duration, Vec<Duration>) {
        let mut schedule = Schedule::new(rate, Duration::ZERO, 3);
        let mut now = Duration::ZERO;
        let mut latencies = Vec::new();
        while latencies.len() < requests {
            match schedule.poll(now) {
                Next::At(t) => now = t,
                Next::Due(t) => {
                    now += service;
                    latencies.push(now - t);
                }
            }
        }
        (now, latencies)
    }

    #[test]
    fn a_fast_system_gets_the_rate() {
        let (took, latencies) = run(1000.0, Duration::from_micros(10), 10_000);
        assert!((9.7..10.3).contains(&took.as_secs_f64()), "{took:?}");
        assert!(latencies.iter().sum::<Duration>() / 10_000 < Duration::from_micros(12));
    }

    #[test]
    fn a_slow_system_pays_for_the_queue() {
        let (took, latencies) = run(1000.0, Duration::from_millis(2), 1000);
        assert!((1.95..2.05).contains(&took.as_secs_f64()), "{took:?}");
        assert!(latencies[999] > Duration::from_millis(900), "{:?}", latencies[999]);
    }

    #[test]
    fn a_pause_is_no_queue() {
        let mut schedule = Schedule::new(100.0, Duration::ZERO, 3);
        schedule.shift(Duration::from_secs(5));
        assert_eq!(schedule.poll(Duration::from_secs(4)), Next::At(Duration::from_secs(5)));
        assert_eq!(schedule.poll(Duration::from_secs(5)), Next::Due(Duration::from_secs(5)));
    }
}
