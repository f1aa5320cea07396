//! Floor 1: the disk, and time.
//!
//! All I/O of the engine happens behind [`Disk`] and [`File`]. Everything above is written against
//! them, so the same code runs on files ([`FileDisk`]), in memory ([`MemoryDisk`]), and on disks of
//! others ([`parts`] helps to write one). [`Clock`] does the same for time.
//!
//! `unsafe` is confined to [`AlignedBuf`], to the batch back ends, which hand buffers to the kernel
//! or to other threads, and to [`Process`], which registers a handler for forks.

mod aligned;
mod batch;
mod clock;
mod disk;
mod file_disk;
mod lease;
mod memory;
mod metered;
mod open_files;
mod os_file;
pub mod parts;
mod process;
mod sparse;

pub use aligned::{ALIGNMENT, AlignedBuf};
pub use batch::BatchMethod;
pub use clock::{Clock, ManualClock, RealClock};
pub use disk::{Create, DirLock, DirLockMode, Disk, File, FileKind, LOCK_FILE, OpenOptions, ReadAt, SECTOR, WriteAt};
pub use file_disk::{FileDisk, FileDiskOptions, FlushMethod};
pub use lease::{Lease, LeasedDisk};
pub use memory::MemoryDisk;
pub use metered::MeteredDisk;
pub use process::Process;
