//! Batches on io_uring: one system call submits a batch and waits for all of it.
//!
//! Rings are kept in a list. A batch takes one (or makes one) and puts it back, so batches of
//! different threads do not wait for each other and no lock is held while the device works. One of
//! the few modules with `unsafe`.
//!
//! Invariant: a ring in the list has no request in flight, and [`Rings::run`] does not return, nor
//! unwind, while the kernel may still touch a buffer.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};
use libc::iovec;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::transfer::{Buffer, Row, Transfer, run_row, settle};

/// Requests of one submission; longer batches take several.
const ENTRIES: u32 = 128;
/// The rings kept for the next batch. More exist only while as many batches run at once.
const RINGS_KEPT: usize = 8;

pub(super) struct Rings {
    idle: Mutex<Vec<IoUring>>,
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rings")
    }
}

impl Rings {
    /// Creates an empty list. Fails where the kernel has no io_uring or does not grant it.
    pub(super) fn new() -> io::Result<Rings> {
        Ok(Rings { idle: Mutex::new(vec![IoUring::new(ENTRIES)?]) })
    }

    /// Tries every transfer once; see [`super::Batcher::run`].
    pub(super) fn run(&self, rows: &mut [Row<'_, '_>]) {
        let idle = self.idle.lock().pop();
        let Some(mut ring) = idle.or_else(|| IoUring::new(ENTRIES).ok()) else {
            // No ring can be made now (a limit of the process), so this thread does the requests.
            return rows.iter_mut().for_each(|row| run_row(row));
        };
        for chunk in rows.chunks_mut(ENTRIES as usize) {
            if !run_chunk(&mut ring, chunk) {
                // The ring refused to work. None of its requests is in flight, so it can be
                // dropped.
                let left = rows.iter_mut().flat_map(|row| row.iter_mut()).filter(|t| !t.is_complete());
                return left.for_each(Transfer::run);
            }
        }
        let mut idle = self.idle.lock();
        if idle.len() < RINGS_KEPT {
            idle.push(ring);
        }
    }
}

fn vector(buf: &mut Buffer<'_>) -> iovec {
    let iov_base = match buf {
        Buffer::Read(buf) => buf.as_mut_ptr(),
        Buffer::Write(buf) => buf.as_ptr().cast_mut(),
    };
    iovec { iov_base: iov_base.cast(), iov_len: buf.len() }
}

/// The request that does `row`, whose buffers are `vectors`.
fn entry(row: &[Transfer<'_>], vectors: &[iovec]) -> Option<squeue::Entry> {
    let first = row.first()?;
    let (fd, count) = (types::Fd(first.fd.as_raw_fd()), vectors.len() as u32);
    Some(match &first.buf {
        Buffer::Read(_) => opcode::Readv::new(fd, vectors.as_ptr(), count).offset(first.offset).build(),
        Buffer::Write(_) => {
            let write = opcode::Writev::new(fd, vectors.as_ptr(), count).offset(first.offset);
            write.rw_flags(first.flags as i32).build()
        }
    })
}

/// Does at most [`ENTRIES`] rows on an idle ring, which is idle again afterwards. False if the ring
/// refused: some rows were not tried then, and the ring must not be used again.
fn run_chunk(ring: &mut IoUring, rows: &mut [Row<'_, '_>]) -> bool {
    let buffers = rows.iter_mut().flat_map(|row| row.iter_mut()).map(|transfer| &mut transfer.buf);
    let vectors: Vec<iovec> = buffers.map(vector).collect();
    let mut first = 0;
    for (index, row) in rows.iter().enumerate() {
        let Some(entry) = entry(row, &vectors[first..first + row.len()]) else { return false };
        first += row.len();
        let entry = entry.user_data(index as u64);
        // SAFETY: the descriptors and buffers of the entry are borrowed by `rows`, which outlive
        // this function, as `vectors` outlives the loop below; and this function returns only when
        // every entry that the kernel took has completed. Nothing between here and there panics.
        // The queue has room: the ring is idle and takes as many entries as there are rows.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            return false;
        }
    }
    finish(ring, rows)
}

/// Submits what is in the queue, an entry for each row, and waits for all of it. False if the ring
/// refused; nothing is in flight then.
fn finish(ring: &mut IoUring, rows: &mut [Row<'_, '_>]) -> bool {
    let mut completed = 0;
    let mut refused = false;
    loop {
        for event in ring.completion() {
            completed += 1;
            if let Some(row) = rows.get_mut(event.user_data() as usize) {
                let n = event.result();
                settle(row, usize::try_from(n).map_err(|_| io::Error::from_raw_os_error(-n)));
            }
        }
        if completed == rows.len() {
            return true;
        }
        let taken = rows.len() - ring.submission().len();
        if refused {
            if completed == taken {
                return false;
            }
            // Requests in flight complete by themselves. The kernel delivers their results during
            // any system call of this thread.
            std::thread::yield_now();
        } else if let Err(e) = ring.submit_and_wait(rows.len() - completed) {
            let errno = Errno::from_io_error(&e);
            refused = !matches!(errno, Some(Errno::INTR | Errno::AGAIN | Errno::BUSY));
        }
    }
}
