//! Transactions that did not end: what an open finds, losers, rollback, and the check of undo logs.

mod check;
pub(crate) mod losers;
pub mod restart;
pub mod rollback;
