//! The databases that trials damage: which there are, and their files. Half of them were closed,
//! the others killed. `maker` builds them.

use std::path::Path;
use std::sync::Arc;

use holdfast::io::Disk;
use holdfast::{Builder, Database};

use super::files::{self, Files};
use super::model::Tables;
use super::tables::LOCK_WAIT;

/// What a base is made like.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes of a page.
    pub page_size: usize,
    /// Closed, or killed.
    pub closed: bool,
    /// Versions that an old snapshot needs are in the version tree.
    pub history: bool,
    /// Rows of the largest table.
    pub rows: u64,
}

const fn plan(page_size: usize, closed: bool, history: bool, rows: u64) -> Plan {
    Plan { page_size, closed, history, rows }
}

/// All bases. The last ones are small: a failing trial is tried on them.
pub const PLANS: [Plan; 14] = [
    plan(4096, false, false, 90),
    plan(4096, true, false, 90),
    plan(4096, false, true, 60),
    plan(4096, false, false, 150),
    plan(8192, false, false, 90),
    plan(4096, true, true, 60),
    plan(16384, false, false, 70),
    plan(4096, false, false, 110),
    plan(65536, false, false, 40),
    plan(32768, true, false, 40),
    plan(16384, true, true, 40),
    plan(4096, false, false, 70),
    plan(4096, false, false, 12),
    plan(4096, true, false, 12),
];
/// How many of [`PLANS`] trials are drawn on.
pub const DRAWN: usize = 12;

/// A database, what it holds, and its pages at an earlier time.
pub struct Base {
    /// What it is made like.
    pub plan: Plan,
    /// The files.
    pub files: Files,
    /// The files of pages as they were at an earlier checkpoint.
    pub older: Files,
    /// What was promised to be in it.
    pub tables: Tables,
}

/// The settings of all databases of the trials.
#[must_use]
pub fn settings(disk: Arc<dyn Disk>) -> Builder {
    Database::builder()
        .cache_size_bytes(5 << 20)
        .log_capacity_bytes(4 << 20)
        .log_buffer_bytes(64 << 10)
        .version_limit_bytes(1 << 20)
        .lock_wait_timeout(LOCK_WAIT)
        .warm_up(false)
        .disk(disk)
}

/// Reads base number `no` from the directory of all.
///
/// # Errors
/// The errors of the system.
pub fn load(no: usize, dir: &Path) -> anyhow::Result<Base> {
    let dir = dir.join(no.to_string());
    let tables = serde_json::from_slice(&std::fs::read(dir.join("tables"))?)?;
    let (files, older) = (files::load(&dir.join("files"))?, files::load(&dir.join("older"))?);
    Ok(Base { plan: PLANS[no], files, older, tables })
}
