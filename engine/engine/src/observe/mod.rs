//! What a database is doing: statistics, the monitor, listings.

pub(crate) mod listing;
pub(crate) mod names;
pub(crate) mod stats;
pub(crate) mod status;
