//! A table a little larger than the cache, scanned again and again.

use holdfast_trace::{Declared, Kind, PolicyName, Trace, generate, run};

fn laps(pages: u32) -> Trace {
    generate("loop", &Kind::Loop { pages, laps: 200 }).expect("a trace")
}

fn ratio(policy: PolicyName, trace: &Trace, declared: Declared) -> f64 {
    run(&[policy], &[1000], std::slice::from_ref(trace), declared).expect("rows")[0].miss_ratio
}

#[test]
fn lru_misses_everything() {
    assert!(ratio(PolicyName::Lru, &laps(1050), Declared::AsTraced) > 0.999);
}

#[test]
fn a_declared_loop_is_partly_admitted() {
    for pages in [1050, 1500, 2000] {
        let found = 1.0 - ratio(PolicyName::Holdfast, &laps(pages), Declared::Whole);
        // Three quarters of the frames, less the misses of the first passes.
        let possible = 750.0 / f64::from(pages);
        assert!(found > 0.85 * possible && found < 1.1 * possible, "{pages} pages: {found} of {possible}");
    }
}

#[test]
fn a_declared_scan_of_a_table_that_fits_comfortably_stays_cached() {
    assert!(ratio(PolicyName::Holdfast, &laps(450), Declared::Whole) < 0.006);
}

#[test]
fn an_undeclared_loop_over_half_the_frames_beside_nothing_stays_cached() {
    assert!(ratio(PolicyName::HoldfastNoHint, &laps(900), Declared::AsTraced) < 0.006);
}
