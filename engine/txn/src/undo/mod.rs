//! Undo: records, pages, logs, and the space that holds them.

mod backwards;
mod kept;
mod log;
pub(crate) mod page;
pub(crate) mod record;
pub(crate) mod space;

pub(crate) use log::UndoLog;
pub(crate) use page::{Directory, LogState, UndoPage};
pub(crate) use record::UndoRecord;
pub(crate) use space::UndoSpace;

pub use page::XID_MAX;

/// The marks in the header of the undo space: which number there is whose.
pub(crate) mod marks {
    /// The first page of the directory of undo logs.
    pub const DIRECTORY: usize = 0;
    /// The root of the version tree.
    pub const VERSION_ROOT: usize = 1;
    /// The key of the version tree's hash function.
    pub const VERSION_HASH: [usize; 2] = [2, 3];
    /// The largest transaction id on a first page of an undo log that was given back.
    pub const MAX_REMOVED: usize = 4;
}
