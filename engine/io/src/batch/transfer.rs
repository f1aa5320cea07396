//! The requests of a batch, and what the back ends do with them alike.

use std::io;

use rustix::fd::{AsRawFd, BorrowedFd};

/// The buffer of a transfer, and with it the direction.
pub(crate) enum Buffer<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

impl Buffer<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Buffer::Read(buf) => buf.len(),
            Buffer::Write(buf) => buf.len(),
        }
    }

    pub(super) fn read_slice(&mut self) -> Option<io::IoSliceMut<'_>> {
        if let Buffer::Read(buf) = self { Some(io::IoSliceMut::new(buf)) } else { None }
    }

    pub(super) fn write_slice(&self) -> Option<io::IoSlice<'_>> {
        if let Buffer::Write(buf) = self { Some(io::IoSlice::new(buf)) } else { None }
    }
}

/// One request of a batch.
pub(crate) struct Transfer<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) offset: u64,
    pub(crate) buf: Buffer<'a>,
    /// Flags of `pwritev2`, for writes.
    pub(crate) flags: u32,
    /// The bytes transferred, or the error; set by the back end.
    pub(crate) result: io::Result<usize>,
}

impl<'a> Transfer<'a> {
    pub(crate) fn new(fd: BorrowedFd<'a>, offset: u64, buf: Buffer<'a>, flags: u32) -> Transfer<'a> {
        Transfer { fd, offset, buf, flags, result: Ok(0) }
    }

    /// True if every byte was transferred.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.result, Ok(n) if n == self.buf.len())
    }

    /// Does the request on the calling thread.
    pub(super) fn run(&mut self) {
        use rustix::io::{ReadWriteFlags, pread, pwrite, pwritev2, retry_on_intr};
        let (fd, offset) = (self.fd, self.offset);
        let result = match &mut self.buf {
            Buffer::Read(buf) => retry_on_intr(|| pread(fd, &mut **buf, offset)),
            Buffer::Write(buf) if self.flags == 0 => retry_on_intr(|| pwrite(fd, buf, offset)),
            Buffer::Write(buf) => {
                let (slice, flags) = ([io::IoSlice::new(buf)], ReadWriteFlags::from_bits_retain(self.flags));
                retry_on_intr(|| pwritev2(fd, &slice, offset, flags))
            }
        };
        self.result = result.map_err(io::Error::from);
    }

    /// True if `next` starts in the same file where this transfer ends, so that one request can do
    /// both.
    fn is_continued_by(&self, next: &Transfer<'_>) -> bool {
        let same_way = match (&self.buf, &next.buf) {
            (Buffer::Read(_), Buffer::Read(_)) => true,
            // A write that the device must do all or none stays alone.
            (Buffer::Write(_), Buffer::Write(_)) => self.flags == 0 && next.flags == 0,
            _ => false,
        };
        same_way && self.fd.as_raw_fd() == next.fd.as_raw_fd() && self.offset + self.buf.len() as u64 == next.offset
    }
}

/// The most transfers of one request.
const TRANSFERS_AT_ONCE: usize = 64;

/// Transfers each of which continues the one before it; one request does them all. Read-ahead and
/// loads produce such rows. Page by page, the system and the disk would repeat their work per page.
pub(super) type Row<'r, 'a> = &'r mut [Transfer<'a>];

pub(super) fn rows<'r, 'a>(transfers: &'r mut [Transfer<'a>]) -> Vec<Row<'r, 'a>> {
    let rows = transfers.chunk_by_mut(Transfer::is_continued_by);
    rows.flat_map(|row| row.chunks_mut(TRANSFERS_AT_ONCE)).collect()
}

/// Does a row on the calling thread.
pub(super) fn run_row(row: Row<'_, '_>) {
    use rustix::io::{preadv, pwritev, retry_on_intr};
    let (fd, offset, is_read) = match row {
        [] => return,
        [single] => return single.run(),
        [first, ..] => (first.fd, first.offset, matches!(first.buf, Buffer::Read(_))),
    };
    let result = if is_read {
        let mut slices: Vec<_> = row.iter_mut().filter_map(|transfer| transfer.buf.read_slice()).collect();
        retry_on_intr(|| preadv(fd, &mut slices, offset))
    } else {
        let slices: Vec<_> = row.iter().filter_map(|transfer| transfer.buf.write_slice()).collect();
        retry_on_intr(|| pwritev(fd, &slices, offset))
    };
    settle(row, result.map_err(io::Error::from));
}

/// Gives each transfer of a row its part of the result of the request.
pub(super) fn settle(row: Row<'_, '_>, result: io::Result<usize>) {
    match (row, result) {
        ([single], result) => single.result = result,
        (row, Ok(mut left)) => {
            for transfer in row {
                let bytes = left.min(transfer.buf.len());
                transfer.result = Ok(bytes);
                left -= bytes;
            }
        }
        // Each transfer is tried alone, to find out which of them failed.
        (row, Err(_)) => row.iter_mut().for_each(Transfer::run),
    }
}
