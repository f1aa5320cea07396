//! The tests of one behaviour each, a file for each. They are one program: a program for each file
//! would be linked once more with the crates below, and run its one or two tests on one core.
//! `cargo test -p holdfast-capi --test behaviours NAME::` runs the tests of one file.

mod a_killed_session_waits_no_longer;
mod a_killed_session_works_no_longer;
mod a_prepared_transaction_keeps_its_tables;
mod a_server_refuses_other_formats;
mod a_snapshot_says_that_it_was_given_up;
mod common;
mod listings_and_sessions;
mod misuse_is_an_error;
mod rows_survive_a_reopen;
