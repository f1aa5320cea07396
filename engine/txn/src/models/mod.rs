//! The path of a commit, and views, under loom: a few threads in all interleavings up to a number
//! of preemptions, and for each load all values that the orderings in the code allow.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p holdfast-txn --lib`

#[cfg(test)]
mod commits;
#[cfg(test)]
mod explore;
#[cfg(test)]
mod history;
#[cfg(test)]
mod plants;
pub(crate) mod undo;
#[cfg(test)]
mod views;
