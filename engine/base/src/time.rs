//! Moments of the monotonic clock: the system's, or the scheduler's under `--cfg sim`.

#[cfg(not(sim))]
pub use std::time::Instant;

#[cfg(sim)]
pub use simulated::Instant;

#[cfg(sim)]
mod simulated {
    use std::ops::{Add, Sub};
    use std::sync::LazyLock;
    use std::time::Duration;

    /// A moment: in a run of the scheduler one of its clock, else one of the system's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Instant(Duration);

    impl Instant {
        /// Returns the present moment.
        #[must_use]
        pub fn now() -> Instant {
            static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
            Instant(crate::sim::now().unwrap_or_else(|| START.elapsed()))
        }
        /// The time since this moment.
        #[must_use]
        pub fn elapsed(&self) -> Duration {
            Instant::now().saturating_duration_since(*self)
        }
        /// The time between `earlier` and this moment; zero if `earlier` is later.
        #[must_use]
        pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
            self.0.saturating_sub(earlier.0)
        }
        /// As [`Instant::saturating_duration_since`].
        #[must_use]
        pub fn duration_since(&self, earlier: Instant) -> Duration {
            self.saturating_duration_since(earlier)
        }
        /// The moment `after` this; `None` if there is no such moment.
        #[must_use]
        pub fn checked_add(&self, after: Duration) -> Option<Instant> {
            self.0.checked_add(after).map(Instant)
        }
    }

    impl Add<Duration> for Instant {
        type Output = Instant;
        fn add(self, after: Duration) -> Instant {
            Instant(self.0 + after)
        }
    }

    impl Sub for Instant {
        type Output = Duration;
        fn sub(self, earlier: Instant) -> Duration {
            self.saturating_duration_since(earlier)
        }
    }
}
