//! Entries of an index: their versions and values, reading and changing them.

pub(crate) mod change;
pub(crate) mod index;
pub(crate) mod load;
pub(crate) mod put;
pub(crate) mod reads;
pub(crate) mod reread;
pub(crate) mod row;
pub mod values;
pub(crate) mod visibility;
