//! The whole `sideload` experiment at a size whose figures mean nothing: every run is made, the
//! document is complete, and the report shows every chart.

use std::time::Duration;

use holdfast_lab::conditions::Conditions;
use holdfast_lab::experiments::sideload::{self, Options, scale::Scale};
use holdfast_lab::pin::Cores;
use holdfast_lab::progress::Progress;
use holdfast_lab::report;
use holdfast_workload::dist::Kind;

fn options(scale: Scale) -> Options {
    Options {
        scale,
        distribution: Kind::Uniform,
        threads: 1,
        rate: scale.rate(),
        dump_rows_per_second: Some(scale.dump_rows_per_second()),
        turns: 3,
        enough: Duration::ZERO,
        turn_minutes: 1.5,
        rate_minutes: 2.0,
        cold_minutes: 6.0,
        policy_alone: false,
        real_disk: None,
        cores: Cores::new(false),
        seed: 1,
    }
}

#[test]
fn sideload_runs_and_reports() {
    let scale = Scale::new(100.0, 16.0);
    let mut document = sideload::run(&options(scale), &mut Progress::hidden()).unwrap();
    document.judge(Conditions::quiet_machine());

    assert_eq!(document.runs.len(), 1 + 3 * 4 + 2, "the ceiling; three policies four ways; one without the hint twice");
    let json = serde_json::to_value(&document).unwrap();
    for run in json["runs"].as_array().unwrap() {
        assert_eq!(run["target"], "embedded");
        let metrics = &run["metrics"];
        assert!(!metrics["samples"].as_array().unwrap().is_empty(), "{run:#}");
        assert!(!metrics["phases"].as_array().unwrap().is_empty());
        if metrics["role"] == "policy" {
            assert!(metrics["tps_beside"]["median"].as_f64().unwrap() > 0.0);
            assert!(metrics["resident_mb"]["during"].as_array().unwrap().len() >= 2);
        }
    }
    for field in ["scale", "hot_rows", "big_rows", "pool_bytes", "seed", "distribution", "disk", "rate_tps"] {
        assert!(json["settings"].get(field).is_some(), "{field}");
    }
    assert_eq!(document.verdicts.len(), 19);
    let text = document.figures.text();
    assert!(text.contains("100 times smaller") && text.contains("Content of the pool"), "{text}");

    let html = report::page(&document);
    if let Some(path) = std::env::var_os("HOLDFAST_LAB_REPORT") {
        std::fs::write(path, &html).unwrap();
    }
    let charts = html.matches("role=\"img\"").count();
    assert_eq!(charts, 4 + 14, "four scenarios; the pool of every run");
    let keys = html.matches("viewBox=\"0 0 46 10\"").count();
    assert_eq!(html.matches("class=\"line ").count(), keys + 3 + 1 + 1 + 3 + 3 + 1 + 1 + 3);
    assert!(html.matches("class=\"area ").count() >= 14 * 2, "hot table and big table in every pool");
    assert!(!html.contains("NaN") && !html.contains("inf "), "a drawing without a number");
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "the report loads {outside}");
    }
}
