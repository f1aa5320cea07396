//! The experiments.

pub mod flush;
pub mod freepages;
pub mod growth;
mod in_turns;
pub mod iobound;
pub mod overflow;
pub mod purge;
pub mod querycache;
pub mod scan;
pub mod sessions;
pub mod sideload;
pub mod soak;
