//! The tests of one behaviour each, a file for each. They are one program: a program for each file
//! would be linked once more with the crates below, and run its one or two tests on one core.
//! `cargo test -p holdfast-policy --test behaviours NAME::` runs the tests of one file.

mod change_of_kind;
mod common;
mod correlated_touches;
mod midpoint;
mod model;
mod scan_ring;
mod slots_of_another_policy;
mod victims;
