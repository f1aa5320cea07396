//! Two-phase commit.

mod adopt;
pub(crate) mod prepared;
mod reads;
