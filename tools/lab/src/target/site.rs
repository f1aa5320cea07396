//! Data for the embedded engine: loaded once, copied for targets that are open at the same time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use holdfast::io::{Create, FileKind, OpenOptions};
use holdfast::{Builder, Database, Disk, FlushMethod};
use holdfast_testkit::{DiskModel, ModelDisk};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::embedded::{Definition, Embedded};
use super::{EMBEDDED, Site, Target, TargetSpec};
use crate::pin::{Cores, Role};
use crate::rig::site::{self, DiskKind, definitions, fill};
pub use crate::rig::site::{Content, TableSpec};

/// The disk of an experiment: files past the system's cache in the directory `real` if there is
/// one, else `model`.
pub fn disk(real: Option<&Path>, model: DiskModel) -> DiskKind {
    match real {
        Some(dir) => DiskKind::Real { dir: dir.to_owned(), method: FlushMethod::ODirect },
        None => DiskKind::Model(model),
    }
}

/// The disk, for the settings of a document: modelled, or a real one.
pub fn described(model: Option<DiskModel>) -> Value {
    let Some(model) = model else { return json!("real") };
    json!({
        "model": "single actuator",
        "seek_ms": model.seek.as_secs_f64() * 1e3,
        "mb_per_s": model.bytes_per_second as f64 / 1e6,
    })
}

/// The data of an experiment on the embedded engine.
pub struct EmbeddedSite {
    copies: Vec<Copy>,
    tables: Arc<[Definition]>,
    cores: Cores,
    modelled: bool,
    _dir: Option<TempDir>,
}

/// One copy of the data. It is behind a [`ModelDisk`] in any case, which counts the reads of each
/// file. In front of a real disk the model stays off.
struct Copy {
    disk: ModelDisk,
    name: PathBuf,
}

impl Copy {
    /// An empty disk with its model off.
    fn new(kind: &DiskKind, dir: Option<&Path>, number: usize) -> Result<Copy> {
        let number = format!("copy-{number}");
        let name = dir.map_or_else(|| PathBuf::from(&number), |dir| dir.join(&number));
        let (inner, model) = kind.empty(&name)?;
        let disk = model.unwrap_or_else(|| site::modelled(inner, DiskModel::spinning()));
        Ok(Copy { disk, name })
    }

    fn builder(&self) -> Builder {
        Database::builder().disk(Arc::new(self.disk.clone()))
    }
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
    ) -> Result<EmbeddedSite> {
        let dir = kind.new_dir()?;
        let copies: Result<Vec<Copy>> =
            (0..copies).map(|n| Copy::new(kind, dir.as_ref().map(TempDir::path), n)).collect();
        let copies = copies?;
        let definitions = definitions(tables);
        let first = copies.first().ok_or_else(|| anyhow!("no copy of the data"))?;
        load(first, tables, &definitions, load_pool_bytes)?;
        for other in &copies[1..] {
            copy_disk(&first.disk, &other.disk).context("copy the data")?;
        }
        let modelled = matches!(kind, DiskKind::Model(_));
        Ok(EmbeddedSite { copies, tables: definitions, cores, modelled, _dir: dir })
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

impl EmbeddedSite {
    /// Opens the engine with an empty pool.
    pub fn open_engine(&self, spec: &TargetSpec) -> Result<Embedded> {
        let copy = self.copies.get(spec.copy).ok_or_else(|| anyhow!("there is no copy {} of the data", spec.copy))?;
        let (tables, cores) = (Arc::clone(&self.tables), &self.cores);
        // The engine's threads inherit the cores of the thread that opens it.
        let opened = std::thread::scope(|scope| {
            let open = || {
                cores.pin(Role::Background);
                Embedded::open(&copy.disk, &copy.name, spec, tables)
            };
            scope.spawn(open).join()
        });
        opened.map_err(|_| anyhow!("the engine panicked while it was opened"))?
    }

    /// Switches the model of the disk on or off; a no-op on a real disk.
    pub fn set_slow(&self, slow: bool) {
        self.copies.iter().for_each(|copy| copy.disk.set_enabled(slow && self.modelled));
    }
}

fn load(copy: &Copy, tables: &[TableSpec], definitions: &[Definition], pool_bytes: u64) -> Result<()> {
    let db = copy.builder().cache_size_bytes(pool_bytes).create(&copy.name).context("create the database")?;
    fill(&db, tables, definitions)?;
    db.close().context("close the loaded database")
}

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

fn copy_disk(from: &dyn Disk, to: &dyn Disk) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    for name in from.list()? {
        let source = from.open(&name, OpenOptions::new(FileKind::Meta).read_only(true))?;
        let target = to.open(&name, OpenOptions::new(FileKind::Meta).create(Create::New))?;
        let len = source.len()?;
        let mut offset = 0;
        while offset < len {
            let part = buffer.len().min(usize::try_from(len - offset)?);
            source.read_at(offset, &mut buffer[..part])?;
            target.write_at(offset, &buffer[..part])?;
            offset += part as u64;
        }
    }
    Ok(())
}
