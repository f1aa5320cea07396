//! A clock that can be stopped.
//!
//! Two targets that are measured in turns share a machine but not time: while one is paused,
//! nothing must happen to it. `old_blocks_time` and similar settings count the time of the target,
//! so the target's clock stops with the target.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_io::Clock;

/// A clock that runs only between [`PausableClock::resume`] and [`PausableClock::pause`], which one
/// thread calls.
#[derive(Debug)]
pub struct PausableClock {
    start: Instant,
    /// Nanoseconds spent in pauses that are over.
    skipped: AtomicU64,
    /// Nanoseconds after `start` at which the pause began; [`RUNNING`] if there is none.
    paused_at: AtomicU64,
}

const RUNNING: u64 = u64::MAX;

impl PausableClock {
    /// Creates a running clock at 0.
    pub fn new() -> PausableClock {
        PausableClock { start: Instant::now(), skipped: AtomicU64::new(0), paused_at: AtomicU64::new(RUNNING) }
    }

    fn wall(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(RUNNING - 1)
    }

    /// Stops the clock; a no-op if it is stopped.
    pub fn pause(&self) {
        if self.paused_at.load(Ordering::Acquire) == RUNNING {
            self.paused_at.store(self.wall(), Ordering::Release);
        }
    }

    /// Lets the clock run again; a no-op if it runs.
    pub fn resume(&self) {
        let paused_at = self.paused_at.load(Ordering::Acquire);
        if paused_at != RUNNING {
            self.skipped.fetch_add(self.wall() - paused_at, Ordering::AcqRel);
            self.paused_at.store(RUNNING, Ordering::Release);
        }
    }
}

impl Default for PausableClock {
    fn default() -> PausableClock {
        PausableClock::new()
    }
}

impl Clock for PausableClock {
    fn now(&self) -> Duration {
        let paused_at = self.paused_at.load(Ordering::Acquire);
        let wall = if paused_at == RUNNING { self.wall() } else { paused_at };
        Duration::from_nanos(wall.saturating_sub(self.skipped.load(Ordering::Acquire)))
    }

    fn sleep(&self, d: Duration) {
        std::thread::sleep(d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_clock_stands_still() {
        let clock = PausableClock::new();
        clock.pause();
        let at = clock.now();
        clock.sleep(Duration::from_millis(2));
        assert_eq!(clock.now(), at);
        clock.resume();
        clock.sleep(Duration::from_millis(2));
        assert!(clock.now() >= at + Duration::from_millis(2));
    }
}
