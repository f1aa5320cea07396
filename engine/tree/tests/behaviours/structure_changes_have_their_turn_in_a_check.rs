//! A check walks over a tree and holds the mutex of its structure. Writers that need a split waited
//! until it came to the end. They have their turn after a few nodes, and while chains are followed;
//! what the check says is right nevertheless.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_base::PageNo;
use holdfast_pool::AccessKind;
use holdfast_testkit::SplitMix64;
use holdfast_tree::overflow::write_chain;
use holdfast_tree::{PageFinding, PageSet, Severity, Tree};

use crate::common::*;

fn key(n: u64) -> Vec<u8> {
    format!("key {n:08}").into_bytes()
}

fn fill(bed: &Bed, tree: &Tree, keys: u64) {
    let acc = bed.access();
    for n in 0..keys {
        put(tree, &key(n), &[7; 400], &acc).unwrap();
    }
}

/// True if a thread of this process sleeps: here, because it waits for the structure.
fn sleeps(thread: &Path) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(thread).join("stat")).unwrap_or_default();
    // The state follows the name in parentheses.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
}

/// The writer waits for the structure before each node that the check looks at, so that it waits
/// when the check gives it a turn.
#[test]
fn a_split_does_not_wait_for_the_end() {
    let bed = Bed::new(Setup { frames: 1024, ..Setup::default() });
    let tree = bed.new_tree();
    fill(&bed, &tree, 4_000);
    let (is_done, writer, asked) = (AtomicBool::new(false), OnceLock::new(), Cell::new(0));
    std::thread::scope(|scope| {
        let split = || {
            writer.set(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            let acc = bed.access();
            // More than a page has room for: at least one of these splits a leaf.
            for n in 0..12 {
                put(&tree, format!("key 00000000 {n:02}").as_bytes(), &[8; 400], &acc).unwrap();
            }
            is_done.store(true, Ordering::SeqCst);
        };
        let go_on = || {
            asked.set(asked.get() + 1);
            if asked.get() == 1 {
                scope.spawn(split);
            }
            let begun = Instant::now();
            while !is_done.load(Ordering::SeqCst) && !writer.get().is_some_and(|thread: &PathBuf| sleeps(thread)) {
                assert!(begun.elapsed() < Duration::from_secs(60), "the writer neither ends nor waits");
                std::thread::yield_now();
            }
            Ok(())
        };
        let acc = bed.store.pool().access(AccessKind::Maintenance);
        let (mut reached, mut found) = (PageSet::new(), Vec::new());
        tree.verify_while(&acc, &mut reached, &mut |_, _| None, &mut |finding| found.push(finding), &go_on).unwrap();
        assert!(is_done.load(Ordering::SeqCst), "{} nodes", asked.get());
        assert!(found.is_empty(), "{found:?}");
    });
    bed.verify_clean(&[&tree]);
}

#[test]
fn a_split_does_not_wait_for_the_chains_of_a_leaf() {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    let acc = bed.access();
    let chain = write_chain(&bed.space, INDEX, &[1; 9_000], PageNo(0), &acc).unwrap();
    put(&tree, b"key", b"payload", &acc).unwrap();
    let (split, is_split) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let mut found = Vec::new();
        let mut chains = vec![chain];
        let mut reached = PageSet::new();
        let mut find = |_: &[u8], _: &[u8]| chains.pop();
        let writer = || {
            fill(&bed, &tree, 100);
            split.send(()).unwrap();
        };
        let mut first = Some(writer);
        // It is told of a page that is reached twice while it follows the chain.
        reached.insert(chain.first);
        let mut sink = |finding: PageFinding| {
            if let Some(writer) = first.take() {
                scope.spawn(writer);
                is_split.recv_timeout(Duration::from_secs(60)).expect("the writer waits for the check");
            }
            found.push(finding.what);
        };
        tree.verify(&acc, &mut reached, &mut find, &mut sink).unwrap();
        assert!(matches!(&found[..], [what] if what.contains("twice")), "{found:?}");
    });
}

/// Waves that grow and empty whole regions.
fn change(bed: &Bed, tree: &Tree, seed: u64, stop: &AtomicBool) {
    let (mut rng, acc) = (SplitMix64::new(seed), bed.access());
    while !stop.load(Ordering::Relaxed) {
        let (start, grows) = (rng.below(3_000), rng.chance(0.5));
        for n in (start..start + 200).filter(|n| !n.is_multiple_of(16)) {
            if grows {
                put(tree, &key(n), &vec![7; rng.below(400) as usize], &acc).unwrap();
            } else {
                remove(tree, &key(n), &acc).unwrap();
            }
        }
    }
}

#[test]
fn what_a_check_says_beside_writers_is_right() {
    let bed = Bed::new(Setup { frames: 1024, background: true, ..Setup::default() });
    let tree = bed.new_tree();
    fill(&bed, &tree, 3_200);
    let stop = AtomicBool::new(false);
    let wrong = std::thread::scope(|scope| {
        for seed in 0..2 {
            let (bed, tree, stop) = (&bed, &tree, &stop);
            scope.spawn(move || change(bed, tree, seed, stop));
        }
        let acc = bed.store.pool().access(AccessKind::Maintenance);
        let mut wrong = Vec::new();
        for _ in 0..soak(40) {
            let watch = bed.space.watch();
            let (mut reached, mut found, mut always) = (PageSet::new(), Vec::new(), 0);
            let mut see = |key: &[u8], _: &[u8]| {
                let n: u64 = std::str::from_utf8(&key[4..]).unwrap().parse().unwrap();
                always += u64::from(n.is_multiple_of(16));
                None
            };
            tree.verify(&acc, &mut reached, &mut see, &mut |finding| found.push(finding)).unwrap();
            bed.space.verify(&reached, &acc, &mut |finding| found.push(finding)).unwrap();
            let changed = watch.changed();
            // A page may be allocated before, and get its place in the tree afterwards.
            found.retain(|finding| finding.severity != Severity::Leak && !changed.contains(finding.page.no));
            wrong.extend(found);
            if always != 200 {
                wrong.push(PageFinding::damage(bed.space.page_id(PageNo(0)), format!("{always} of 200 keys are seen")));
            }
        }
        stop.store(true, Ordering::Relaxed);
        wrong
    });
    assert!(wrong.is_empty(), "{wrong:?}");
    bed.verify_clean(&[&tree]);
}
