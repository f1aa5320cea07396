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
//! | `frames`, `header`, `latch`, `parking` | the mapping, a frame's 64-byte header, its latch, where threads park |
//! | `access` | reading a page that may be changing: the one place with racy reads |
//! | `translation`, `space` | page number -> frame, without locks; an open file of pages |
//! | `partition` | replacement policy and dirty pages of a part of the pool |
//! | `guard`, `request`, `pool` | what the floors above see |
//! | `miss`, `evict`, `supply`, `reserve` | how a page and its frame come together |
//! | `flush`, `images`, `doublewrite`, `checkpoint`, `cleaner` | how changes reach the disk |
//! | `restore` | pages that a power cut tore |
//! | `readahead`, `warmup`, `resize`, `close`, `stats` | the rest |
//!
//! **Lock order**, from first to last; what is further right may be taken while what is left is held:
//! reservation -> page latches (top-down) -> policy mutex | dirty mutex | free list | registry of spaces. *No wait under a
//! latch*: a thread waits for frames with nothing latched, and reserves them for pages that it latches together. No thread waits for
//! a latch while it holds a translation claim or one of the mutexes. Timers and sleeps do not exist in this crate.
//!
//! The protocols, byte by byte, are in `docs/design/buffer-pool.md` and `docs/design/flushing.md`.

// Under loom and shuttle the crate is its latch, which the checkers explore; the rest is left out.
#[cfg_attr(any(loom, shuttle), allow(dead_code))]
mod latch;
mod parking;

#[cfg(not(any(loom, shuttle)))]
mod access;
#[cfg(not(any(loom, shuttle)))]
mod checkpoint;
#[cfg(not(any(loom, shuttle)))]
mod cleaner;
#[cfg(not(any(loom, shuttle)))]
mod close;
#[cfg(not(any(loom, shuttle)))]
mod config;
#[cfg(not(any(loom, shuttle)))]
mod core;
#[cfg(not(any(loom, shuttle)))]
mod dirty;
#[cfg(not(any(loom, shuttle)))]
mod doublewrite;
#[cfg(not(any(loom, shuttle)))]
mod evict;
#[cfg(not(any(loom, shuttle)))]
mod flush;
#[cfg(not(any(loom, shuttle)))]
mod frames;
#[cfg(not(any(loom, shuttle)))]
mod guard;
#[cfg(not(any(loom, shuttle)))]
mod header;
#[cfg(not(any(loom, shuttle)))]
mod images;
#[cfg(not(any(loom, shuttle)))]
mod miss;
#[cfg(not(any(loom, shuttle)))]
mod pacing;
#[cfg(not(any(loom, shuttle)))]
mod partition;
#[cfg(not(any(loom, shuttle)))]
mod pool;
#[cfg(not(any(loom, shuttle)))]
mod readahead;
#[cfg(not(any(loom, shuttle)))]
mod request;
#[cfg(not(any(loom, shuttle)))]
mod reserve;
#[cfg(not(any(loom, shuttle)))]
mod resize;
#[cfg(not(any(loom, shuttle)))]
mod restore;
#[cfg(not(any(loom, shuttle)))]
mod space;
#[cfg(not(any(loom, shuttle)))]
mod stats;
#[cfg(not(any(loom, shuttle)))]
mod supply;
#[cfg(not(any(loom, shuttle)))]
mod translation;
#[cfg(not(any(loom, shuttle)))]
mod warmup;

#[cfg(not(any(loom, shuttle)))]
pub use holdfast_policy::{Queue, ScanPlan};
#[cfg(not(any(loom, shuttle)))]
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
