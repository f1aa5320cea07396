//! Policies compared with their simplest possible versions, and with bounds that hold for all.

use holdfast_trace::{Declared, Kind, PolicyName, Row, Trace, generate, run};

/// A skewed trace of `pages` pages from a linear congruential generator.
fn skewed(pages: u64, len: usize, seed: u64) -> Trace {
    let mut x = seed;
    let mut trace = generate("skewed", &Kind::Loop { pages: pages as u32, laps: 1 }).expect("a trace");
    let mut next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % pages
    };
    let template = trace.requests[0];
    trace.requests =
        (0..len).map(|_| holdfast_trace::Request { page: next().min(next()) as u32, ..template }).collect();
    trace
}

fn misses(policy: PolicyName, frames: usize, trace: &Trace) -> u64 {
    run(&[policy], &[frames], std::slice::from_ref(trace), Declared::AsTraced).expect("rows")[0].misses
}

#[test]
fn lru_is_lru() {
    let trace = skewed(60, 3000, 1);
    for frames in [4, 10, 30, 60] {
        let (mut list, mut expected) = (Vec::new(), 0);
        for r in &trace.requests {
            match list.iter().position(|&p| p == r.page) {
                Some(at) => drop(list.remove(at)),
                None => expected += 1,
            }
            list.insert(0, r.page);
            list.truncate(frames);
        }
        assert_eq!(misses(PolicyName::Lru, frames, &trace), expected, "{frames} frames");
    }
}

#[test]
fn the_optimum_is_the_optimum() {
    let trace = skewed(40, 1500, 2);
    for frames in [4, 10, 30] {
        let (mut cached, mut expected): (Vec<u32>, u64) = (Vec::new(), 0);
        for (i, r) in trace.requests.iter().enumerate() {
            if cached.contains(&r.page) {
                continue;
            }
            expected += 1;
            if cached.len() == frames {
                let next = |p: &u32| trace.requests[i..].iter().position(|r| r.page == *p).unwrap_or(usize::MAX);
                let farthest = (0..frames).max_by_key(|&c| next(&cached[c])).expect("a page");
                cached.remove(farthest);
            }
            cached.push(r.page);
        }
        assert_eq!(misses(PolicyName::Optimum, frames, &trace), expected, "{frames} frames");
    }
}

#[test]
fn nothing_beats_the_optimum_and_what_fits_misses_once() {
    for seed in 0..5 {
        let trace = skewed(500, 20_000, seed);
        for frames in [4, 7, 50, 200, 499] {
            let floor = misses(PolicyName::Optimum, frames, &trace);
            for policy in PolicyName::all() {
                let misses = misses(policy, frames, &trace);
                assert!(misses >= floor, "{policy} with {frames} frames: {misses} < {floor}");
                assert!(misses <= trace.touches());
            }
        }
        let used: std::collections::HashSet<u32> = trace.requests.iter().map(|r| r.page).collect();
        for policy in PolicyName::all() {
            // LIRS and W-TinyLFU always give a part of the cache to pages on trial, so the cache
            // has room for them.
            assert_eq!(misses(policy, 50_000, &trace), used.len() as u64, "{policy}");
        }
    }
}

#[test]
fn names_are_read_as_they_are_printed() {
    for policy in PolicyName::all() {
        assert_eq!(policy.to_string().parse::<PolicyName>().expect("a policy"), policy);
    }
    assert_eq!("midpoint_lru_250".parse::<PolicyName>().expect("a policy"), PolicyName::MidpointLru { time: 250 });
    let error = "fifo".parse::<PolicyName>().expect_err("no such policy").to_string();
    assert!(error.contains("holdfast") && error.contains("w_tinylfu"), "{error}");
}

#[test]
fn rows_become_tables_and_json() {
    let trace = skewed(50, 1000, 3);
    let rows: Vec<Row> =
        run(&[PolicyName::Lru, PolicyName::Arc], &[10, 20], &[trace], Declared::AsTraced).expect("rows");
    let table = holdfast_trace::report::table(&rows);
    assert_eq!(table.lines().count(), 4, "{table}");
    let json: serde_json::Value =
        serde_json::from_str(&holdfast_trace::report::json(&rows).expect("json")).expect("json");
    let first = json[0].as_object().expect("an object");
    assert_eq!(first.keys().collect::<Vec<_>>(), ["frames", "miss_ratio", "policy", "trace"]);
    assert_eq!((first["policy"].as_str(), first["frames"].as_u64()), (Some("lru"), Some(10)));
}

#[test]
fn too_small_a_cache_is_refused() {
    assert!(run(&[PolicyName::Lru], &[3], &[], Declared::AsTraced).is_err());
}
