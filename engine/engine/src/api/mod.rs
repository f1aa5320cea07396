//! The typed interface: databases, transactions, tables, ranges, indexes.

pub(crate) mod builder;
pub(crate) mod database;
pub(crate) mod index;
pub(crate) mod range;
pub(crate) mod table;
pub(crate) mod transaction;
