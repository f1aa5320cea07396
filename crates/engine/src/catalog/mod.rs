//! The catalog: which tables there are, kept in a tree of the system space.

mod record;

pub(crate) use record::{IndexRecord, NEXT_IDS_KEY, NextIds, TableRecord, table_key, table_name};
