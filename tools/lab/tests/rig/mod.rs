//! Every experiment on the embedded engine, as small as possible: it runs to its end and reports.
//! The figures mean nothing.

use std::path::Path;
use std::time::Duration;

use holdfast_lab::conditions::Conditions;
use holdfast_lab::document::Document;
use holdfast_lab::experiments::{flush, freepages, growth, iobound, overflow, purge, sessions, soak};
use holdfast_lab::progress::Progress;
use holdfast_lab::rig::fio::Fio;
use holdfast_lab::server::turns::Plan;
use holdfast_lab::server::turns::workload::Workload;
use holdfast_lab::turns::Rounds;
use holdfast_testkit::DiskModel;

const SEED: u64 = 1;
const TURN: Duration = Duration::from_millis(150);

/// The documents of all experiments; files are put into `dir`.
pub fn documents(dir: &Path) -> Vec<Document> {
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
    documents.iter_mut().for_each(|document| document.judge(Conditions::busy_machine()));
    documents
}
