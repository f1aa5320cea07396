//! The same seed gives the same trace, also after it was written and read.

use holdfast_trace::{Class, Kind, OltpDump, Trace, generate, read, write};

fn small(seed: u64) -> Trace {
    let options = OltpDump { leaves: 100, warm_up: 500, touches: 1000, dump_pages: 50, seed, ..OltpDump::default() };
    generate("small", &Kind::OltpDump(options)).expect("a trace")
}

#[test]
fn the_seed_decides() {
    assert_eq!(small(1), small(1));
    assert_ne!(small(1), small(2));
}

#[test]
fn written_and_read_it_is_the_same() {
    let trace = small(1);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("small");
    let mut file = std::fs::File::create(&path).expect("a file");
    write(&trace, false, &mut file).expect("written");
    assert_eq!(read(&path).expect("read"), trace);
}

#[test]
fn plain_it_has_one_line_per_touch() {
    let trace = small(1);
    let mut out = Vec::new();
    write(&trace, true, &mut out).expect("written");
    assert_eq!(out.iter().filter(|&&b| b == b'\n').count() as u64, trace.touches());
}

#[test]
fn the_dump_touches_each_page_as_often_as_asked() {
    for dump_every in [1, 3, 7, 15, 100] {
        let options = OltpDump { leaves: 100, warm_up: 0, touches: 5000, dump_every, ..OltpDump::default() };
        let trace = generate("dump", &Kind::OltpDump(options)).expect("a trace");
        let of = |class| trace.requests.iter().filter(move |r| r.class == class);
        let dumped: u64 = of(Class::Background).map(|r| u64::from(r.touches)).sum();
        let oltp = of(Class::Foreground).count() as u64;
        let expected = oltp * 60 / u64::from(dump_every);
        assert!(dumped.abs_diff(expected) <= 60, "{dumped} touches, {expected} expected, {dump_every}");
        let pages = trace.keys.iter().filter(|&&k| k >= 1 << 32).count() as u64;
        assert!(pages.abs_diff(oltp / u64::from(dump_every)) <= 1);
    }
}

#[test]
fn sizes_of_nothing_are_refused() {
    let kind = Kind::OltpDump(OltpDump { leaves: 0, ..OltpDump::default() });
    assert!(generate("bad", &kind).is_err());
}
