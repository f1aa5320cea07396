//! Damage that knows the format: fields of pages, records and files get values that are wrong in
//! an interesting way, with checksums that are right, as a fault of the engine, of memory or of
//! the machine would leave them; and then the database is used.
//!
//! - `base`: the databases that are damaged, `maker`, how they are built, and `model`, what they
//!   were promised to hold.
//! - `layout`: where what is in their files, and `kinds`, the damages.
//! - `life`: one trial, `rescue`, what can be saved, and `judge`, what may come of it.
//! - [`runner`]: many trials, in processes of their own ([`child`]): a panic, a hang, an overflow
//!   of the stack and a wild allocation are failures like any other.
//!
//! `docs/design/damage.md` says what is checked and what is not.

pub mod base;
pub mod child;
mod files;
mod judge;
mod kinds;
pub(crate) mod layout;
mod life;
#[cfg(sim)]
pub mod maker;
mod model;
mod rescue;
pub mod runner;
pub mod spec;
mod tables;
