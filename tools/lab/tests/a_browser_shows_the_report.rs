//! The experiments on the embedded engine run to their end, every claim is measured, and the report
//! of all of them shows what they found: in a real browser, too, and so does the report of each.
//! Those of the experiments on servers are shown where they are made, in
//! `experiments_run_on_private_servers`. `cargo xtask test browser` runs it.
//!
//! The experiments take a minute: both tests look at the same ones, and no other suite runs them.

mod browser;
mod tiny;

use std::sync::OnceLock;

use browser::look_at;
use holdfast_lab::conditions::Conditions;
use holdfast_lab::document::Document;
use holdfast_lab::registry::{EXPERIMENTS, Experiment};
use holdfast_lab::report;

/// The document of every experiment on the embedded engine, as small as possible, with files in
/// `dir`.
fn measured(dir: &str) -> Vec<Document> {
    let on_the_engine = EXPERIMENTS.iter().filter(|one| !one.needs_server);
    let document = |one: &Experiment| tiny::run(one, &["--no-pin", "--dir", dir]).map(|result| result.expect(one.name));
    let mut documents: Vec<Document> = on_the_engine.filter_map(document).collect();
    for document in &mut documents {
        document.judge(Conditions::busy_machine());
        document.command = format!("holdfast lab {} --dir 'a \"folder\"'", document.experiment);
    }
    documents
}

/// What all experiments have found.
fn documents() -> &'static [Document] {
    static FOUND: OnceLock<Vec<Document>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let documents = measured(dir.path().to_str().unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "they clean up");
        documents
    })
}

#[test]
#[ignore = "takes a minute: cargo xtask test browser"]
fn every_experiment_runs_and_reports() {
    let documents = documents();
    assert_eq!(documents.len(), 10);
    let judged: Vec<&str> = tiny::experiments().map(|one| one.name).collect();
    for document in documents {
        assert!(!document.verdicts.is_empty() && !document.runs.is_empty(), "{}", document.experiment);
        let is_judged = judged.contains(&document.experiment.as_str());
        for verdict in document.verdicts.iter().filter(|_| is_judged) {
            assert!(verdict.value.is_some_and(f64::is_finite), "{}: {}", document.experiment, verdict.claim);
        }
    }
    let html = report::page_of_all(documents);
    for document in documents {
        assert!(html.contains(&format!("id=\"{}\"", document.experiment)), "{}", document.experiment);
    }
    assert!(!html.contains("NaN") && !html.contains("inf "), "a drawing without a number");
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "the report loads {outside}");
    }
}

#[test]
#[ignore = "needs Chromium: cargo xtask test browser"]
fn a_browser_shows_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let documents = documents();
    let charts = look_at(&report::page_of_all(documents), "all", dir.path());
    assert!(charts > 20, "{charts} charts");
    let mut one_by_one = 0;
    for document in documents {
        let charts = look_at(&report::page(document), &document.experiment, dir.path());
        assert!(charts > 0, "{}: no chart", document.experiment);
        one_by_one += charts;
    }
    assert_eq!(one_by_one, charts, "the same charts");
}
