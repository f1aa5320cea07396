//! Steps that are timed and watched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::outcome::{Size, Taken};
use super::plan::Step;
use crate::measure::human;
use crate::progress::Progress;
use crate::rig::memory::{self, Peak};

/// How far the work of a step has come.
#[derive(Debug, Default)]
pub(super) struct Reached {
    done: AtomicU64,
    total: AtomicU64,
}

impl Reached {
    pub fn set(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// In words, with an estimate of the seconds that are left. `expected`: how long the step may
    /// take as a whole, from a smaller size.
    fn words(&self, elapsed: f64, expected: Option<f64>) -> String {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let share = done as f64 / total.max(1) as f64;
        let whole = if share > 0.0 { Some(elapsed / share) } else { expected };
        let left =
            whole.map_or_else(String::new, |s| format!(", about {} s left", human((s - elapsed).max(0.0).ceil())));
        if total > 0 { format!("{:.0} %{left}", share.min(1.0) * 100.0) } else { format!("{elapsed:.0} s{left}") }
    }
}

/// Takes the time and the memory of the steps of a size, and shows how far they have come.
pub(super) struct Watch<'w> {
    /// The engine, in texts.
    pub name: &'w str,
    pub mib: u64,
    /// The next smaller size.
    pub before: Option<&'w Size>,
    /// The process of the server whose steps they are; `None` for this process.
    pub process: Option<u32>,
    pub taken: Vec<(Step, Taken)>,
    pub progress: &'w mut Progress,
}

/// The pause between two looks at how far a step has come.
const LOOK: Duration = Duration::from_millis(50);

impl Watch<'_> {
    /// Runs a step.
    pub fn step<T: Send>(&mut self, step: Step, work: impl FnOnce(&Arc<Reached>) -> Result<T> + Send) -> Result<T> {
        let peak = Peak::begin(self.process);
        let (seconds, result) = self.beside(step.name(), self.expected(step), work)?;
        self.taken.push((step, Taken { seconds, peak_bytes: peak.end()? }));
        Ok(result)
    }

    /// Runs a step that starts a server, whose process `start` returns. It runs on this thread: a
    /// server ends with the thread that started it.
    pub fn step_that_starts(&mut self, step: Step, start: impl FnOnce() -> Result<u32>) -> Result<()> {
        self.announce(step.name());
        let began = Instant::now();
        let process = start().with_context(|| format!("{}, {} MiB", step.name(), self.mib))?;
        let seconds = began.elapsed().as_secs_f64();
        self.taken.push((step, Taken { seconds, peak_bytes: memory::peak_of(process)? }));
        Ok(())
    }

    /// Says what begins.
    pub fn announce(&mut self, name: &str) {
        self.progress.step(&format!("{}, {} MiB, {name}", self.name, self.mib));
    }

    /// The seconds that a step may take, from a smaller size.
    fn expected(&self, step: Step) -> Option<f64> {
        let size = self.before?;
        let grown = if step.is_per_gb() { self.mib as f64 / size.mib as f64 } else { 1.0 };
        Some(size.taken(step)?.seconds * grown)
    }

    /// Runs what belongs to no step.
    pub fn beside<T: Send>(
        &mut self,
        name: &str,
        expected: Option<f64>,
        work: impl FnOnce(&Arc<Reached>) -> Result<T> + Send,
    ) -> Result<(f64, T)> {
        self.announce(name);
        let reached = Arc::new(Reached::default());
        let began = Instant::now();
        let result = std::thread::scope(|scope| {
            let reached = &reached;
            let running = scope.spawn(move || {
                let result = work(reached);
                (began.elapsed(), result)
            });
            while !running.is_finished() {
                self.progress.show(&reached.words(began.elapsed().as_secs_f64(), expected));
                std::thread::sleep(LOOK);
            }
            running.join()
        });
        let (elapsed, result) = result.map_err(|_| anyhow!("{name} panicked"))?;
        Ok((elapsed.as_secs_f64(), result.with_context(|| format!("{name}, {} MiB", self.mib))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_estimated() {
        let reached = Reached::default();
        assert_eq!(reached.words(3.0, Some(10.0)), "3 s, about 7.00 s left");
        assert_eq!(reached.words(3.0, None), "3 s");
        reached.set(1, 4);
        assert_eq!(reached.words(30.0, None), "25 %, about 90.0 s left");
    }
}
