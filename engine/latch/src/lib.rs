//! Floor 1: the latch of a page, and where threads park.
//!
//! A latch protects a page in memory for the time of a few instructions; a lock (crate
//! `holdfast-lock`) protects a row until the end of a transaction. The model checkers loom and
//! shuttle explore this crate.

mod latch;
mod parking;

pub use latch::{Latch, Stamp};
pub use parking::Parking;
#[cfg(not(any(loom, shuttle)))]
pub use parking::{sleep_at, wake_all_at};
