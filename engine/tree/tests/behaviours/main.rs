//! The tests of one behaviour each, a file for each. They are one program: a program for each file
//! would be linked once more with the crates below, and run its one or two tests on one core.
//! `cargo test -p holdfast-tree --test behaviours NAME::` runs the tests of one file.

mod a_bitmap_that_was_cut_off_is_no_damage;
mod a_bulk_load_that_fails_gives_its_pages_back;
mod a_chain_that_was_freed_is_not_read;
mod a_change_in_place_stays_in_its_record;
mod a_check_asks_before_each_chain;
mod a_full_disk_leaves_the_free_pages;
mod a_page_count_that_is_too_low_is_damage;
mod a_page_that_has_moved_is_no_damage;
mod a_page_that_was_cut_off_is_no_damage;
mod a_sample_of_all_leaves_ends;
mod a_walk_is_remembered_apart;
mod a_wild_child_number_takes_no_memory;
mod a_wrong_length_is_not_moved_along;
mod allocation_waits_without_a_latch;
mod an_empty_tree_gives_its_nodes_back;
mod bulk_load_equals_inserts;
mod changes_where_an_entry_was_read;
mod common;
mod concurrent_changes_and_walks;
mod damage_is_an_error;
mod damage_stays_in_its_table;
mod every_change_fits_the_smallest_pool;
mod indexes_keep_together;
mod long_values_in_chains;
mod node_model;
mod nodes_without_a_key_can_be_moved;
mod page_ops;
mod records_that_lie_over_each_other_are_damage;
mod redo_after_a_crash;
mod redo_after_a_crash_with_threads;
mod redo_applies_batches_with_threads;
mod redo_brings_a_page_in_once;
mod redo_meets_a_page_that_does_not_fit;
mod redo_writes_into_no_other_record;
mod space_comes_back;
mod structure_changes_have_their_turn_in_a_check;
mod trees_behave_like_maps;
mod walks_read_ahead;
