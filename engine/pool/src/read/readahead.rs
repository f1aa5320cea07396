//! Read-ahead: a few threads that bring pages in before they are asked for.
//!
//! It is charged to the scan budget: pages enter through the ring (or, for a scan that is to be
//! kept, the normal way), and no more are queued than half of what the policy has room for - a page
//! that would be evicted before it is used is not worth reading. It never waits, writes, or fails:
//! a page that cannot be had easily is left to the thread that asks for it.
//!
//! What waits for the same file is read in one batch: a disk that seeks goes there once for all of
//! it, and one that does not gets many requests at a time.

use holdfast_base::PageNo;
use holdfast_metrics::Counter;
use holdfast_policy::{Policy, ScanHint, Touch, scan_budget};

use crate::core::Core;
use crate::read::readahead_queue::{BATCH, Job};
use crate::read::request::Access;
use crate::resident::space::Space;

/// How far readers step back behind other threads: half of the weight of one that does not. With a
/// third, a dump beside several busy sessions had to wait for its pages.
#[cfg(all(target_os = "linux", not(miri)))]
const NICENESS: i32 = 3;

impl Core {
    /// See [`Pool::prefetch`](crate::Pool::prefetch).
    pub(crate) fn prefetch(&self, space: &Space, pages: &[PageNo], acc: &Access<'_>) -> usize {
        self.queue(space, pages, |no| {
            let touch = acc.touch(space.page_id(no));
            if touch.scan == ScanHint::None { touch.with_scan(ScanHint::Ring) } else { touch }
        })
    }

    /// See [`Pool::prefetch_inner`](crate::Pool::prefetch_inner).
    pub(crate) fn prefetch_inner(&self, space: &Space, no: PageNo, acc: &Access<'_>) {
        self.queue(space, &[no], |no| acc.touch(space.page_id(no)).with_scan(ScanHint::Admit));
    }

    /// Queues those of `pages` that are missing, as far as there is room, or reads them at once
    /// where there are no threads for it. Returns how many of `pages` come before the first one
    /// without room.
    fn queue(&self, space: &Space, pages: &[PageNo], touch: impl Fn(PageNo) -> Touch) -> usize {
        let limit = self.read_ahead_limit();
        let end = space.file.len().unwrap_or(0);
        let missing = |no: PageNo| space.translation.frame(no).is_none() && self.home(no) < end;
        let Some(space) = self.space(space.id()) else { return pages.len() };
        let mut state = self.read_ahead.state.lock();
        if state.stopped {
            return pages.len();
        }
        let mut room = limit.saturating_sub(state.jobs.len() + state.in_progress);
        let mut asked = 0;
        let mut jobs = Vec::new();
        for &no in pages {
            if missing(no) {
                if room == 0 {
                    break;
                }
                room -= 1;
                jobs.push(Job { space: space.clone(), no, touch: touch(no) });
            }
            asked += 1;
        }
        if self.config.background && self.config.read_ahead_threads > 0 {
            let any = !jobs.is_empty();
            state.jobs.extend(jobs);
            drop(state);
            if any {
                self.read_ahead.changed.notify_one();
            }
        } else {
            drop(state);
            jobs.chunks(BATCH).for_each(|jobs| self.read_ahead(jobs));
        }
        asked
    }

    /// Most pages queued or being read.
    fn read_ahead_limit(&self) -> usize {
        // Partitions differ by a frame at most. In a pool that has shrunk they may be so small that
        // the one page for which each has room is too much.
        let room = self.partitions[0].lock().scan_room() * self.partitions.len();
        (room.min(scan_budget(self.active_frames())) / 2).max(1)
    }

    /// Reads pages of one space.
    fn read_ahead(&self, jobs: &[Job]) {
        let Some(first) = jobs.first() else { return };
        let pages: Vec<(PageNo, Touch)> = jobs.iter().map(|job| (job.no, job.touch)).collect();
        let read = self.bring_in_ahead(&first.space, &pages);
        self.metrics.add(Counter::ReadAhead, read);
    }
}

/// Runs until the pool stops.
pub(crate) fn run_reader(core: &Core) {
    give_way();
    while let Some(jobs) = core.read_ahead.next() {
        core.read_ahead(&jobs);
        core.read_ahead.done(jobs.len());
    }
}

/// Gives the calling thread a smaller share of a core than threads that answer requests. A walk
/// asks for its pages itself, at its own priority, when they are not there yet.
fn give_way() {
    // On Linux that is the thread's affair, not the process's. Nothing depends on it.
    #[cfg(all(target_os = "linux", not(miri)))]
    let _ = rustix::process::nice(NICENESS);
}

#[cfg(all(test, target_os = "linux", not(miri), not(loom), not(shuttle)))]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn a_reader_gives_way_and_nobody_else_does() {
        let before = getpriority_process(None).unwrap();
        let reader = std::thread::spawn(|| {
            give_way();
            getpriority_process(None).unwrap()
        });
        assert_eq!(reader.join().unwrap(), (before + NICENESS).min(19));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
