//! The tables of a database: the catalog on disk, and what is open of it in memory.

pub(crate) mod catalog;
pub(crate) mod filling;
pub(crate) mod freeing;
pub(crate) mod handle;
pub(crate) mod info;
pub(crate) mod marks;
pub(crate) mod store;
pub(crate) mod table_file;
pub(crate) mod versions;
