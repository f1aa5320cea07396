//! Crash simulation: what must hold after a power cut or a killed process.
//!
//! - [`script`]: one thread interleaves several transactions, savepoints, rollbacks and DDL over a
//!   model; the disk ([`holdfast_testkit::CrashDisk`]) freezes after a random number of operations
//!   and forgets, tears and reorders what was not synced; recovery itself is cut again. Afterwards
//!   every acknowledged commit is there, no half transaction is, and `verify()` finds nothing.
//! - [`bank`]: threads move money between accounts, each counts its commits in a row of its own.
//!   Afterwards the sum is what it was and each count is the acknowledged one or the next.
//! - [`kill`]: a child process under the bank's load on real files, killed with SIGKILL.
//! - [`damage`]: files are damaged with knowledge of their format, and used.
//! - [`recovery`]: how long recovery takes.
//!
//! - `whole`, under `--cfg sim` only: the whole engine under a seeded scheduler; a seed gives the
//!   same run each time.
//!
//! In the others everything follows from the seed, but for the threads' interleaving; a seed that
//! fails is therefore run again as it is, and found again most of the time.

#![forbid(unsafe_code)]

pub mod bank;
pub mod damage;
pub mod kill;
mod model;
pub mod recovery;
#[cfg(sim)]
mod same_process;
pub mod script;
#[cfg(sim)]
pub mod whole;

use anyhow::ensure;
use holdfast::{Database, VerifyOptions};

/// Fails unless `verify()` finds nothing.
///
/// # Errors
/// What it found.
pub(crate) fn verify(db: &Database) -> anyhow::Result<()> {
    let report = db.verify(&VerifyOptions::default(), &mut |_| {})?;
    ensure!(report.is_clean(), "verify() after recovery: {report:?}");
    Ok(())
}
