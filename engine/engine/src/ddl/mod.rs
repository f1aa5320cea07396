//! Changes of definitions: tables and indexes come, change and go.

pub(crate) mod alter;
pub(crate) mod delta;
pub(crate) mod load;
pub(crate) mod replace;
pub(crate) mod tables;
