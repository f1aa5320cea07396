//! Two-phase commit.

pub(crate) mod prepared;
