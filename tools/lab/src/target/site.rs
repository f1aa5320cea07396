//! Data for the embedded engine: loaded once, copied for targets that are open at the same time.

use std::path::Path;

use anyhow::{Result, anyhow};
use holdfast_testkit::DiskModel;

use super::embedded::Embedded;
use super::{EMBEDDED, Site, Target, TargetSpec};
use crate::pin::{Cores, Role};
use crate::progress::Progress;
pub use crate::rig::site::described;
use crate::rig::site::{self, DiskKind};
pub use crate::rig::tables::{Content, TableSpec};

/// The disk of an experiment: files past the system's cache in the directory `real` if there is
/// one, else `model`.
pub fn disk(real: Option<&Path>, model: DiskModel) -> DiskKind {
    real.map_or(DiskKind::Model(model), DiskKind::files)
}

/// The data of an experiment on the embedded engine.
pub struct EmbeddedSite {
    copies: Vec<site::Site>,
    cores: Cores,
}

impl EmbeddedSite {
    /// Loads `tables` (number 0 first) with a pool of `load_pool_bytes` and makes `copies` copies
    /// of them.
    pub fn load(
        kind: &DiskKind,
        tables: &[TableSpec],
        copies: usize,
        load_pool_bytes: u64,
        cores: Cores,
        progress: &mut Progress,
    ) -> Result<EmbeddedSite> {
        let mut all = vec![site::Site::counted(kind, tables, load_pool_bytes, progress)?];
        for _ in 1..copies {
            all.push(all[0].copy(kind)?);
        }
        Ok(EmbeddedSite { copies: all, cores })
    }

    /// Opens the engine with an empty pool.
    pub fn open_engine(&self, spec: &TargetSpec) -> Result<Embedded> {
        let site = self.copies.get(spec.copy).ok_or_else(|| anyhow!("there is no copy {} of the data", spec.copy))?;
        // The engine's threads inherit the cores of the thread that opens it.
        let opened = std::thread::scope(|scope| {
            let open = || {
                self.cores.pin(Role::Background);
                Embedded::open(site, spec)
            };
            scope.spawn(open).join()
        });
        opened.map_err(|_| anyhow!("the engine panicked while it was opened"))?
    }

    /// Switches the model of the disk on or off; a no-op on a real disk.
    pub fn set_slow(&self, slow: bool) {
        self.copies.iter().for_each(|copy| copy.set_slow(slow));
    }
}

impl Site for EmbeddedSite {
    fn open(&self, spec: &TargetSpec) -> Result<Box<dyn Target + Sync + '_>> {
        Ok(Box::new(self.open_engine(spec)?))
    }

    fn target_name(&self) -> &'static str {
        EMBEDDED
    }
}
