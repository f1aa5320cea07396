//! The experiments that compare engines on private servers run to their end, measure every claim
//! and report, at a size whose figures mean nothing. On a running server they change nothing. A
//! browser shows their reports. One test, since they use the same folders. It needs the server's
//! packages and Chromium; `cargo xtask test lab-server` runs it.

mod browser;

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_lab::conditions::Conditions;
use holdfast_lab::document::Document;
use holdfast_lab::experiments::{flush, freepages, growth, iobound, overflow, purge, querycache, sessions};
use holdfast_lab::pin::Cores;
use holdfast_lab::progress::Progress;
use holdfast_lab::report;
use holdfast_lab::server::address::Address;
use holdfast_lab::server::contender::Engine;
use holdfast_lab::server::options::with_query_cache;
use holdfast_lab::server::turns::running::{self, OnServer};
use holdfast_lab::server::turns::workload::Workload;
use holdfast_lab::server::turns::{Plan, contenders};
use holdfast_lab::turns::Rounds;
use holdfast_server::{Cache, Server};
use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::Value;

fn plan(turn: Duration) -> Plan {
    Plan {
        contenders: contenders(&[]),
        rounds: Rounds { least: 2, most: 2 },
        turn,
        cores: Cores::new(true),
        seed: 1,
        ..Plan::default()
    }
}

const TURN: Duration = Duration::from_millis(2200);
const DBSTRESS: Workload = Workload::DbStress { objects: 300 };
const DBT2: Workload = Workload::Dbt2 { warehouses: 1, items: 300, customers: 30 };

fn sessions_options() -> sessions::Options {
    sessions::Options { plan: plan(TURN / 2), workload: DBSTRESS, counts: vec![1, 5], short_turns: None }
}

fn purge_options() -> purge::Options {
    purge::Options { plan: plan(TURN), objects: 500, sessions: 3, pool_bytes: 32 << 20 }
}

fn flush_options() -> flush::Options {
    flush::Options {
        plan: plan(TURN),
        workload: DBSTRESS,
        sessions: 2,
        capacities: vec![8 << 20],
        settle: TURN,
        modelled: None,
    }
}

fn freepages_options() -> freepages::Options {
    freepages::Options { plan: plan(TURN), objects: 6000, sessions: 2, log_bytes: 8 << 20 }
}

fn overflow_options() -> overflow::Options {
    overflow::Options { plan: plan(TURN / 4), rows: 30_000, shares: vec![0.5, 2.0], threads: vec![1, 8] }
}

fn querycache_options() -> querycache::Options {
    querycache::Options { plan: plan(TURN / 2), rows: 3000, threads: 2, cache_bytes: 1 << 20 }
}

fn iobound_options() -> iobound::Options {
    let fio = Err("not beside servers".to_owned());
    iobound::Options { plan: plan(TURN / 2), objects: 2500, sessions: 3, fio }
}

fn growth_options() -> growth::Options {
    growth::Options { plan: plan(TURN), mib: vec![4, 8], pool_bytes: 8 << 20, log_bytes: 8 << 20 }
}

fn documents() -> Vec<Document> {
    let mut progress = Progress::hidden();
    let mut documents = vec![
        sessions::on_servers(&sessions_options(), &mut progress).expect("sessions"),
        purge::on_servers(&purge_options(), &mut progress).expect("purge"),
        flush::on_servers(&flush_options(), &mut progress).expect("flush"),
        freepages::on_servers(&freepages_options(), &mut progress).expect("freepages"),
        overflow::servers::run(&overflow_options(), &mut progress).expect("overflow"),
        querycache::run(&querycache_options(), &mut progress).expect("querycache"),
        iobound::servers::run(&iobound_options(), &mut progress).expect("iobound"),
        growth::on_servers(&growth_options(), &mut progress).expect("growth"),
    ];
    documents.iter_mut().for_each(|document| document.judge(Conditions::busy_machine()));
    documents
}

/// The server's variables, without those that count or contain the time.
fn variables(conn: &mut Conn) -> BTreeMap<String, String> {
    let rows: Vec<(String, String)> = conn.query("SHOW GLOBAL VARIABLES").unwrap();
    rows.into_iter().filter(|(name, _)| !name.starts_with("gtid_") && name != "timestamp").collect()
}

