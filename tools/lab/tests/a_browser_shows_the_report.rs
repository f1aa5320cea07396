//! The experiments on the embedded engine run to their end, every claim is measured, and the report
//! of all of them shows what they found: in a real browser, too, and so does the report of each.
//! Those of the experiments on servers are shown where they are made, in
//! `experiments_run_on_private_servers`. `cargo xtask test browser` runs it.
//!
//! The experiments take a minute: both tests look at the same ones, and no other suite runs them.

mod browser;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use browser::look_at;
use holdfast_lab::conditions::Conditions;
use holdfast_lab::document::Document;
use holdfast_lab::experiments::{flush, freepages, growth, iobound, overflow, purge, sessions, soak};
use holdfast_lab::progress::Progress;
use holdfast_lab::report;
use holdfast_lab::rig::fio::Fio;
use holdfast_lab::server::turns::Plan;
use holdfast_lab::server::turns::workload::Workload;
use holdfast_lab::turns::Rounds;
use holdfast_testkit::DiskModel;

const SEED: u64 = 1;
const TURN: Duration = Duration::from_millis(150);

/// The documents of all experiments on the embedded engine, as small as possible: the figures mean
/// nothing. Files are put into `dir`.
fn measured(dir: &Path) -> Vec<Document> {
    let mut progress = Progress::hidden();
    let plan =
        Plan { rounds: Rounds { least: 3, most: 3 }, turn: TURN, seed: SEED, dir: dir.to_owned(), ..Plan::default() };
    let overflow = overflow::Options {
        plan: Plan { rounds: Rounds::up_to_twice(3), turn: 4 * TURN, ..plan.clone() },
        rows: 40_000,
        shares: vec![2.0],
        threads: vec![1, 2],
    };
    let flush = flush::Options {
        plan: Plan { rounds: Rounds { least: 1, most: 1 }, turn: Duration::from_secs(2), ..plan.clone() },
        workload: Workload::DbStress { objects: 300 },
        sessions: 2,
        capacities: vec![4 << 20],
        settle: TURN,
        modelled: Some(DiskModel::spinning().times_as_fast(100.0)),
    };
    let freepages = freepages::Options {
        plan: Plan { rounds: Rounds { least: 1, most: 1 }, turn: Duration::from_secs(2), ..plan.clone() },
        objects: 6000,
        sessions: 2,
        log_bytes: 4 << 20,
    };
    let sessions = sessions::Options {
        plan: Plan { rounds: Rounds { least: 2, most: 2 }, ..plan.clone() },
        workload: Workload::DbStress { objects: 300 },
        counts: vec![1, 3],
        short_turns: Some(2),
    };
    let purge = purge::Options { plan: plan.clone(), objects: 300, sessions: 2, pool_bytes: 32 << 20 };
    // Nothing is fetched: a machine without fio uses the loop.
    let fio = Fio::installed().map_err(|error| error.to_string());
    let rounds = Rounds::up_to_twice(2);
    let iobound = iobound::Options { plan: Plan { rounds, ..plan.clone() }, objects: 1500, sessions: 2, fio };
    let soak = soak::Options {
        plan: Plan { turn: Duration::from_secs(5), ..plan.clone() },
        objects: 1000,
        sessions: 2,
        pool_bytes: 8 << 20,
    };
    let growth = growth::Options { plan, mib: vec![4, 8], pool_bytes: growth::LEAST_POOL, log_bytes: 4 << 20 };
    let mut documents = vec![
        overflow::run(&overflow, &mut progress).expect("overflow"),
        purge::run(&purge, &mut progress).expect("purge"),
        flush::run(&flush, &mut progress).expect("flush"),
        freepages::run(&freepages, &mut progress).expect("freepages"),
        sessions::run(&sessions, &mut progress).expect("sessions"),
        iobound::run(&iobound, &mut progress).expect("iobound"),
        soak::run(&soak, &mut progress).expect("soak"),
        growth::run(&growth, &mut progress).expect("growth"),
    ];
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
        let documents = measured(dir.path());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "they clean up");
        documents
    })
}

#[test]
#[ignore = "takes a minute: cargo xtask test browser"]
fn every_experiment_runs_and_reports() {
    let documents = documents();
    for document in documents {
        assert!(!document.verdicts.is_empty() && !document.runs.is_empty(), "{}", document.experiment);
        for verdict in &document.verdicts {
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
