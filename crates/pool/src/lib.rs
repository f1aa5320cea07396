//! Floor 3: the buffer pool.
//!
//! [`Pool`] keeps pages of open [`Space`]s in a fixed number of frames. A page is used through a
//! guard: an [`OptimisticGuard`] reads without a latch and validates afterwards, a [`SharedGuard`]
//! or [`ExclusiveGuard`] holds the page's latch, which is also what keeps it in its frame: there
//! are no pin counts. An [`Access`] names the statement and the purpose, counts, and carries
//! reserved frames.
//!
//! | module | what |
//! |---|---|
//! | `frames`, `header` | the mapping, a frame's 64-byte header with its latch (crate [`holdfast_latch`]) |
//! | `access` | reading a page that may be changing: the one place with racy reads |
//! | `translation`, `space` | page number -> frame, without locks; an open file of pages |
//! | `partition`, `dirty` | replacement policy and dirty pages of a part of the pool |
//! | `core` | what all of the following share |
//! | `guard`, `request`, `access_stats`, `touch`, `pool` | what the floors above see |
//! | `miss`, `evict`, `supply`, `reserve`, `reservations` | how a page and its frame come together |
//! | `flush`, `batch`, `images` | how changed pages reach their files |
//! | `doublewrite`, `protect`, `restore` | what a power cut that tears a page needs |
//! | `checkpoint`, `unsynced`, `cleaner`, `signals`, `pacing` | when they do, and how the checkpoint follows |
//! | `readahead`, `readahead_queue`, `warmup`, `resize`, `close`, `stats` | the rest |
//!
//! **Lock order**, from first to last; what is further right may be taken while what is left is
//! held: reservation -> page latches (top-down) -> policy mutex | dirty mutex | free list |
//! registry of spaces. *No wait under a latch*: a thread waits for frames with nothing latched, and
//! reserves them for pages that it latches together. No thread waits for a latch while it holds a
//! translation claim or one of the mutexes. Timers and sleeps do not exist in this crate.
//!
//! The protocols, byte by byte, are in `docs/design/buffer-pool.md` and `docs/design/flushing.md`.

mod access;
mod access_stats;
mod batch;
mod checkpoint;
mod cleaner;
mod close;
mod config;
mod core;
mod dirty;
mod doublewrite;
mod evict;
mod flush;
mod frames;
mod guard;
mod header;
mod images;
mod miss;
mod pacing;
mod partition;
mod pool;
mod protect;
mod readahead;
mod readahead_queue;
mod request;
mod reservations;
mod reserve;
mod resize;
mod restore;
mod signals;
mod space;
mod stats;
mod supply;
mod touch;
mod translation;
mod unsynced;
mod warmup;

pub use holdfast_policy::{Queue, ScanPlan};
pub use {
    access::{OptPage, PageRead},
    access_stats::AccessStats,
    config::{DoubleWrite, PoolConfig, RESERVED_MAX},
    guard::{ExclusiveGuard, OptimisticGuard, PageStamp, Restart, SharedGuard},
    pool::Pool,
    request::{Access, AccessKind},
    reserve::Reserved,
    restore::{RestoreReport, restore_torn_pages},
    space::Space,
    stats::{FrameInfo, PageOwner, PoolStats, Resident},
};
