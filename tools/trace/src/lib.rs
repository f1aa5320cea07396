//! Page reference traces: reading, generating, and replaying them through replacement policies.
//!
//! The engine's own policies run here in the same code as in the buffer pool, [`holdfast_policy`].
//! The others (`clock`, `2q`, `arc`, `lirs`, `sieve`, `s3fifo`, `w_tinylfu`, and Belady's optimum)
//! exist only here, for comparison.
//!
//! [`read`] and [`generate`] make a [`Trace`], [`run`] returns miss ratios as [`Row`]s, [`report`]
//! prints them, and [`cli`] has the arguments of `holdfast sim`.

#![forbid(unsafe_code)]

mod classic;
pub mod cli;
mod engine;
mod generate;
mod read;
pub mod report;
mod rng;
mod simulate;
mod trace;
mod write;

pub use generate::{Kind, OltpDump, generate};
pub use read::read;
pub use simulate::{PolicyName, Row, run};
pub use trace::{Class, Declared, Request, Trace};
pub use write::write;
