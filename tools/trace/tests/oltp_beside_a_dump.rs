//! The `sideload` experiment at a twentieth of its size: the effect of a dump on the misses of
//! OLTP, by policy.

use holdfast_trace::{Declared, Kind, OltpDump, PolicyName, Trace, generate, run};

const FRAMES: usize = 2400;

/// The cost of the few frames of the ring: in so small a pool they are a third of a percent.
const RING: f64 = 1.03;

fn options(dump_every: u32) -> OltpDump {
    let (leaves, dump_pages) = (3000, 10_000);
    OltpDump { leaves, dump_pages, dump_every, warm_up: 250_000, touches: 100_000, ..OltpDump::default() }
}

fn trace(options: OltpDump) -> Trace {
    generate("oltp", &Kind::OltpDump(options)).expect("a trace")
}

fn ratio(policy: PolicyName, trace: &Trace) -> f64 {
    run(&[policy], &[FRAMES], std::slice::from_ref(trace), Declared::AsTraced).expect("rows")[0].miss_ratio
}

fn base() -> f64 {
    ratio(PolicyName::Holdfast, &trace(options(0)))
}

#[test]
fn a_declared_dump_costs_nothing_and_an_undeclared_one_little() {
    let (base, dump) = (base(), trace(options(3)));
    let (told, not_told) = (ratio(PolicyName::Holdfast, &dump), ratio(PolicyName::HoldfastNoHint, &dump));
    assert!(told <= RING * base, "{told} against {base}");
    assert!(not_told <= 1.7 * base, "{not_told} against {base}");
}

#[test]
fn the_policies_of_the_literature_are_washed_out() {
    let (base, dump) = (base(), trace(options(3)));
    for policy in [PolicyName::Lru, PolicyName::Arc, PolicyName::Lirs, PolicyName::Clock, PolicyName::Sieve] {
        assert!(ratio(policy, &dump) > 4.5 * base, "{policy}");
    }
}

#[test]
fn a_cold_hot_table_warms_up_beside_the_dump() {
    let cold = |dump_every| trace(OltpDump { warm_up: 0, ..options(dump_every) });
    let (alone, beside) = (ratio(PolicyName::Holdfast, &cold(0)), ratio(PolicyName::Holdfast, &cold(3)));
    assert!(beside <= 1.05 * alone, "{beside} against {alone}");
}

#[test]
fn a_dump_of_the_hot_table_itself_does_no_harm() {
    let dump = trace(OltpDump { dump_hot_table: true, ..options(15) });
    assert!(ratio(PolicyName::Holdfast, &dump) <= RING * base());
}

#[test]
fn a_dump_that_comes_back_at_once_takes_nothing_from_others() {
    let dump = trace(OltpDump { dump_pages: 3600, ..options(3) });
    assert!(ratio(PolicyName::Holdfast, &dump) <= RING * base());
}

#[test]
fn other_leaves_becoming_popular_are_learnt() {
    let shift = trace(OltpDump { shift: true, ..options(0) });
    let (holdfast, lru) = (ratio(PolicyName::Holdfast, &shift), ratio(PolicyName::Lru, &shift));
    assert!(holdfast <= 1.1 * lru, "{holdfast} against {lru}");
}
