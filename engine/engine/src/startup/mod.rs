//! Creating and opening databases.

pub(crate) mod creation;
pub(crate) mod opening;
pub(crate) mod start;
