//! The report of all experiments on the embedded engine in a real browser, and the report of each.
//! Those of the experiments on servers are shown where they are made, in
//! `experiments_run_on_private_servers`. `cargo xtask test browser` runs it.

mod browser;
mod rig;

use browser::look_at;
use holdfast_lab::report;

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn a_browser_shows_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let documents = rig::documents(dir.path());
    let charts = look_at(&report::page_of_all(&documents), "all", dir.path());
    assert!(charts > 20, "{charts} charts");
    let mut one_by_one = 0;
    for document in &documents {
        let charts = look_at(&report::page(document), &document.experiment, dir.path());
        assert!(charts > 0, "{}: no chart", document.experiment);
        one_by_one += charts;
    }
    assert_eq!(one_by_one, charts, "the same charts");
}
