//! Undo: records, pages, logs, and the space that holds them.

pub(crate) mod log;
pub(crate) mod page;
pub(crate) mod record;
pub(crate) mod space;

pub(crate) use log::UndoLog;
pub(crate) use page::{Directory, LogState, UndoPage};
pub(crate) use record::UndoRecord;
pub(crate) use space::UndoSpace;

pub use page::XID_MAX;
