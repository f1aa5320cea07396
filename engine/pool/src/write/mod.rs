//! Changed pages on their way to their files, and the double-write file.

pub(crate) mod batch;
pub(crate) mod dirty;
pub(crate) mod doublewrite;
pub(crate) mod flush;
pub(crate) mod images;
pub(crate) mod protect;
pub(crate) mod restore;
