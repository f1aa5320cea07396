//! What the threads of a run count, draw and look up at each point.
//!
//! Only the thread that holds the baton touches these numbers, and the baton passes from thread to
//! thread under a mutex. So a plain load and a plain store are enough, without the scheduler's
//! mutex.

use std::sync::atomic::{AtomicU64, Ordering};

/// Simulated time that a point takes.
const POINT_NANOS: u64 = 40;

/// Counters of threads that are blocked: two keys may share one.
const COUNTERS: usize = 32;

/// A number of the thread that holds the baton.
#[derive(Debug, Default)]
struct Number(AtomicU64);

impl Number {
    #[inline]
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Course {
    random: Number,
    points: Number,
    progress_at: Number,
    /// Nanoseconds that the clock has jumped, beside those of the points.
    jumped: Number,
    /// The number of threads that are blocked, by the hash of what they wait for.
    blocked: [Number; COUNTERS],
}

impl Course {
    /// The course of a run of this seed, before its first point.
    pub fn new(seed: u64) -> Course {
        let course = Course::default();
        course.random.set(seed);
        course
    }

    /// Counts a point, and lets its time pass; the number of points since the last progress.
    #[inline]
    pub fn count_point(&self) -> u64 {
        self.points.set(self.points.get() + 1);
        self.points.get() - self.progress_at.get()
    }

    /// The number of points.
    #[inline]
    pub fn points(&self) -> u64 {
        self.points.get()
    }

    /// Notes that a session has made progress.
    pub fn progress(&self) {
        self.progress_at.set(self.points.get());
    }

    /// Simulated time since the run began, in nanoseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        self.jumped.get().saturating_add(self.points.get() * POINT_NANOS)
    }

    /// Lets the clock jump to `at`, unless that has passed.
    pub fn jump_to(&self, at: u64) {
        self.jumped.set(self.jumped.get() + at.saturating_sub(self.now()));
    }

    /// A random number.
    #[inline]
    pub fn draw(&self) -> u64 {
        // SplitMix64, by Sebastiano Vigna.
        let random = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(random);
        let z = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True in `ppm` of a million cases.
    #[inline]
    pub fn chance(&self, ppm: u32) -> bool {
        self.draw() % 1_000_000 < u64::from(ppm)
    }

    #[inline]
    fn counter(&self, hash: usize) -> &Number {
        &self.blocked[hash % COUNTERS]
    }

    /// Counts a thread that blocks on what has this hash.
    pub fn block(&self, hash: usize) {
        let counter = self.counter(hash);
        counter.set(counter.get() + 1);
    }

    /// Counts a thread that does so no more.
    pub fn release(&self, hash: usize) {
        let counter = self.counter(hash);
        counter.set(counter.get() - 1);
    }

    /// False if no thread is blocked on what has this hash.
    #[inline]
    pub fn may_wait(&self, hash: usize) -> bool {
        self.counter(hash).get() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_by_points_and_jumps() {
        let course = Course::new(7);
        assert_eq!((course.count_point(), course.count_point()), (1, 2));
        assert_eq!(course.now(), 2 * POINT_NANOS);
        course.jump_to(1_000);
        assert_eq!(course.now(), 1_000);
        course.jump_to(500);
        course.progress();
        assert_eq!((course.count_point(), course.points(), course.now()), (1, 3, 1_000 + POINT_NANOS));
    }

    #[test]
    fn a_blocked_thread_is_seen_until_its_release() {
        let course = Course::new(7);
        course.block(3);
        course.block(3 + COUNTERS);
        course.release(3);
        assert!(course.may_wait(3) && !course.may_wait(4));
        course.release(3 + COUNTERS);
        assert!(!course.may_wait(3));
    }
}
