//! Floor 4: mini-transactions, spaces, B+trees.
//!
//! * [`Store`]: pool, log and counters, which everything here shares; [`Mtr`]: a mini-transaction,
//!   the unit in which pages change and which redo repeats; [`Redo`]: applies a logged one again.
//! * [`op`]: the page operations; [`node`]: slotted B+tree nodes.
//! * [`SpaceFile`]: a file of pages with its header and allocation bitmaps.
//! * [`Tree`]: search, change, [`TreeCursor`], [`BulkLoader`], verification; [`overflow`]: chains
//!   for large values.
//!
//! **Lock order**, for every thread that writes pages: log space ticket, frame reservation,
//! structure mutex of the index, one page of an undo log, page latches of the tree from the root
//! down and from left to right, page 0 of the space, its bitmap pages. A thread that waits for log
//! space or frames holds no latch.

#![forbid(unsafe_code)]

mod finding;
mod mtr;
pub mod node;
pub mod op;
pub mod overflow;
mod redo;
pub mod space;
mod store;
mod tree;

pub use finding::{PageFinding, PageSet, Severity};
pub use mtr::{Mtr, PageRef, PlannedPut};
pub use overflow::OverflowRef;
pub use redo::{FindSpace, Redo};
pub use space::{
    ALLOC_FRAMES, AllocationWatch, FREE_BYTES, FREE_FRAMES, Features, HEADS, Lifetime, SpaceFile, SpaceInfo,
};
pub use store::Store;
pub use tree::{
    Action, Batch, BatchLimit, BulkLoader, Direction, Estimate, FindOverflow, LevelStats, Spot, SuspendedLoad, Tree,
    TreeCursor, TreeStats, Walk,
};
