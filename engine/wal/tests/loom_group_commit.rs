//! Model check of group commit: every caller returns, none too early, and a failure reaches the
//! caller that led. `RUSTFLAGS="--cfg loom" cargo test --release -p holdfast-wal --test
//! loom_group_commit`
#![cfg(loom)]

use std::sync::Arc;

use holdfast_base::loom_plants::failure_with;
use holdfast_base::{Error, Result};
use holdfast_wal::parts::GroupCommit;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

struct Log {
    commit: GroupCommit,
    next: AtomicU64,
    /// The LSN up to which everything is synced.
    disk: AtomicU64,
    syncing: AtomicBool,
    failures: AtomicU64,
    poisoned: AtomicBool,
}

impl Log {
    fn sync(&self, target: u64) -> Result<u64> {
        assert!(!self.syncing.swap(true, Ordering::AcqRel), "two leaders");
        let written = self.next.load(Ordering::Acquire);
        assert!(written >= target);
        let failed = self.failures.load(Ordering::Acquire) > 0;
        if failed {
            self.failures.fetch_sub(1, Ordering::AcqRel);
        } else {
            self.disk.store(written, Ordering::Release);
        }
        self.syncing.store(false, Ordering::Release);
        if failed { Err(Error::DiskFull("test".into())) } else { Ok(written) }
    }

    fn stop(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) { Err(Error::Poisoned("test".into())) } else { Ok(()) }
    }

    fn commit(&self) -> Result<()> {
        let lsn = self.next.fetch_add(32, Ordering::AcqRel) + 32;
        let result = self.commit.join(lsn, |target| self.sync(target), || self.stop());
        if result.is_ok() {
            assert!(self.disk.load(Ordering::Acquire) >= lsn);
        }
        result
    }
}

fn explore(failures: u64, check: impl Fn(Arc<Log>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        check(Arc::new(Log {
            commit: GroupCommit::new(0),
            next: AtomicU64::new(0),
            disk: AtomicU64::new(0),
            syncing: AtomicBool::new(false),
            failures: AtomicU64::new(failures),
            poisoned: AtomicBool::new(false),
        }));
    });
}

fn commit_in_threads(log: &Arc<Log>, threads: usize) -> Vec<Result<()>> {
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let log = log.clone();
            thread::spawn(move || log.commit())
        })
        .collect();
    let mut results = vec![log.commit()];
    results.extend(others.into_iter().map(|t| t.join().unwrap()));
    results
}

#[test]
fn three_committers_hand_the_lead_over() {
    explore(0, |log| assert!(commit_in_threads(&log, 3).iter().all(Result::is_ok)));
}

/// The next leader is not called, and the callers wait for ever.
#[test]
fn a_lead_that_is_lost_is_found() {
    let failure = failure_with("lead-lost", three_committers_hand_the_lead_over);
    assert!(failure.contains("deadlock"), "{failure}");
}

#[test]
fn a_failure_is_told_to_the_leader_and_the_others_go_on() {
    explore(1, |log| {
        let failed = commit_in_threads(&log, 3).iter().filter(|r| r.is_err()).count();
        assert_eq!(failed, 1);
    });
}

#[test]
fn poison_wakes_those_who_wait() {
    explore(0, |log| {
        let other = log.clone();
        let poisoner = thread::spawn(move || {
            other.poisoned.store(true, Ordering::Release);
            other.commit.wake_all();
        });
        commit_in_threads(&log, 2);
        poisoner.join().unwrap();
        assert!(log.commit().is_err());
    });
}
