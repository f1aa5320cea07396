//! The experiments on the embedded engine run to their end, every claim is measured, and the report
//! of all of them shows what they found.

mod rig;

use holdfast_lab::report;

#[test]
fn every_experiment_runs_and_reports() {
    let dir = tempfile::tempdir().unwrap();
    let documents = rig::documents(dir.path());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "they clean up");
    for document in &documents {
        assert!(!document.verdicts.is_empty() && !document.runs.is_empty(), "{}", document.experiment);
        for verdict in &document.verdicts {
            assert!(verdict.value.is_some_and(f64::is_finite), "{}: {}", document.experiment, verdict.claim);
        }
    }
    let html = report::page_of_all(&documents);
    for document in &documents {
        assert!(html.contains(&format!("id=\"{}\"", document.experiment)), "{}", document.experiment);
    }
    assert!(!html.contains("NaN") && !html.contains("inf "), "a drawing without a number");
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "the report loads {outside}");
    }
}
