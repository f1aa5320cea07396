//! Work on a whole database beside its users: backup, check, compaction, salvage.

pub(crate) mod backup;
pub(crate) mod compact;
mod pieces;
pub(crate) mod report;
pub(crate) mod salvage;
mod salvage_entries;
pub(crate) mod salvage_files;
pub(crate) mod sums;
pub(crate) mod verify;
