//! Purge of undo logs, and the old versions that views still need.

pub(crate) mod background;
pub(crate) mod history;
pub mod logs;
pub(crate) mod lost;
pub mod shelf;
pub(crate) mod shelving;
pub(crate) mod sweep;
pub mod versions;
