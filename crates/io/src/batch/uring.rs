//! Batches on io_uring: one system call submits a batch and waits for all of it.
//!
//! Rings are kept in a list; a batch takes one (or makes one) and puts it back, so batches of different threads do
//! not wait for each other and no lock is held while the device works. One of the few modules with `unsafe`.
//!
//! Invariant: a ring in the list has no request in flight, and [`Rings::run`] does not return, nor unwind, while the
//! kernel may still touch a buffer.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::{Buffer, Transfer};

/// Requests of one submission; longer batches take several.
const ENTRIES: u32 = 128;
/// Rings kept for the next batch; more exist only while as many batches run at once.
const RINGS_KEPT: usize = 8;
/// Longest transfer that the kernel takes in one request.
const MAX_TRANSFER: usize = 1 << 30;

pub(super) struct Rings {
    idle: Mutex<Vec<IoUring>>,
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rings")
    }
}

impl Rings {
    /// Fails where the kernel has no io_uring or does not grant it.
    pub(super) fn new() -> io::Result<Rings> {
        Ok(Rings { idle: Mutex::new(vec![IoUring::new(ENTRIES)?]) })
    }

    /// Tries every transfer once; see [`super::Batcher::run`].
    pub(super) fn run(&self, transfers: &mut [Transfer<'_>]) {
        let idle = self.idle.lock().pop();
        let Some(mut ring) = idle.or_else(|| IoUring::new(ENTRIES).ok()) else {
            // No ring to be had right now (a limit of the process): the slow way is still a way.
            return transfers.iter_mut().for_each(Transfer::run);
        };
        for chunk in transfers.chunks_mut(ENTRIES as usize) {
            if !run_chunk(&mut ring, chunk) {
                // The ring refused to work; nothing of it is in flight, so it can be dropped.
                return transfers.iter_mut().filter(|t| !t.is_complete()).for_each(Transfer::run);
            }
        }
        let mut idle = self.idle.lock();
        if idle.len() < RINGS_KEPT {
            idle.push(ring);
        }
    }
}

fn entry(index: usize, transfer: &mut Transfer<'_>) -> squeue::Entry {
    let fd = types::Fd(transfer.fd.as_raw_fd());
    let len = transfer.buf.len().min(MAX_TRANSFER) as u32;
    let entry = match &mut transfer.buf {
        Buffer::Read(buf) => opcode::Read::new(fd, buf.as_mut_ptr(), len).offset(transfer.offset).build(),
        Buffer::Write(buf) => {
            let write = opcode::Write::new(fd, buf.as_ptr(), len).offset(transfer.offset);
            write.rw_flags(transfer.flags as i32).build()
        }
    };
    entry.user_data(index as u64)
}

/// Does at most [`ENTRIES`] transfers on an idle ring, which is idle again afterwards. False if the ring refused;
/// then some transfers were not tried, and the ring must not be used again.
fn run_chunk(ring: &mut IoUring, chunk: &mut [Transfer<'_>]) -> bool {
    for (index, transfer) in chunk.iter_mut().enumerate() {
        let entry = entry(index, transfer);
        // SAFETY: the descriptor and the buffer of the entry are borrowed by `chunk`, which outlives this function,
        // and this function returns only when every entry that the kernel took has completed. Nothing between here
        // and there panics. The queue has room: the ring is idle and takes as many entries as a chunk has.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            return false;
        }
    }
    let mut completed = 0;
    let mut refused = false;
    loop {
        for event in ring.completion() {
            completed += 1;
            if let Some(transfer) = chunk.get_mut(event.user_data() as usize) {
                let n = event.result();
                transfer.result = usize::try_from(n).map_err(|_| io::Error::from_raw_os_error(-n));
            }
        }
        if completed == chunk.len() {
            return true;
        }
        let taken = chunk.len() - ring.submission().len();
        if refused {
            if completed == taken {
                return false;
            }
            // Requests in flight complete by themselves; any system call of this thread lets their results in.
            std::thread::yield_now();
        } else if let Err(e) = ring.submit_and_wait(chunk.len() - completed) {
            let errno = Errno::from_io_error(&e);
            refused = !matches!(errno, Some(Errno::INTR | Errno::AGAIN | Errno::BUSY));
        }
    }
}
