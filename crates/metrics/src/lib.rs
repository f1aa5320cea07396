//! Floor 0: what the engine counts.
//!
//! The [catalogue](catalogue()) lists every metric as data: name, unit, kind, help. [`Metrics`] is
//! where the floors count, [`Snapshot`] what they had counted at one moment; status variables,
//! Prometheus text and documentation are generated from the two.
//!
//! Counters are sharded: a thread adds to one of a few padded copies with one relaxed atomic add,
//! so counting on a hot path costs a few nanoseconds and no cache line travels between cores.
//! Numbers are exact once the threads are quiet; a snapshot taken while others count is not one
//! point in time. Nothing here locks or blocks.

#![forbid(unsafe_code)]

mod catalogue;
mod histogram;
mod metrics;
mod prometheus;
mod snapshot;
mod thread;

pub use catalogue::{Counter, Derived, Description, Gauge, Kind, Timing, Unit, WaitClass, catalogue, markdown_table};
pub use histogram::Distribution;
pub use metrics::{Metrics, WaitTimer};
pub use snapshot::{Snapshot, WaitTotals};
pub use thread::{GROUPS, Local, Spread, local, thread_group, thread_number};
