//! Pages in frames: the frames, where a page is, latches and guards, the policy of a partition.

pub(crate) mod access;
pub(crate) mod access_stats;
pub(crate) mod frames;
pub(crate) mod guard;
pub(crate) mod header;
pub(crate) mod partition;
pub(crate) mod space;
pub(crate) mod touch;
pub(crate) mod translation;
