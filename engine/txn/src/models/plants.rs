//! Planted faults, and the models that find them.

use holdfast_base::loom_plants::failure_with;

use super::{commits, history, views};

#[track_caller]
fn check(fault: &'static str, model: fn(), says: &str) {
    let failure = failure_with(fault, model);
    assert!(failure.contains(says), "{fault}: {failure}");
}

/// What the commit stored before is not seen then.
#[test]
fn a_number_that_is_published_relaxed_is_found() {
    check("number-published-relaxed", commits::what_the_last_commit_covers_is_known, "known.load");
}

#[test]
fn a_parked_committer_that_is_not_woken_is_found() {
    check("parked-not-woken", commits::what_the_last_commit_covers_is_known, "deadlock");
}

#[test]
fn an_end_outside_the_window_that_is_forgotten_is_found() {
    check("straggler-forgotten", commits::an_end_is_not_lost, "is_active(OLD)");
}

#[test]
fn an_undone_version_that_is_believed_is_found() {
    let model = commits::what_was_undone_before_a_commit_is_not_believed;
    check("undone-version-believed", model, "has undone counts as committed");
}

/// The first log is missing in the queue.
#[test]
fn a_log_that_is_gathered_before_its_number_is_published_is_found() {
    check("gathered-before-published", history::all_logs_up_to_the_last_commit_are_gathered, "[2]");
    check("gathered-before-published", history::a_list_is_gathered_in_the_order_of_its_commits, "[1");
}

#[test]
fn a_view_that_is_opened_without_a_fence_is_found() {
    check("view-opened-unfenced", views::no_view_is_older_than_the_oldest, "a view of 3 is older than 4");
    check("view-opened-unfenced", views::no_short_view_is_older_than_the_horizon, "a view of 3 is older than 4");
}
