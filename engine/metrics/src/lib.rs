//! Floor 0: the metrics of the engine.
//!
//! The [catalogue](catalogue()) lists every metric as data: name, unit, kind, help. The floors
//! count in [`Metrics`], and a [`Snapshot`] has the values of one moment. Status variables,
//! Prometheus text and documentation are generated from these.
//!
//! Counters are sharded: a thread adds to one of a few padded copies with one relaxed atomic add,
//! so counting on a hot path costs a few nanoseconds and no cache line moves between cores. Numbers
//! are exact once the threads have stopped. A snapshot taken while threads count is not one point
//! in time. Nothing here locks or blocks.

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
#[cfg(loom)]
pub use thread::set_thread_number;
pub use thread::{GROUPS, Local, Spread, local, thread_group, thread_number};
