//! The tests of one behaviour each, a file for each. They are one program: a program for each file
//! would be linked once more with the crates below, and run its one or two tests on one core.
//! `cargo test -p holdfast-cli --test behaviours NAME::` runs the tests of one file.

mod a_compaction_takes_no_more_log;
mod a_copy_is_not_put_into_its_database;
mod a_database_that_cannot_be_opened_is_salvaged;
mod a_link_to_a_report_stays;
mod a_lost_table_stops_no_salvage;
mod a_program_ends_with_its_slow_disk;
mod an_error_says_what_failed;
mod commands_only_read_what_they_show;
mod exit_codes;
