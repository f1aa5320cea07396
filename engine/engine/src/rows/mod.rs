//! Rows: the types of keys and values, the definitions of tables, and how rows become bytes and
//! entries of indexes.

pub(crate) mod definition;
pub(crate) mod encoding;
pub(crate) mod entries;
pub(crate) mod entry_sum;
pub(crate) mod types;
