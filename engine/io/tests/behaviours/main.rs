//! The tests of one behaviour each, a file for each. They are one program: a program for each file
//! would be linked once more with the crates below, and run its one or two tests on one core.
//! `cargo test -p holdfast-io --test behaviours NAME::` runs the tests of one file.

mod a_pipe_is_refused;
mod batches_agree;
mod conformance;
mod direct_io;
mod directory_lock;
mod faults;
mod memory_disk;
mod metering;
mod modelled_disk;
mod more_files_than_descriptors;
mod power_cut;
