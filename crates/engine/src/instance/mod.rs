//! An open database: what it is opened with, and what all handles and transactions share.

pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod meta;
pub(crate) mod options;
pub(crate) mod overlay;
pub(crate) mod rates;
pub(crate) mod settings;
pub(crate) mod shared;
