//! Transactions over byte strings: statements that take effect as a whole, savepoints, repetition
//! after a conflict.

pub(crate) mod retry;
pub(crate) mod transaction;
