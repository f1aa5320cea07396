//! The tests of one behaviour each, a file for each. They are one program: a program for each file
//! would be linked once more with the crates below, and run its one or two tests on one core.
//! `cargo test -p holdfast-wal --test behaviours NAME::` runs the tests of one file.
//!
//! The models of loom beside this folder are programs of their own: they are built only for loom.

mod a_checkpoint_that_was_not_synced_is_written_again;
mod a_failed_sync_poisons;
mod a_file_that_the_checkpoint_has_passed_may_be_unreadable;
mod a_full_disk_is_an_error_of_the_statement;
mod a_segment_in_the_making_is_made_durable;
mod backups_follow_the_live_log;
mod checkpoints_free_segments;
mod commits_wait_for_what_the_setting_says;
mod common;
mod crashes_lose_only_what_was_not_flushed;
mod leftovers_of_earlier_lives;
mod readers_write_nothing;
mod reopening_returns_every_group;
mod space_is_promised_before_use;
mod threads_append_and_flush;
mod torn_tail_or_damage;
