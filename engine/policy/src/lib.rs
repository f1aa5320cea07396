//! Floor 1: replacement policies as pure state machines.
//!
//! No I/O, no threads, no clocks, no unsafe: time and everything else are arguments, so that the
//! engine and the trace simulator run the same code.
//!
//! # Protocol
//! A policy ranks *slots* (frames). The caller keeps one 64-bit policy word per slot, reached
//! through [`Words`], and calls
//!
//! - [`Policy::insert`] when a page has been given a slot (after a miss, a read-ahead, or a page's
//!   creation);
//! - on every access, the one that missed included, [`TouchRules::touch`] with the word of the
//!   slot, a copy of the rules and of [`Policy::clock`], without a mutex or a list. Only if it
//!   returns [`TouchEffect::Locked`], the caller takes the mutex of the policy and calls
//!   [`Policy::touch_locked`];
//! - [`Policy::victim`] when it needs a slot, [`Policy::remove`] when it drops a page;
//! - after calls that take `&mut self`, it publishes [`Policy::clock`] to its atomics, and after a
//!   change of capacity or kind [`Policy::rules`].
//!
//! A policy object has no locks; the caller serializes all calls but [`TouchRules::touch`]. Touches
//! may race with everything else: a touch may be lost, a page never.
//!
//! Several policies may share one [`Words`], each with the slots that were inserted into it (the
//! partitions of a pool do). A touch is late when its slot has passed on to another policy before
//! the mutex is taken. So a policy knows its slots by its own links, which only callers with its
//! mutex see, and never by a word. It ignores the word of a slot that is not its own.
//!
//! # Invariants
//! A resident slot is in exactly one queue of exactly one policy, and its word names that queue. A
//! slot that is not resident is in none, and its word is 0.

#![forbid(unsafe_code)]

mod any;
mod ghost;
mod holdfast;
mod list;
mod lru;
mod midpoint;
mod policy;
mod runs;
mod scan;
mod touch;
mod word;

pub use any::{AnyPolicy, PolicyKind, build};
pub use holdfast::Holdfast;
pub use lru::Lru;
pub use midpoint::MidpointLru;
pub use policy::{Policy, PolicyStats, Slot, Words};
pub use scan::{SCAN_BUDGET_DIVISOR, ScanHistory, ScanPlan, scan_budget};
pub use touch::{Queue, ScanHint, Touch, TouchEffect, TouchRules};
