//! One disk arm as a state machine that computes when a request is done. Pure; time is passed in.
//!
//! Requests are served in the order of their arrival. Each takes its transfer time, and a seek
//! before it unless it starts where the request before it ended. A request that continues (or
//! precedes) one that is still waiting is merged with that one and costs only its transfer;
//! everything behind waits that much longer.
//!
//! Invariant: the queue is ordered by time of completion, and each request starts when the one
//! before it is done, or at its arrival if the arm was idle then.

use std::collections::VecDeque;
use std::time::Duration;

/// The speed of the modelled disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskModel {
    /// Time to move the arm to another place, half a turn of the platter included.
    pub seek: Duration,
    /// Bytes transferred per second once the arm is there.
    pub bytes_per_second: u64,
}

impl DiskModel {
    /// A hard disk: 8 ms, 100 MB/s.
    #[must_use]
    pub const fn spinning() -> DiskModel {
        DiskModel { seek: Duration::from_millis(8), bytes_per_second: 100_000_000 }
    }

    /// The same, that many times as fast.
    #[must_use]
    pub fn times_as_fast(self, times: f64) -> DiskModel {
        let bytes_per_second = (self.bytes_per_second as f64 * times) as u64;
        DiskModel { seek: self.seek.div_f64(times), bytes_per_second }
    }

    /// The same disk `factor` times as fast, so that an experiment of hours takes minutes.
    ///
    /// # Panics
    /// If `factor` is not greater than 0.
    #[must_use]
    pub fn scaled(self, factor: f64) -> DiskModel {
        assert!(factor > 0.0, "a disk cannot be {factor} times as fast");
        DiskModel {
            seek: self.seek.div_f64(factor),
            bytes_per_second: ((self.bytes_per_second as f64 * factor) as u64).max(1),
        }
    }

    fn transfer_time(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A range of a file that is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The file.
    pub file: usize,
    /// True if it is written.
    pub write: bool,
    /// First byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

#[derive(Debug)]
struct Request {
    id: u64,
    /// `None`: the arm settles after writes; nothing merges with that.
    extent: Option<Extent>,
    seeks: bool,
    starts_at: Duration,
    done_at: Duration,
}

/// The arm.
#[derive(Debug, Default)]
pub struct Spindle {
    /// Requests that are not done: the first may be in service, the others wait.
    queue: VecDeque<Request>,
    /// Where the arm is when the queue is done.
    position: Option<(usize, u64)>,
    free_at: Duration,
    next_id: u64,
}

/// A request that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    id: u64,
    /// True if it costs a seek.
    pub seeks: bool,
}

impl Spindle {
    /// Accepts a transfer at time `now`.
    pub fn submit(&mut self, now: Duration, model: &DiskModel, extent: Extent) -> Ticket {
        self.retire(now);
        let transfer = model.transfer_time(extent.end - extent.start);
        if let Some(ticket) = self.merge(now, transfer, extent) {
            return ticket;
        }
        let seeks = self.position != Some((extent.file, extent.start));
        self.position = Some((extent.file, extent.end));
        let service = transfer + if seeks { model.seek } else { Duration::ZERO };
        self.enqueue(now, service, Some(extent), seeks)
    }

    /// Accepts a sync at time `now`: the arm settles, which takes as long as a seek, and stays
    /// where it is.
    pub fn settle(&mut self, now: Duration, model: &DiskModel) -> Ticket {
        self.retire(now);
        self.enqueue(now, model.seek, None, true)
    }

    /// How long a request still takes; `None` if it is done.
    pub fn remaining(&mut self, now: Duration, ticket: Ticket) -> Option<Duration> {
        self.retire(now);
        self.queue.iter().find(|r| r.id == ticket.id).map(|r| r.done_at - now)
    }

    fn retire(&mut self, now: Duration) {
        while self.queue.front().is_some_and(|r| r.done_at <= now) {
            self.queue.pop_front();
        }
    }

    fn enqueue(&mut self, now: Duration, service: Duration, extent: Option<Extent>, seeks: bool) -> Ticket {
        let starts_at = self.free_at.max(now);
        self.free_at = starts_at + service;
        let id = self.next_id;
        self.next_id += 1;
        self.queue.push_back(Request { id, extent, seeks, starts_at, done_at: self.free_at });
        Ticket { id, seeks }
    }

