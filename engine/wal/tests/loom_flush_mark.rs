//! Model check of the mark of a request to flush: no commit is left out.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p holdfast-wal --test loom_flush_mark`
#![cfg(loom)]

use std::sync::Arc;

use holdfast_base::loom_plants::failure_with;
use holdfast_base::sync::atomic::{AtomicU64, Ordering};
use holdfast_wal::parts::FlushMark;
use loom::thread;

/// Commits append a number of bytes each while the flusher does what an earlier one requested.
fn explore(commits: u64) {
    loom::model(move || {
        let log = Arc::new((FlushMark::default(), AtomicU64::new(0)));
        log.0.raise();
        let threads = (0..commits).map(|_| {
            let log = log.clone();
            thread::spawn(move || {
                log.1.fetch_add(1, Ordering::Relaxed);
                if !log.0.is_raised() {
                    log.0.raise();
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        log.0.lower();
        let flushed = log.1.load(Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(
            flushed == commits || log.0.is_raised(),
            "{flushed} of {commits} commits are flushed, none requests it"
        );
    });
}

#[test]
fn a_commit_is_flushed_or_requests_it() {
    explore(1);
}

#[test]
fn so_are_two() {
    explore(2);
}

/// The flusher reads how far the log goes before its mark is seen to be down.
#[test]
fn a_mark_that_is_lowered_without_a_fence_is_found() {
    let failure = failure_with("flush-mark-unfenced", a_commit_is_flushed_or_requests_it);
    assert!(failure.contains("0 of 1 commits"), "{failure}");
}
