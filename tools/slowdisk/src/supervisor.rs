//! Decides how long each call waits: a loop over the calls that arrive and those that wait for the
//! arm.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use holdfast_testkit::spindle::{Extent, Spindle, Ticket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::disk::Disk;
use crate::seccomp::{self, Call, Listener};

/// The requests to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// The requests that moved the arm.
    pub seeks: u64,
}

/// The disk, and the calls that wait for it.
struct Work<'a> {
    disk: &'a Disk<'a>,
    arm: Spindle,
    files: HashMap<PathBuf, usize>,
    waiting: Vec<(u64, Ticket)>,
    traffic: Traffic,
}

/// The kind of access that a call makes.
enum Access {
    Transfer { write: bool, offset: u64, bytes: u64 },
    Sync,
}

/// Serves calls until all supervised programs have ended.
pub fn serve(listener: &Listener, disk: &Disk<'_>) -> Result<Traffic> {
    let (arm, began) = (Spindle::default(), Instant::now());
    let mut work = Work { disk, arm, files: HashMap::new(), waiting: Vec::new(), traffic: Traffic::default() };
    loop {
        let next = work.release(began.elapsed(), listener);
        let timeout = next.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: i64::from(d.subsec_nanos()) });
        let mut polled = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events = polled[0].revents();
        if events.contains(PollFlags::IN) {
            if let Some(call) = listener.receive()? {
                match work.submit(&call, began.elapsed()) {
                    Some(ticket) => work.waiting.push((call.id, ticket)),
                    None => listener.carry_out(call.id),
                }
            }
        } else if events.contains(PollFlags::HUP) {
            return Ok(work.traffic);
        }
    }
}

impl Work<'_> {
    /// Releases the calls that the arm is done with. Returns how long the first of the others still
    /// takes.
    fn release(&mut self, now: Duration, listener: &Listener) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        let arm = &mut self.arm;
        self.waiting.retain(|(id, ticket)| match arm.remaining(now, *ticket) {
            None => {
                listener.carry_out(*id);
                false
            }
            Some(remaining) => {
                next = Some(next.map_or(remaining, |n| n.min(remaining)));
                true
            }
        });
        next
    }

    /// Submits a call to the arm; `None` if it does not concern the disk.
    fn submit(&mut self, call: &Call, now: Duration) -> Option<Ticket> {
        let access = access(call)?;
        let path = std::fs::read_link(format!("/proc/{}/fd/{}", call.thread, call.arguments[0])).ok()?;
        if !path.starts_with(self.disk.folder) || self.disk.switch.is_some_and(|file| !file.exists()) {
            return None;
        }
        let ticket = match access {
            Access::Sync => {
                self.traffic.syncs += 1;
                self.arm.settle(now, &self.disk.model)
            }
            Access::Transfer { write, offset, bytes } => {
                *(if write { &mut self.traffic.writes } else { &mut self.traffic.reads }) += 1;
                let known = self.files.len();
                let file = *self.files.entry(path).or_insert(known);
                let extent = Extent { file, write, start: offset, end: offset.saturating_add(bytes) };
                self.arm.submit(now, &self.disk.model, extent)
            }
        };
        self.traffic.seeks += u64::from(ticket.seeks);
        Some(ticket)
    }
}

fn access(call: &Call) -> Option<Access> {
    let [_, second, third, offset, ..] = call.arguments;
    let vector = || vector_bytes(call.thread, second, third);
    let transfer = |write, bytes| Some(Access::Transfer { write, offset, bytes });
    match call.number {
        libc::SYS_pread64 => transfer(false, third),
        libc::SYS_pwrite64 => transfer(true, third),
        libc::SYS_preadv | libc::SYS_preadv2 => transfer(false, vector()?),
        libc::SYS_pwritev | libc::SYS_pwritev2 => transfer(true, vector()?),
        libc::SYS_fsync | libc::SYS_fdatasync => Some(Access::Sync),
        _ => None,
    }
}

/// The bytes of the buffers that a vectored call names: pairs of address and length in the
/// program's memory.
fn vector_bytes(thread: u32, address: u64, count: u64) -> Option<u64> {
    const PAIR: usize = 16;
    let count = usize::try_from(count).ok().filter(|&n| n <= 1024)?;
    let mut pairs = vec![0; count * PAIR];
    seccomp::read_memory(thread, address, &mut pairs).ok()?;
    let length = |pair: &[u8]| pair[8..].try_into().map(u64::from_ne_bytes).unwrap_or(0);
    Some(pairs.chunks_exact(PAIR).map(length).fold(0, u64::saturating_add))
}
