//! A file of the operating system: one buffered descriptor, and one past the page cache if the file
//! system granted it.
//!
//! 1. A request whose offset, length and buffer fit the direct descriptor's alignment goes past the
//!    page cache.
//! 2. A request whose buffer alone does not fit goes there through a bounce buffer.
//! 3. Every other request (odd offsets and lengths, the tail of a file that ends within a block)
//!    goes through the page cache, which Linux keeps coherent with direct requests of the same
//!    process.
//!
//! A sync covers both descriptors: they are one inode.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use holdfast_base::{Error, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::batch::{Batcher, Buffer, Transfer};
use crate::disk::{check_range, failed, unexpected_eof};
use crate::{AlignedBuf, File, ReadAt, WriteAt};

/// `RWF_ATOMIC`: the device does the write all or none.
const RWF_ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);

/// `STATX_WRITE_ATOMIC`: asks for the atomic write units.
const WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x1_0000);

/// The descriptor past the page cache.
#[derive(Debug)]
pub(crate) struct Direct {
    fd: OwnedFd,
    pub(crate) demands: Arc<Demands>,
}

/// The demands of requests past the page cache, and what is known of the device. The same for all
/// descriptors of a file.
#[derive(Debug)]
pub(crate) struct Demands {
    /// Offsets and lengths are multiples of this.
    block: usize,
    /// Buffers are aligned to this.
    memory: usize,
    /// The smallest and largest write that the device claims to do all or none; 0 for none.
    atomic_min: usize,
    atomic_max: AtomicUsize,
    /// True if the device has done an atomic write. Until then no write is promised to be one, so a
    /// refused write may be repeated without the flag. Afterwards it may not, because its caller
    /// may rely on it.
    atomic_proven: AtomicBool,
}

/// The way a request reaches the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Unchanged, past the page cache.
    Direct,
    /// Past the page cache, through an aligned copy of the buffer.
    Bounce,
    /// Through the page cache.
    Buffered,
}

/// One open file of the operating system.
#[derive(Debug)]
pub(crate) struct OsFile {
    name: String,
    fd: OwnedFd,
    direct: Option<Direct>,
    read_only: bool,
    batcher: Arc<Batcher>,
}

impl OsFile {
    pub(crate) fn new(
        name: &str,
        fd: OwnedFd,
        direct: Option<Direct>,
        read_only: bool,
        batcher: Arc<Batcher>,
    ) -> OsFile {
        OsFile { name: name.to_string(), fd, direct, read_only, batcher }
    }

    pub(crate) fn route(&self, offset: u64, buf: &[u8]) -> Route {
        match &self.direct {
            Some(d) => d.demands.route(offset, buf),
            None => Route::Buffered,
        }
    }

