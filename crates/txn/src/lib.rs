//! Floor 5: transactions.

#![forbid(unsafe_code)]

pub mod commit_map;
pub mod lock;
pub mod row;
pub mod view;
