//! The experiments that compare engines on private servers run to their end, measure every claim
//! and report, at a size whose figures mean nothing. On a running server they change nothing. A
//! browser shows their reports. One test, since they use the same folders. It needs the server's
//! packages and Chromium; `cargo xtask test lab-server` runs it.

mod browser;
mod tiny;

use std::collections::BTreeMap;

use holdfast_lab::conditions::Conditions;
use holdfast_lab::document::Document;
use holdfast_lab::registry::Experiment;
use holdfast_lab::report;
use holdfast_lab::server::address::Address;
use holdfast_lab::server::options::with_query_cache;
use holdfast_server::{Cache, Server};
use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::Value;

const PORT: u16 = 13395;

fn documents() -> Vec<Document> {
    let run = |one| tiny::run(one, &["--target", "mariadb"]).map(|result| result.expect(one.name));
    let mut documents: Vec<Document> = tiny::experiments().filter_map(run).collect();
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
        ["--innodb-buffer-pool-size=6M", "--innodb-log-file-size=8M"].map(str::to_owned).to_vec();
    options.extend(with_query_cache(1 << 20));
    // It lets no session be idle for as long as an experiment takes.
    options.push("--wait-timeout=2".to_owned());
    server.up(PORT, true, &options).unwrap();
    let address = Address::Socket(server.socket_path(), None);
    let mut conn = Conn::new(address.options()).unwrap();
    let before = variables(&mut conn);
    let own = server.socket_path().with_file_name("tmp").to_string_lossy().into_owned();
    assert_eq!(before["tmpdir"], own, "no other server that starts removes its temporary tables");
    let target = format!("dsn:mysql://root@127.0.0.1:{PORT}/");
    let run = |one: &Experiment| {
        let workload: &[&str] = if one.name == "sessions" { &["--workload", "dbt2"] } else { &[] };
        tiny::run(one, &[&["--target", &target], workload].concat())
    };
    let documents: Vec<Document> = tiny::experiments().filter_map(run).map(|result| result.expect("there")).collect();
    assert_eq!(variables(&mut conn), before, "nothing of the server is changed");
    let schemas: Vec<String> = conn.query("SHOW DATABASES LIKE 'holdfast%'").unwrap();
    assert!(schemas.is_empty(), "{schemas:?}");
    conn.query_drop("SET GLOBAL query_cache_type = OFF").unwrap();
    let querycache = tiny::experiments().find(|one| one.name == "querycache").unwrap();
    let refused = run(querycache).unwrap().unwrap_err().to_string();
    assert!(refused.contains("does not use its query cache (query_cache_type OFF"), "{refused}");
    server.kill().unwrap();
    server.remove().unwrap();
    documents
}

#[test]
#[ignore = "fetches MariaDB and starts servers"]
fn every_experiment_runs_and_reports() {
    let documents = documents();
    assert_eq!(documents.len(), 8);
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
    // In the order of the registry.
    let expected = [
        ("InnoDB", "8 clients: with a pool"),
        ("InnoDB", "Purge "),
        ("InnoDB", "The checkpoint was"),
        ("InnoDB", "no transaction ended in"),
        ("InnoDB", "throughput is highest with"),
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
    // The files that are locked stay, beside the folders.
    let left = std::fs::read_dir(cache.path("lab")).unwrap().map(Result::unwrap);
    let left = left.filter(|entry| entry.file_type().unwrap().is_dir());
    let left: Vec<_> = left.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    assert!(
        !left.iter().any(|name| name.starts_with("holdfast") || name.starts_with("innodb")),
        "they clean up: {left:?}"
    );
}
