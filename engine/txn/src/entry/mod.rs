//! Entries of an index: their versions and values, reading and changing them.

pub(crate) mod attempt;
mod change;
pub(crate) mod index;
pub(crate) mod last_read;
pub(crate) mod load;
pub(crate) mod locked;
mod put;
mod reads;
pub(crate) mod registry;
pub(crate) mod reread;
pub(crate) mod row;
pub(crate) mod unique;
pub mod values;
pub(crate) mod visibility;
