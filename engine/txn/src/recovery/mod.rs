//! Transactions that did not end: what an open finds, losers, rollback, and the check of undo logs.

mod check;
pub(crate) mod checkpointed;
pub(crate) mod losers;
mod references;
mod restart;
mod rollback;
