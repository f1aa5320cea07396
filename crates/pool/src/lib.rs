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
//! | `partition` | replacement policy and dirty pages of a part of the pool |
//! | `guard`, `request`, `pool` | what the floors above see |
//! | `miss`, `evict`, `supply`, `reserve` | how a page and its frame come together |
//! | `flush`, `images`, `doublewrite`, `checkpoint`, `cleaner` | how changes reach the disk |
//! | `restore` | pages that a power cut tore |
//! | `readahead`, `warmup`, `resize`, `close`, `stats` | the rest |
//!
//! **Lock order**, from first to last; what is further right may be taken while what is left is
//! held: reservation -> page latches (top-down) -> policy mutex | dirty mutex | free list |
//! registry of spaces. *No wait under a latch*: a thread waits for frames with nothing latched, and
//! reserves them for pages that it latches together. No thread waits for a latch while it holds a
//! translation claim or one of the mutexes. Timers and sleeps do not exist in this crate.
//!
//! The protocols, byte by byte, are in `docs/design/buffer-pool.md` and `docs/design/flushing.md`.

mod access;
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
mod readahead;
mod request;
mod reserve;
mod resize;
mod restore;
mod space;
mod stats;
mod supply;
mod translation;
mod warmup;

pub use holdfast_policy::{Queue, ScanPlan};
pub use {
    access::{OptPage, PageRead},
    config::{DoubleWrite, PoolConfig},
    guard::{ExclusiveGuard, OptimisticGuard, PageStamp, Restart, SharedGuard},
    pool::Pool,
    request::{Access, AccessKind, AccessStats},
    reserve::{RESERVED_MAX, Reserved},
    restore::{RestoreReport, restore_torn_pages},
    space::Space,
    stats::{FrameInfo, Owner, PoolStats, Resident},
};