    fn merge(&mut self, now: Duration, transfer: Duration, new: Extent) -> Option<Ticket> {
        let last = self.queue.len().checked_sub(1)?;
        let (index, merged) = self.queue.iter().enumerate().find_map(|(index, waiting)| {
            let old =
                waiting.extent.filter(|e| waiting.starts_at > now && (e.file, e.write) == (new.file, new.write))?;
            if old.end == new.start {
                Some((index, Extent { end: new.end, ..old }))
            } else if new.end == old.start && waiting.seeks {
                // Only where the arm goes to the start anyway.
                Some((index, Extent { start: new.start, ..old }))
            } else {
                None
            }
        })?;
        self.queue[index].extent = Some(merged);
        self.queue[index].done_at += transfer;
        for later in self.queue.iter_mut().skip(index + 1) {
            later.starts_at += transfer;
            later.done_at += transfer;
        }
        self.free_at += transfer;
        if index == last {
            self.position = Some((merged.file, merged.end));
        }
        Some(Ticket { id: self.queue[index].id, seeks: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: DiskModel = DiskModel { seek: Duration::from_millis(10), bytes_per_second: 1_000_000 };

    fn read(file: usize, start: u64, len: u64) -> Extent {
        Extent { file, write: false, start, end: start + len }
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn requests_are_served_in_order_and_wait_for_each_other() {
        let mut arm = Spindle::default();
        let first = arm.submit(ms(0), &MODEL, read(1, 5_000, 1_000));
        let second = arm.submit(ms(0), &MODEL, read(2, 5_000, 1_000));
        assert_eq!(arm.remaining(ms(0), first), Some(ms(11)));
        assert_eq!(arm.remaining(ms(0), second), Some(ms(22)));
        assert_eq!(arm.remaining(ms(11), first), None);
        assert_eq!(arm.remaining(ms(22), second), None);
    }

    #[test]
    fn a_request_that_continues_the_last_one_does_not_seek_even_later() {
        let mut arm = Spindle::default();
        arm.submit(ms(0), &MODEL, read(1, 5_000, 1_000));
        let next = arm.submit(ms(500), &MODEL, read(1, 6_000, 1_000));
        assert_eq!((next.seeks, arm.remaining(ms(500), next)), (false, Some(ms(1))));
    }

    #[test]
    fn waiting_requests_merge_and_delay_those_behind() {
        let mut arm = Spindle::default();
        arm.submit(ms(0), &MODEL, read(1, 0, 1_000));
        let waiting = arm.submit(ms(0), &MODEL, read(2, 50_000, 1_000));
        let behind = arm.submit(ms(0), &MODEL, read(3, 90_000, 1_000));
        let after = arm.submit(ms(1), &MODEL, read(2, 51_000, 1_000));
        let before = arm.submit(ms(1), &MODEL, read(2, 49_000, 1_000));
        assert!(!after.seeks && !before.seeks);
        assert_eq!(arm.remaining(ms(1), waiting), Some(ms(23)), "11 + 10 + three transfers, 1 gone");
        assert_eq!(arm.remaining(ms(1), before), Some(ms(23)));
        assert_eq!(arm.remaining(ms(1), behind), Some(ms(34)));
        let write = Extent { write: true, ..read(3, 91_000, 1_000) };
        assert_eq!(arm.remaining(ms(1), behind), Some(ms(34)), "a write does not merge with a read");
        assert!(!arm.submit(ms(1), &MODEL, write).seeks, "but it follows it without a seek");
    }

    #[test]
    fn a_request_in_service_is_not_merged_with() {
        let mut arm = Spindle::default();
        let busy = arm.submit(ms(0), &MODEL, read(1, 5_000, 1_000));
        let before = arm.submit(ms(1), &MODEL, read(1, 4_000, 1_000));
        assert!(before.seeks);
        assert_eq!(arm.remaining(ms(1), busy), Some(ms(10)));
    }

    #[test]
    fn settling_keeps_the_position() {
        let mut arm = Spindle::default();
        arm.submit(ms(0), &MODEL, read(1, 0, 1_000));
        let sync = arm.settle(ms(100), &MODEL);
        assert_eq!(arm.remaining(ms(100), sync), Some(ms(10)));
        assert!(!arm.submit(ms(200), &MODEL, read(1, 1_000, 1_000)).seeks);
    }
}
