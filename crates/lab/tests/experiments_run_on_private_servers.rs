//! The experiments that compare engines on private servers run to their end, measure every claim and report, at a size that says nothing
//! about speed. One test: they use the same folders. It needs the server's packages, so `cargo xtask test lab-server` asks for it.

use std::time::Duration;

use holdfast_lab::document::Document;
use holdfast_lab::pin::Cores;
use holdfast_lab::progress::Progress;
use holdfast_lab::report;
use holdfast_lab::server::turns::{Plan, contenders};
use holdfast_lab::server::{flush, overflow, purge, sessions};

fn plan(turn: Duration) -> Plan {
    Plan { contenders: contenders(&[]), pairs: 2, turn, cores: Cores::new(true), seed: 1 }
}

fn documents() -> Vec<Document> {
    let mut progress = Progress::hidden();
    let turn = Duration::from_millis(2200);
    let sessions = sessions::Options { plan: plan(turn / 2), objects: 300, counts: vec![1, 5] };
    let purge = purge::Options { plan: plan(turn), objects: 500, sessions: 3, pool_bytes: 32 << 20 };
    let flush =
        flush::Options { plan: plan(turn), objects: 300, sessions: 2, capacities: vec![8 << 20], modelled: None };
    let overflow =
        overflow::Options { plan: plan(turn / 4), rows: 30_000, shares: vec![0.5, 2.0], threads: vec![1, 8] };
    vec![
        sessions::run(&sessions, &mut progress).expect("sessions").0,
        purge::run(&purge, &mut progress).expect("purge").0,
        flush::run(&flush, &mut progress).expect("flush").0,
        overflow::run(&overflow, &mut progress).expect("overflow").0,
    ]
}

#[test]
#[ignore = "fetches MariaDB and starts servers"]
fn every_experiment_runs_and_reports() {
    let documents = documents();
    for document in &documents {
        let name = &document.experiment;
        assert!(!document.verdicts.is_empty() && !document.figures.grids.is_empty(), "{name}");
        let missing: Vec<_> = document.verdicts.iter().filter(|v| v.value.is_none()).map(|v| &v.claim).collect();
        assert!(missing.is_empty(), "{name}: not measured: {missing:?}");
        let run = |engine: &str| document.runs.iter().any(|r| r.policy == engine && r.metrics.contains_key("tps"));
        assert!(run("holdfast") && run("InnoDB"), "{name}");
        let lines = document.figures.charts.iter().flat_map(|(_, charts)| charts).flat_map(|c| &c.lines);
        assert!(lines.clone().count() > 0 && lines.into_iter().all(|l| !l.points.is_empty()), "{name}: an empty chart");
    }
    let html = report::page_of_all(&documents);
    assert!(!html.contains("NaN") && !html.contains("inf "), "a drawing without a number");
    let left = std::fs::read_dir(holdfast_server::Cache::of_the_project().path("lab")).unwrap();
    let left: Vec<_> = left.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    assert!(
        !left.iter().any(|name| name.starts_with("holdfast") || name.starts_with("innodb")),
        "they clean up: {left:?}"
    );
}
