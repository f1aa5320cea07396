//! The experiments.

pub mod scan;
pub mod sideload;