    fn fd_for(&self, route: Route) -> BorrowedFd<'_> {
        match (&self.direct, route) {
            (Some(d), Route::Direct | Route::Bounce) => d.fd.as_fd(),
            _ => self.fd.as_fd(),
        }
    }

    /// Reads until `buf` is full; a direct read that stops short (the file ends within a block) is
    /// finished through the page cache, because what is left is no longer aligned.
    fn read_fully(&self, route: Route, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let (mut fd, mut done) = (self.fd_for(route), 0);
        while done < buf.len() {
            match retry(|| rustix::io::pread(fd, &mut buf[done..], offset + done as u64))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => done += n,
            }
            fd = self.fd.as_fd();
        }
        Ok(())
    }

    /// Writes all of `buf`; what a short direct write leaves goes through the page cache. With
    /// `whole`, it is one write that the device does all or none, or an error.
    fn write_fully(&self, route: Route, offset: u64, buf: &[u8], whole: bool) -> io::Result<()> {
        let mut done = 0;
        if route != Route::Buffered && self.write_atomically(offset, buf)? {
            return Ok(());
        }
        if whole {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "its device has ended atomic writes"));
        }
        let mut fd = self.fd_for(route);
        while done < buf.len() {
            match retry(|| rustix::io::pwrite(fd, &buf[done..], offset + done as u64))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => done += n,
            }
            fd = self.fd.as_fd();
        }
        Ok(())
    }

    /// The flags with which a write on `route` is first tried.
    fn write_flags(&self, route: Route, offset: u64, len: usize) -> u32 {
        match &self.direct {
            Some(d) if route != Route::Buffered && d.demands.is_atomic(offset, len) => RWF_ATOMIC.bits(),
            _ => 0,
        }
    }

    /// Tries a write that the device does all or none; false if this write cannot be one.
    fn write_atomically(&self, offset: u64, buf: &[u8]) -> io::Result<bool> {
        let Some(direct) = self.direct.as_ref().filter(|d| d.demands.is_atomic(offset, buf.len())) else {
            return Ok(false);
        };
        let slice = [io::IoSlice::new(buf)];
        match retry(|| rustix::io::pwritev2(&direct.fd, &slice, offset, RWF_ATOMIC)) {
            Ok(n) if n == buf.len() => {
                direct.demands.prove_atomic();
                Ok(true)
            }
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            // The device announces the write and refuses it: it is not tried again.
            Err(e @ (Errno::INVAL | Errno::OPNOTSUPP)) => {
                direct.demands.atomic_max.store(0, Ordering::Relaxed);
                if direct.demands.atomic_proven.load(Ordering::Relaxed) { Err(e.into()) } else { Ok(false) }
            }
            Err(e) => Err(e.into()),
        }
    }

    fn write_one(&self, write: &WriteAt<'_>) -> Result<()> {
        let WriteAt { offset, buf, whole } = *write;
        self.check_writable()?;
        check_range("write", &self.name, offset, buf.len())?;
        let route = self.route(offset, buf);
        let done = if route == Route::Bounce {
            self.write_fully(route, offset, &AlignedBuf::from_slice(buf), whole)
        } else {
            self.write_fully(route, offset, buf, whole)
        };
        done.map_err(|e| failed("write", &self.name, offset, e))
    }

    /// Tries all transfers as a batch. Returns the numbers of those that have to be repeated as
    /// single requests, because they stopped short or were refused in a way that the single request
    /// handles.
    fn run_batch(&self, operation: &'static str, numbered: Vec<(usize, Transfer<'_>)>) -> Result<Vec<usize>> {
        let (numbers, mut transfers): (Vec<usize>, Vec<Transfer<'_>>) = numbered.into_iter().unzip();
        self.batcher.run(&mut transfers);
        let mut again = Vec::new();
        for (index, transfer) in numbers.into_iter().zip(transfers) {
            if transfer.is_complete() {
                if let Some(direct) = self.direct.as_ref().filter(|_| transfer.flags != 0) {
                    direct.demands.prove_atomic();
                }
                continue;
            }
            match transfer.result.map_err(|e| (Errno::from_io_error(&e), e)) {
                Ok(_) | Err((Some(Errno::INTR | Errno::AGAIN | Errno::INVAL | Errno::OPNOTSUPP), _)) => {
                    again.push(index);
                }
                Err((_, e)) => return Err(failed(operation, &self.name, transfer.offset, e)),
            }
        }
        Ok(again)
    }

    fn check_writable(&self) -> Result<()> {
        if self.read_only { Err(Error::ReadOnly("the file")) } else { Ok(()) }
    }

    /// Makes the file, which had `old` bytes, `len` bytes long. Other threads may have written
    /// behind `old` meanwhile: so it is never made shorter. What a growth that fails has allocated
    /// stays for the next one.
    fn grow(&self, old: u64, len: u64) -> io::Result<()> {
        let allocate = |flags| retry(|| rustix::fs::fallocate(&self.fd, flags, old, len - old));
        // First the room, then the length: a call that fails may have done a part.
        match allocate(FallocateFlags::KEEP_SIZE).and_then(|()| allocate(FallocateFlags::empty())) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if retry(|| rustix::fs::fstat(&self.fd))?.st_size as u64 >= len => {
                Ok(())
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(retry(|| rustix::fs::ftruncate(&self.fd, len))?),
            grown => Ok(grown?),
        }
    }
}

impl Direct {
    /// Opens `name` past the page cache, for the first time. `None` if the file system does not
    /// support that.
    pub(crate) fn open(dir: &OwnedFd, name: &str, read_only: bool) -> Result<Option<Direct>> {
        let fd = match open_at(dir, name, read_only, OFlags::DIRECT) {
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            other => other.map_err(|e| Error::io("open", name, e.into()))?,
        };
        let Some(demands) = Demands::of(&fd) else { return Ok(None) };
        let mut probe = AlignedBuf::zeroed(demands.block.max(4096));
        let accepts = accepts_requests(&retry(|| rustix::io::pread(&fd, &mut *probe, 0)));
        Ok(accepts.then(|| Direct { fd, demands: Arc::new(demands) }))
    }

