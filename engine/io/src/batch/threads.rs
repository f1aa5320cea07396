//! A small thread pool that runs the parts of one borrowed job.
//!
//! [`ThreadPool::for_each`] publishes a job to the workers and works on it too; each free thread
//! takes the next part. It returns when every part is done, so workers may use what the caller only
//! borrowed. A batch makes progress even if every worker is busy with another one. One of the few
//! modules with `unsafe`.

use std::sync::atomic::{AtomicUsize, Ordering};
// The standard library's, so that Miri can follow the threads of this module.
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};

/// Worker threads. They wait for the device, not for the processor, so small machines have more of
/// them than cores.
const WORKERS: usize = 8;

type Part<'a> = dyn Fn(usize) + Sync + 'a;

/// A job of `parts` parts.
struct Job {
    /// Borrowed from the caller of [`ThreadPool::for_each`]; valid while `done < parts`.
    part: *const Part<'static>,
    parts: usize,
    /// The next part that no thread has taken.
    next: AtomicUsize,
    done: Mutex<usize>,
    all_done: Condvar,
}

// SAFETY: `part` points to a `Sync` closure, so it may be called from any thread; the other fields
// are Send and Sync.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Takes parts and does them until none is left to take.
    fn work(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.parts {
                return;
            }
            let _counted = CountOnDrop(self);
            // SAFETY: this part is not counted as done before `_counted` is dropped, so `done <
            // parts`, and the caller of `for_each`, which owns the closure, is still waiting.
            (unsafe { &*self.part })(index);
        }
    }

    /// A panic elsewhere does not make the count wrong, since it never changes halfway.
    fn done(&self) -> MutexGuard<'_, usize> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let done = self.done();
        drop(self.all_done.wait_while(done, |done| *done < self.parts).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Counts a part as done, also when it panicked, so that the caller returns.
struct CountOnDrop<'a>(&'a Job);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        let mut done = self.0.done();
        *done += 1;
        if *done == self.0.parts {
            self.0.all_done.notify_all();
        }
    }
}

/// Finishes the job before the caller's frame is gone, also when the caller's own part panics.
struct FinishOnDrop<'a>(&'a Job);

impl Drop for FinishOnDrop<'_> {
    fn drop(&mut self) {
        // Parts that no thread took are given up (this happens only during a panic) ...
        let taken = self.0.next.swap(self.0.parts, Ordering::Relaxed).min(self.0.parts);
        *self.0.done() += self.0.parts - taken;
        // ... and those that a worker took are waited for.
        self.0.wait();
    }
}

/// The pool. Its threads have ended when it is dropped.
#[derive(Debug)]
pub(super) struct ThreadPool {
    /// Taken by drop: the closed channel tells the workers to end.
    jobs: Option<Sender<Arc<Job>>>,
    workers: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    pub(super) fn new() -> ThreadPool {
        let (jobs, queue) = unbounded::<Arc<Job>>();
        let workers = (0..WORKERS).filter_map(|n| {
            let queue = queue.clone();
            let builder = std::thread::Builder::new().name(format!("holdfast-io-{n}"));
            // Fewer workers, or none, make batches slower, not wrong.
            builder.spawn(move || queue.iter().for_each(|job| job.work())).ok()
        });
        ThreadPool { workers: workers.collect(), jobs: Some(jobs) }
    }

    /// Calls `part` with each number below `parts`, on several threads at a time. Returns when all
    /// calls have.
    pub(super) fn for_each(&self, parts: usize, part: &Part<'_>) {
        let part: *const Part<'_> = part;
        // SAFETY: only the lifetime is erased. `Job::work` calls the closure only while `done <
        // parts`, and this function does not return or unwind before `done == parts` (see
        // `FinishOnDrop`).
        let part = unsafe { std::mem::transmute::<*const Part<'_>, *const Part<'static>>(part) };
        let (next, done) = (AtomicUsize::new(0), Mutex::new(0));
        let job = Arc::new(Job { part, parts, next, done, all_done: Condvar::new() });
        let finish = FinishOnDrop(&job);
        for jobs in self.jobs.iter().cycle().take(self.workers.len().min(parts.saturating_sub(1))) {
            // The receivers live as long as the workers; a pool without workers does all parts
            // below.
            let _ = jobs.send(job.clone());
        }
        job.work();
        drop(finish);
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for worker in self.workers.drain(..) {
            // A worker that panicked has reported it already.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_done_once() {
        let pool = ThreadPool::new();
        for parts in [0, 1, 2, 7, if cfg!(miri) { 20 } else { 300 }] {
            let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
            pool.for_each(parts, &|i| {
                counts[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1), "{parts} parts");
        }
    }

    #[test]
    fn a_pool_without_workers_still_works() {
        let pool = ThreadPool { jobs: None, workers: Vec::new() };
        let sum = AtomicUsize::new(0);
        pool.for_each(10, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 45);
    }

    #[test]
    fn a_panic_in_the_caller_waits_for_the_workers() {
        let pool = ThreadPool::new();
        let caller = std::thread::current().id();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.for_each(40, &|_| {
                if std::thread::current().id() == caller {
                    panic!("on purpose");
                }
            });
        }));
        // The workers may have done all parts before the caller got one.
        drop(result);
        let sum = AtomicUsize::new(0);
        pool.for_each(10, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 45, "the pool still works");
    }
}
