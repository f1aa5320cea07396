//! The common parts of the experiments on the embedded engine: a database on a kind of disk,
//! sessions that run at full speed for a while, a sample each second, and loops without an engine
//! that show what the machine can do.
//!
//! | module | what |
//! |---|---|
//! | `site` | the data: loaded once, opened with pools and logs of any size |
//! | `tables` | its tables with their rows |
//! | `gate` | where sessions wait while nothing may happen |
//! | `load` | sessions, their transactions and latencies per statement class |
//! | `sampler` | a sample a second: pool, log, history, waits, disk |
//! | `sessions` | sysbench and dbSTRESS sessions over the engine |
//! | `control` | loops without an engine: processor, reads past the system's cache, syncs |
//! | [`fio`] | fio, where the disk is in question |
//! | `memory` | resident memory of this process, and its peak |
//! | `cpu` | processor time |

pub(crate) mod control;
pub(crate) mod cpu;
pub mod fio;
mod gate;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod sampler;
pub(crate) mod sessions;
pub(crate) mod site;
pub(crate) mod tables;