    /// Opens `name`, whose demands are known, again.
    pub(crate) fn open_again(dir: &OwnedFd, name: &str, read_only: bool, demands: &Arc<Demands>) -> Result<Direct> {
        let fd = open_at(dir, name, read_only, OFlags::DIRECT).map_err(|e| Error::io("open", name, e.into()))?;
        Ok(Direct { fd, demands: Arc::clone(demands) })
    }
}

/// True if a file takes requests past the page cache, by the result of its first one: some file
/// systems accept the flag and refuse the requests. Where the device does not return this block,
/// the others can be read.
fn accepts_requests(probe: &rustix::io::Result<usize>) -> bool {
    !matches!(probe, Err(Errno::INVAL | Errno::OPNOTSUPP))
}

/// Repeats a system call that was interrupted by a signal.
pub(crate) fn retry<T>(call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    rustix::io::retry_on_intr(call)
}

/// Opens a file of the directory with `flags`, and with those that `read_only` asks for.
pub(crate) fn open_at(dir: &OwnedFd, name: &str, read_only: bool, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
    retry(|| rustix::fs::openat(dir, name, access | flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o640)))
}

impl Demands {
    fn new(block: usize, memory: usize) -> Demands {
        let (atomic_max, atomic_proven) = (AtomicUsize::new(0), AtomicBool::new(false));
        Demands { block, memory, atomic_min: 0, atomic_max, atomic_proven }
    }

    /// Asks the system for the demands; `None` if the file accepts no requests past the page cache.
    fn of(fd: &OwnedFd) -> Option<Demands> {
        let mut demands = Demands::new(4096, 4096);
        let mask = StatxFlags::DIOALIGN | WRITE_ATOMIC;
        let Ok(stat) = retry(|| rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, mask)) else { return Some(demands) };
        let got = StatxFlags::from_bits_retain(stat.stx_mask);
        if got.contains(StatxFlags::DIOALIGN) {
            if stat.stx_dio_offset_align == 0 {
                return None;
            }
            demands.block = stat.stx_dio_offset_align as usize;
            demands.memory = stat.stx_dio_mem_align as usize;
        }
        if got.contains(WRITE_ATOMIC) {
            demands.atomic_min = stat.stx_atomic_write_unit_min as usize;
            demands.atomic_max = AtomicUsize::new(stat.stx_atomic_write_unit_max as usize);
        }
        Some(demands)
    }

    fn route(&self, offset: u64, buf: &[u8]) -> Route {
        if !offset.is_multiple_of(self.block as u64) || !buf.len().is_multiple_of(self.block) {
            return Route::Buffered;
        }
        if buf.as_ptr().addr().is_multiple_of(self.memory) { Route::Direct } else { Route::Bounce }
    }

    fn prove_atomic(&self) {
        if !self.atomic_proven.load(Ordering::Relaxed) {
            self.atomic_proven.store(true, Ordering::Relaxed);
        }
    }

    /// True if callers may rely on writes of `len` bytes, aligned to their length: each of them
    /// goes past the page cache, with the flag.
    pub(crate) fn writes_whole(&self, len: usize) -> bool {
        self.atomic_proven.load(Ordering::Relaxed) && len.is_multiple_of(self.block) && self.is_atomic(0, len)
    }

    fn is_atomic(&self, offset: u64, len: usize) -> bool {
        let max = self.atomic_max.load(Ordering::Relaxed);
        len <= max && len >= self.atomic_min && len.is_power_of_two() && offset.is_multiple_of(len as u64)
    }
}

