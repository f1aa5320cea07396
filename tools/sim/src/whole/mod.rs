//! Simulation of the whole engine: one seed, one run, repeated to the bit.
//!
//! A run has several *lives* of one database on a simulated disk. In a life sessions run
//! transactions at all isolation levels, an operator changes tables, cache and log beside them, the
//! engine's own threads work, and the scheduler of [`holdfast_base::sim`] decides which of all
//! these threads runs. The disk is slow, fails, fills up, and loses power. A life ends with a clean
//! close or a power cut.
//!
//! What is checked:
//! - while it runs: what a transaction reads twice, what it reads of its own changes, and that
//!   every index agrees with the table ([`session`]);
//! - after each life: dependency cycles that an isolation level forbids ([`judge`]), every
//!   acknowledged commit is there, no transaction is there in part ([`survivors`]), `verify()` is
//!   clean;
//! - after a restart, at rest: old versions keep to their limit, no page is lost, nothing is kept
//!   that no transaction needs ([`bounds`]), and a close leaves no thread waiting ([`waits`]);
//! - always: no run in which no thread can go on, no panic.
//!
//! A run takes a process of its own, so that it begins with the same statics and addresses;
//! [`runner`] starts them.

mod backups;
mod bounds;
mod copies;
mod counters;
mod current;
mod damage;
mod definer;
mod definitions;
pub(crate) mod disk;
mod fault;
mod faults;
mod flow;
mod forged;
mod growth;
mod held;
mod history;
mod judge;
mod keeper;
mod kinds;
mod life;
mod lives;
mod loads;
mod metadata;
mod opens;
mod operator;
mod places;
pub mod plan;
mod prepared;
mod raw_locks;
mod raw_rows;
mod reads;
mod renewal;
mod restart;
mod retried;
pub mod runner;
mod session;
mod settings;
mod shared;
mod shared_files;
mod struck;
mod survivors;
mod tall;
mod temporary;
mod values;
mod waits;
mod warm_up;
mod xa;

pub use lives::run;
