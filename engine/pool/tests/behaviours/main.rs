//! The tests of one behaviour each, a file for each. They are one program: a program for each file
//! would be linked once more with the crates below, and run its one or two tests on one core.
//! `cargo test -p holdfast-pool --test behaviours NAME::` runs the tests of one file.
#![cfg(not(any(loom, shuttle)))]

mod a_promise_of_atomic_writes_is_asked_for_each_time;
mod checkpoint;
mod cleaner_sleeps;
mod close_space;
mod common;
mod crash;
mod dirty_eviction;
mod faults;
mod fix;
mod freed_pages;
mod images_relied_on;
mod midpoint_delay;
mod no_timers;
mod pages_newer_than_the_log;
mod policy_switch;
mod read_ahead_in_batches;
mod reservation;
mod resize;
mod scan;
mod stress;
mod torn_pages;
mod warmup;
