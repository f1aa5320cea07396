//! Warm-up, changes of size, closing, statistics.

pub(crate) mod close;
pub(crate) mod resize;
pub(crate) mod stats;
pub(crate) mod warmup;
