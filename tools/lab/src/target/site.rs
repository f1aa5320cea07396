//! Data for the embedded engine: loaded once, copied for targets that are open at the same time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use holdfast::io::{Create, FileDisk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Builder, Database, Disk, FlushMethod};
use holdfast_testkit::{DiskModel, ModelDisk};
use holdfast_workload::{dbt2, sysbench};
use tempfile::TempDir;

use super::embedded::{Definition, Embedded, definition};
use super::{Site, Target, TargetSpec};
use crate::clock::PausableClock;
use crate::pin::{Cores, Role};

/// Rows of a table.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// `sbtest` with this seed and this number of rows.
    Sbtest {
        /// Seed.
        seed: u64,
        /// Rows.
        rows: u32,
    },
    /// `new_order` of that many warehouses.
    NewOrder {
        /// Warehouses.
        warehouses: u32,
    },
    /// `stock` of that many warehouses.
    Stock {
        /// Seed.
        seed: u64,
        /// Warehouses.
        warehouses: u32,
    },
}

/// A table of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// Its name.
    pub name: &'static str,
    /// Its rows.
    pub content: Content,
}

/// The disk of an experiment.
#[derive(Clone, Debug)]
pub enum Place {
    /// Memory behind a model of a spinning disk with one actuator.
    Model {
        /// Time of a seek.
        seek: Duration,
        /// Bytes per second of a transfer.
        bytes_per_second: u64,
    },
    /// A directory of a file system; the data goes into a new directory in it, which is removed at
    /// the end.
    Real {
        /// The directory.
        dir: PathBuf,
    },
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
    /// An empty disk with its model off. Its clock sleeps without spinning, since the cores are for
    /// the workers.
    fn new(place: &Place, dir: Option<&Path>, number: usize) -> Result<Copy> {
        let number = format!("copy-{number}");
        let (inner, model, name): (Arc<dyn Disk>, _, _) = match (place, dir) {
            (Place::Real { .. }, Some(dir)) => {
                let name = dir.join(number);
                let disk = FileDisk::create(&name, FlushMethod::ODirect);
                (Arc::new(disk.with_context(|| format!("create {}", name.display()))?), DiskModel::spinning(), name)
            }
            (Place::Model { seek, bytes_per_second }, _) => {
                let model = DiskModel { seek: *seek, bytes_per_second: *bytes_per_second };
                (Arc::new(MemoryDisk::new()), model, PathBuf::from(number))
            }
            (Place::Real { .. }, None) => return Err(anyhow!("a real disk needs a directory")),
        };
        let disk = ModelDisk::new(inner, model, Arc::new(PausableClock::new()));
        disk.set_enabled(false);
        Ok(Copy { disk, name })
    }

    fn builder(&self) -> Builder {
        Database::builder().disk(Arc::new(self.disk.clone()))
    }
}

impl EmbeddedSite {
    /// Loads `tables` (number 0 first) with a pool of `load_pool_bytes` and makes `copies` copies
    /// of them.
    ///
    /// # Errors
    /// Those of the engine or the file system.
    pub fn load(
        place: &Place,
        tables: &[TableSpec],
        copies: usize,
        load_pool_bytes: u64,
        cores: Cores,
    ) -> Result<EmbeddedSite> {
        let dir = match place {
            Place::Model { .. } => None,
            Place::Real { dir } => {
                let made = tempfile::Builder::new().prefix("holdfast-lab-").tempdir_in(dir);
                Some(made.with_context(|| format!("make a directory in {}", dir.display()))?)
            }
        };
        let copies: Result<Vec<Copy>> =
            (0..copies).map(|n| Copy::new(place, dir.as_ref().map(TempDir::path), n)).collect();
        let copies = copies?;
        let definitions: Arc<[Definition]> =
            tables.iter().map(|t| definition(t.name, matches!(t.content, Content::Sbtest { .. }))).collect();
        let first = copies.first().ok_or_else(|| anyhow!("no copy of the data"))?;
        load(first, tables, &definitions, load_pool_bytes)?;
        for other in &copies[1..] {
            copy_disk(&first.disk, &other.disk).context("copy the data")?;
        }
        let modelled = matches!(place, Place::Model { .. });
        Ok(EmbeddedSite { copies, tables: definitions, cores, modelled, _dir: dir })
    }
}

impl Site for EmbeddedSite {
    fn open(&self, spec: &TargetSpec) -> Result<Arc<dyn Target>> {
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
        let target = opened.map_err(|_| anyhow!("the engine panicked while it was opened"))??;
        Ok(Arc::new(target))
    }

    fn target_name(&self) -> &'static str {
        "embedded"
    }

    fn set_slow(&self, slow: bool) {
        self.copies.iter().for_each(|copy| copy.disk.set_enabled(slow && self.modelled));
    }
}

fn load(copy: &Copy, tables: &[TableSpec], definitions: &[Definition], pool_bytes: u64) -> Result<()> {
    let db = copy.builder().cache_size_bytes(pool_bytes).create(&copy.name).context("create the database")?;
    for (table, definition) in tables.iter().zip(definitions) {
        let loaded = db.create_table_with(definition, |loader| {
            let mut push = |key: &[u8], row: &[u8]| loader.push(key, row);
            match table.content {
                Content::Sbtest { seed, rows } => sysbench::generate(seed, rows, 1..=rows, &mut push),
                Content::NewOrder { warehouses } => dbt2::generate_new_order(warehouses, &mut push),
                Content::Stock { seed, warehouses } => dbt2::generate_stock(seed, warehouses, &mut push),
            }
        });
        loaded.with_context(|| format!("load the table {}", table.name))?;
    }
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
