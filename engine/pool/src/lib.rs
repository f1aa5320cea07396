//! Floor 3: the buffer pool.
//!
//! [`Pool`] keeps pages of open [`Space`]s in a fixed number of frames. A page is used through a
//! guard: an [`OptimisticGuard`] reads without a latch and validates afterwards, a [`SharedGuard`]
//! or [`ExclusiveGuard`] holds the page's latch, which is also what keeps it in its frame: there
//! are no pin counts. An [`Access`] names the statement and the purpose, counts, and carries
//! reserved frames.
//!
//! | folder | what |
//! |---|---|
//! | `resident` | frames, a frame's header with its latch, translation, guards |
//! | `supply` | how a page gets a frame: the free list, eviction, reservations |
//! | `read` | accesses, misses, read-ahead |
//! | `write` | how changed pages reach their files; what a power cut that tears a page needs |
//! | `checkpoint` | when they do, and how the checkpoint follows |
//! | `admin` | warm-up, changes of size, closing, statistics |
//!
//! `core` is what all of them share, `pool` what the floors above see. Racy reads of a page that
//! may be changing are in `resident/access.rs` alone.
//!
//! **Lock order**, from first to last; what is further right may be taken while what is left is
//! held: reservation -> page latches (top-down) -> policy mutex | dirty mutex | free list |
//! registry of spaces. *No wait under a latch*: a thread waits for frames with nothing latched, and
//! reserves them for pages that it latches together. No thread waits for a latch while it holds a
//! translation claim or one of the mutexes. Timers and sleeps do not exist in this crate.
//!
//! The protocols, byte by byte, are in `docs/design/buffer-pool.md` and `docs/design/flushing.md`.

mod admin;
mod checkpoint;
mod config;
mod core;
mod pool;
mod read;
mod resident;
mod supply;
#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod test_pool;
mod write;

pub use holdfast_policy::{Queue, ScanPlan};
pub use {
    admin::stats::{FrameInfo, PageOwner, PoolStats, Resident},
    config::{DoubleWrite, PoolConfig, RESERVED_MAX},
    pool::Pool,
    read::request::{Access, AccessKind},
    resident::access::{OptPage, PageRead},
    resident::access_stats::AccessStats,
    resident::frames::memory_with_swap_bytes,
    resident::guard::{ExclusiveGuard, OptimisticGuard, PageStamp, Restart, SharedGuard},
    resident::space::Space,
    supply::reserve::Reserved,
    write::restore::{RestoreReport, restore_torn_pages},
};