/// The documents of the experiments on a running server, which they leave unchanged.
fn documents_there(cache: &Cache) -> Vec<Document> {
    let server = Server::new(cache, "lab/there-test").bound_to_us();
    let mut options: Vec<String> =
        ["--skip-networking", "--innodb-buffer-pool-size=6M", "--innodb-log-file-size=8M"].map(str::to_owned).to_vec();
    options.extend(with_query_cache(1 << 20));
    // It lets no session be idle for as long as an experiment takes.
    options.push("--wait-timeout=2".to_owned());
    server.up(13395, true, &options).unwrap();
    let address = Address::Socket(server.socket_path(), None);
    let mut conn = Conn::new(address.options()).unwrap();
    let before = variables(&mut conn);
    let own = server.socket_path().with_file_name("tmp").to_string_lossy().into_owned();
    assert_eq!(before["tmpdir"], own, "no other server that starts removes its temporary tables");
    let overflow = overflow::Options { shares: vec![0.9, 2.0], ..overflow_options() };
    let experiments = [
        Box::new(sessions::Options { workload: DBT2, ..sessions_options() }) as Box<dyn OnServer>,
        Box::new(purge_options()),
        Box::new(flush_options()),
        Box::new(freepages_options()),
        Box::new(overflow),
        Box::new(querycache_options()),
    ];
    let run = |mut what: Box<dyn OnServer>| running::run(&mut *what, &address, Engine::Innodb, &mut Progress::hidden());
    let documents: Vec<Document> = experiments.into_iter().map(|what| run(what).expect("there")).collect();
    assert_eq!(variables(&mut conn), before, "nothing of the server is changed");
    let schemas: Vec<String> = conn.query("SHOW DATABASES LIKE 'holdfast%'").unwrap();
    assert!(schemas.is_empty(), "{schemas:?}");
    conn.query_drop("SET GLOBAL query_cache_type = OFF").unwrap();
    let refused = run(Box::new(querycache_options())).unwrap_err().to_string();
    assert!(refused.contains("does not use its query cache (query_cache_type OFF"), "{refused}");
    server.kill().unwrap();
    server.remove().unwrap();
    documents
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
        // `growth` has steps instead of transactions a second.
        let has_figures = |metrics: &Value| metrics["tps"].is_object() || metrics["steps"].is_object();
        let run = |engine: &str| document.runs.iter().any(|r| r.policy == engine && has_figures(&r.metrics));
        assert!(run("holdfast") && run("InnoDB"), "{name}");
        let lines = document.figures.charts.iter().flat_map(|(_, charts)| charts).flat_map(|c| &c.lines);
        assert!(lines.clone().count() > 0 && lines.into_iter().all(|l| !l.points.is_empty()), "{name}: an empty chart");
    }
    let cache = Cache::of_the_project();
    let there = documents_there(&cache);
    let expected = [
        ("InnoDB", "throughput is highest with"),
        ("InnoDB", "Purge "),
        ("InnoDB", "The checkpoint was"),
        ("InnoDB", "no transaction ended in"),
        ("InnoDB", "8 clients: with a pool"),
        ("query cache asked", "With statements prepared "),
    ];
    assert_eq!(there.len(), expected.len());
    for (document, (side, said)) in there.iter().zip(expected) {
        let (name, lead, words) = (&document.experiment, &document.figures.lead, document.figures.words.join(" "));
        assert!(name.ends_with("-dsn") && document.verdicts.is_empty(), "{name}");
        assert!(document.runs.iter().any(|r| r.policy == side && r.metrics["tps"].is_object()), "{name}");
        assert!(words.contains(said) && lead.contains("a cache of 6 MB"), "{name}: {lead} {words}");
        assert_eq!(document.settings["server"]["innodb_buffer_pool_size"], "6291456", "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    for document in documents.iter().chain(&there) {
        let charts = browser::look_at(&report::page(document), &document.experiment, dir.path());
        assert!(charts > 2, "{}: {charts} charts", document.experiment);
    }
    let html = report::page_of_all(&[documents, there].concat());
    assert!(!html.contains("NaN") && !html.contains("inf "), "a drawing without a number");
    let left = std::fs::read_dir(cache.path("lab")).unwrap();
    let left: Vec<_> = left.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    assert!(
        !left.iter().any(|name| name.starts_with("holdfast") || name.starts_with("innodb")),
        "they clean up: {left:?}"
    );
}
