//! Frames for pages that come: the free list, eviction, reservations.

pub(crate) mod evict;
pub(crate) mod free_frames;
pub(crate) mod reservations;
pub(crate) mod reserve;
