//! Which transactions there are, in which order they committed, and what a view sees of them.

#[cfg_attr(any(loom, shuttle), allow(dead_code))]
pub mod clock;
#[cfg_attr(any(loom, shuttle), allow(dead_code))]
pub mod commit_map;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod open_txns;
#[cfg(not(shuttle))]
pub mod sweep;
#[cfg(not(shuttle))]
#[cfg_attr(loom, allow(dead_code))]
pub mod view;
