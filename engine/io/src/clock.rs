//! Time behind an interface, so that tests and simulations control it.

use std::time::{Duration, Instant};

use holdfast_base::blocking::Mutex;

/// A source of time, and a way to wait.
pub trait Clock: Send + Sync {
    /// Time since an arbitrary start; never goes back.
    fn now(&self) -> Duration;

    /// As [`Clock::now`], but as of the system's last tick, at most a few milliseconds ago. It
    /// costs less.
    fn coarse(&self) -> Duration {
        self.now()
    }

    /// Returns when `d` has passed.
    fn sleep(&self, d: Duration);
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
    #[cfg(target_os = "linux")]
    coarse_start: Duration,
}

/// The system's monotonic clock as of its last tick. It takes a third of the time of the exact one.
#[cfg(target_os = "linux")]
fn monotonic_coarse() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The most that the system's sleep overshoots. The last part of a sleep, of this length, is spent
/// spinning.
const SPIN: Duration = Duration::from_micros(50);

impl RealClock {
    /// Starts at zero now.
    #[must_use]
    pub fn new() -> RealClock {
        RealClock {
            start: Instant::now(),
            #[cfg(target_os = "linux")]
            coarse_start: monotonic_coarse(),
        }
    }
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[cfg(target_os = "linux")]
    fn coarse(&self) -> Duration {
        monotonic_coarse().saturating_sub(self.coarse_start)
    }

    /// Sleeps, and spins for the last 50 us, so that it is exact to about a microsecond on an idle
    /// core.
    fn sleep(&self, d: Duration) {
        let until = Instant::now() + d;
        if d > SPIN {
            std::thread::sleep(d - SPIN);
        }
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

/// A clock that does not move by itself. [`ManualClock::advance`] and sleeping on it move it on.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Duration>,
}

impl ManualClock {
    /// Starts at zero.
    #[must_use]
    pub fn new() -> ManualClock {
        ManualClock::default()
    }

    /// Lets `d` pass.
    pub fn advance(&self, d: Duration) {
        *self.now.lock() += d;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.now.lock()
    }

    fn sleep(&self, d: Duration) {
        self.advance(d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_on_a_manual_clock_takes_exactly_that_long() {
        let clock = ManualClock::new();
        clock.sleep(Duration::from_millis(8));
        clock.advance(Duration::from_micros(1));
        assert_eq!(clock.now(), Duration::from_micros(8001));
    }

    #[test]
    fn a_real_sleep_is_never_shorter() {
        let clock = RealClock::new();
        let before = clock.now();
        clock.sleep(Duration::from_micros(300));
        assert!(clock.now() - before >= Duration::from_micros(300));
    }
}
