//! The arguments of the experiments, and how each runs on the target that they name.

pub mod common;
pub mod rig;
pub mod scan;
pub mod sideload;