impl File for OsFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range("read", &self.name, offset, buf.len())?;
        let route = self.route(offset, buf);
        let done = if route == Route::Bounce {
            let mut bounce = AlignedBuf::zeroed(buf.len());
            self.read_fully(route, offset, &mut bounce).map(|()| buf.copy_from_slice(&bounce))
        } else {
            self.read_fully(route, offset, buf)
        };
        done.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => unexpected_eof(&self.name, offset),
            _ => failed("read", &self.name, offset, e),
        })
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) -> Result<()> {
        for read in reads.iter() {
            check_range("read", &self.name, read.offset, read.buf.len())?;
        }
        let mut again = Vec::new();
        // A request that needs a bounce buffer is done alone, which is slower.
        let mut transfers = Vec::with_capacity(reads.len());
        for (index, read) in reads.iter_mut().enumerate() {
            match self.route(read.offset, read.buf) {
                Route::Bounce => again.push(index),
                route => {
                    let fd = self.fd_for(route);
                    transfers.push((index, Transfer::new(fd, read.offset, Buffer::Read(read.buf), 0)));
                }
            }
        }
        again.extend(self.run_batch("read", transfers)?);
        again.into_iter().try_for_each(|index| self.read_at(reads[index].offset, reads[index].buf))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.write_one(&WriteAt::new(offset, buf))
    }

    fn write_batch(&self, writes: &[WriteAt<'_>]) -> Result<()> {
        self.check_writable()?;
        for write in writes {
            check_range("write", &self.name, write.offset, write.buf.len())?;
        }
        let mut again = Vec::new();
        let mut transfers = Vec::with_capacity(writes.len());
        for (index, write) in writes.iter().enumerate() {
            match self.route(write.offset, write.buf) {
                Route::Direct => {
                    let flags = self.write_flags(Route::Direct, write.offset, write.buf.len());
                    if write.whole && flags == 0 {
                        again.push(index);
                        continue;
                    }
                    let fd = self.fd_for(Route::Direct);
                    transfers.push((index, Transfer::new(fd, write.offset, Buffer::Write(write.buf), flags)));
                }
                // A write to the page cache is a copy, which another thread or the kernel would not
                // do faster.
                Route::Bounce | Route::Buffered => again.push(index),
            }
        }
        again.extend(self.run_batch("write", transfers)?);
        again.into_iter().try_for_each(|index| self.write_one(&writes[index]))
    }

    fn sync(&self) -> Result<()> {
        retry(|| rustix::fs::fdatasync(&self.fd)).map_err(|e| Error::io("sync", &self.name, e.into()))
    }

    fn len(&self) -> Result<u64> {
        let stat = retry(|| rustix::fs::fstat(&self.fd)).map_err(|e| Error::io("stat", &self.name, e.into()))?;
        Ok(stat.st_size as u64)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_writable()?;
        check_range("set the length of", &self.name, len, 0)?;
        let old = self.len()?;
        let done = if len > old {
            self.grow(old, len)
        } else {
            retry(|| rustix::fs::ftruncate(&self.fd, len)).map_err(io::Error::from)
        };
        done.map_err(|e| failed("set the length of", &self.name, len, e))
    }

    fn writes_whole(&self, len: usize) -> bool {
        self.direct.as_ref().is_some_and(|d| d.demands.writes_whole(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchMethod;

    /// A file whose device is said to do writes of 512 bytes to 16 KiB all or none. Few devices do.
    fn file_with_atomic_writes(dir: &std::path::Path) -> Option<OsFile> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::open(dir.join("t"), flags, Mode::from_raw_mode(0o640));
        let fd = open(flags).unwrap();
        let fd_direct = open(flags | OFlags::DIRECT).ok()?;
        let atomic_max = AtomicUsize::new(16 << 10);
        let demands = Arc::new(Demands { atomic_min: 512, atomic_max, ..Demands::new(4096, 4096) });
        let direct = Direct { fd: fd_direct, demands };
        let batcher = Arc::new(Batcher::new(BatchMethod::Auto).unwrap());
        Some(OsFile::new("t", fd, Some(direct), false, batcher))
    }

    /// A growth that failed cut off what another thread had written behind the end meanwhile: pages
    /// of a file that a power cut had made shorter than its table.
    #[test]
    fn a_growth_that_fails_cuts_nothing_off() {
        let dir = tempfile::tempdir().unwrap();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let fd = rustix::fs::open(dir.path().join("t"), flags, Mode::from_raw_mode(0o640)).unwrap();
        let file = OsFile::new("t", fd, None, false, Arc::new(Batcher::new(BatchMethod::Auto).unwrap()));
        file.set_len(4096).unwrap();
        file.write_at(8192, &[7; 4096]).unwrap();
        file.grow(4096, 1 << 62).unwrap_err();
        let mut written = [0; 4096];
        file.read_at(8192, &mut written).unwrap();
        assert!(file.len().unwrap() == 12_288 && written == [7; 4096]);
        // Nor does one that ends before it.
        file.grow(4096, 8192).unwrap();
        assert_eq!(file.len().unwrap(), 12_288);
        file.grow(12_288, 16_384).unwrap();
        assert_eq!(file.len().unwrap(), 16_384);
    }

    /// A file whose first block is a bad sector could not be opened: no page of its table could be
    /// saved.
    #[test]
    fn a_bad_sector_is_no_refusal() {
        assert!(accepts_requests(&Ok(0)) && accepts_requests(&Err(Errno::IO)));
        assert!(!accepts_requests(&Err(Errno::INVAL)) && !accepts_requests(&Err(Errno::OPNOTSUPP)));
    }

    #[test]
    fn atomic_writes_that_are_refused_before_they_were_promised_are_plain_writes() {
        let dir = tempfile::tempdir().unwrap();
        let Some(file) = file_with_atomic_writes(dir.path()) else { return };
        assert!(!file.writes_whole(16 << 10), "nothing is promised yet");
        let pages = [AlignedBuf::from_slice(&[1; 16 << 10]), AlignedBuf::from_slice(&[2; 16 << 10])];
        let write = |n: usize| WriteAt::new(n as u64 * (16 << 10), &pages[n]);
        file.write_batch(&[write(0), write(1)]).unwrap();
        file.write_at(32 << 10, &pages[0]).unwrap();
        let mut back = AlignedBuf::zeroed(48 << 10);
        file.read_at(0, &mut back).unwrap();
        assert_eq!((back[0], back[(32 << 10) - 1], back[32 << 10]), (1, 2, 1));
    }

    #[test]
    fn atomic_writes_that_are_refused_after_they_were_promised_fail_once() {
        let dir = tempfile::tempdir().unwrap();
        let Some(file) = file_with_atomic_writes(dir.path()) else { return };
        file.direct.as_ref().unwrap().demands.prove_atomic();
        assert!(file.writes_whole(16 << 10));
        let page = AlignedBuf::from_slice(&[1; 16 << 10]);
        if file.write_at(0, &page).is_err() {
            assert!(!file.writes_whole(16 << 10), "the promise is withdrawn");
            file.write_at(0, &page).unwrap();
        }
    }

    /// A thread that knew of the promise wrote a page without an image after another thread
    /// had met the refusal: as a plain write, which can be torn.
    #[test]
    fn a_write_that_has_to_be_whole_is_never_a_plain_one() {
        let dir = tempfile::tempdir().unwrap();
        let Some(file) = file_with_atomic_writes(dir.path()) else { return };
        let demands = &file.direct.as_ref().unwrap().demands;
        demands.prove_atomic();
        demands.atomic_max.store(0, Ordering::Relaxed);
        let pages = [AlignedBuf::from_slice(&[1; 16 << 10]), AlignedBuf::from_slice(&[2; 16 << 10])];
        let write = |n: usize, whole| WriteAt { offset: n as u64 * (16 << 10), buf: &pages[n], whole };
        assert!(file.write_batch(&[write(0, true), write(1, true)]).is_err());
        assert_eq!(file.len().unwrap(), 0, "nothing is written");
        file.write_batch(&[write(0, false), write(1, false)]).unwrap();
    }

    /// The largest write that is done all or none was the promise. A file whose first two pages
    /// were written at once, as one such write, promised it for a page too, and each page went out
    /// as a plain write, which can be torn.
    #[test]
    fn a_write_below_the_smallest_atomic_one_is_not_promised() {
        let with = |atomic_min, block| {
            let demands = Demands { atomic_min, ..Demands::new(block, 512) };
            demands.atomic_max.store(64 << 10, Ordering::Relaxed);
            demands.prove_atomic();
            [4 << 10, 8 << 10, 12 << 10, 16 << 10, 64 << 10, 128 << 10].map(|len| demands.writes_whole(len))
        };
        assert_eq!(with(512, 512), [true, true, false, true, true, false]);
        assert_eq!(with(16 << 10, 512), [false, false, false, true, true, false]);
        assert_eq!(with(512, 8 << 10), [false, true, false, true, true, false], "the first goes through the cache");
    }
}
