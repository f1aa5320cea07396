//! What tests and instruments are made of: disks that lose power ([`CrashDisk`]), fail
//! ([`FaultDisk`]), are as slow as one arm ([`ModelDisk`]) or call the test ([`HookedDisk`]), and
//! random numbers from a seed ([`SplitMix64`]).
//!
//! Crates of the engine use this one in their tests only.

#![forbid(unsafe_code)]

mod crash;
mod fault;
mod hooked;
mod model;
mod rng;
pub mod spindle;

pub use crash::CrashDisk;
pub use fault::{Fault, FaultDisk, FaultKind, FaultOp};
pub use hooked::HookedDisk;
pub use model::{FileTraffic, ModelDisk};
pub use rng::SplitMix64;
pub use spindle::DiskModel;
