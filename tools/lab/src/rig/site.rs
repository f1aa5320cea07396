//! The data of an experiment on the embedded engine: loaded once, then opened with pools, logs and
//! commit modes as needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use holdfast::io::{FileDisk, MemoryDisk};
use holdfast::{Builder, Database, Disk, FlushAtCommit, FlushMethod};
use holdfast_testkit::{DiskModel, ModelDisk};
use holdfast_workload::{dbstress, dbt2, sysbench};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clock::PausableClock;
use crate::target::embedded::{Definition, definition};

/// A kind of disk.
#[derive(Clone, Debug, PartialEq)]
pub enum DiskKind {
    /// Memory, at its own speed.
    Memory,
    /// Memory behind the model of a disk with one arm.
    Model(DiskModel),
    /// Files in a new directory inside `dir`, removed at the end.
    Real {
        /// The directory.
        dir: PathBuf,
        /// True past the system's cache, or through it.
        method: FlushMethod,
    },
}

/// How the names of directories with data begin.
const PREFIX: &str = "holdfast-lab-";

/// Directories with data in `dir`: of runs that were interrupted, or that go on beside this one.
pub(crate) fn data_in(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().into_iter().flatten().filter_map(Result::ok);
    let of_data = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    of_data.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// A new directory with data in `dir`, removed when it is dropped.
pub(crate) fn new_dir_in(dir: &Path) -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir);
    made.with_context(|| format!("make a directory in {}", dir.display()))
}

impl DiskKind {
    /// A new directory on a real disk; none for the others.
    pub fn new_dir(&self) -> Result<Option<TempDir>> {
        let DiskKind::Real { dir, .. } = self else { return Ok(None) };
        new_dir_in(dir).map(Some)
    }

    /// An empty disk for a database called `name`, with its model, if it has one. The model is off.
    pub fn empty(&self, name: &Path) -> Result<(Arc<dyn Disk>, Option<ModelDisk>)> {
        Ok(match self {
            DiskKind::Memory => (Arc::new(MemoryDisk::new()), None),
            DiskKind::Model(model) => {
                let disk = modelled(Arc::new(MemoryDisk::new()), *model);
                (Arc::new(disk.clone()), Some(disk))
            }
            DiskKind::Real { method, .. } => {
                let disk = FileDisk::create(name, *method);
                (Arc::new(disk.with_context(|| format!("create {}", name.display()))?), None)
            }
        })
    }

    /// The disk, for the settings of a document.
    pub fn describe(&self) -> Value {
        match self {
            DiskKind::Memory => json!("memory"),
            DiskKind::Model(model) => json!({
                "model": "one arm",
                "seek_ms": model.seek.as_secs_f64() * 1e3,
                "mb_per_s": model.bytes_per_second as f64 / 1e6,
            }),
            DiskKind::Real { method: FlushMethod::ODirect, .. } => json!("real, O_DIRECT"),
            DiskKind::Real { .. } => json!("real, through the system's cache"),
        }
    }
}

/// `inner` behind a model that is off. Its clock sleeps without spinning, since the cores are for
/// the sessions.
pub fn modelled(inner: Arc<dyn Disk>, model: DiskModel) -> ModelDisk {
    let disk = ModelDisk::new(inner, model, Arc::new(PausableClock::new()));
    disk.set_enabled(false);
    disk
}

/// The settings of a database; the others are defaults.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub pool_bytes: u64,
    /// The log between checkpoints; `None`: the default.
    pub log_bytes: Option<u64>,
}

impl Settings {
    /// A pool of this size, everything else default.
    pub fn pool(pool_bytes: u64) -> Settings {
        Settings { pool_bytes, log_bytes: None }
    }

    /// A database with these settings.
    pub fn builder(&self) -> Builder {
        let builder = Database::builder()
            .cache_size_bytes(self.pool_bytes)
            .flush_log_at_commit(FlushAtCommit::Sync)
            .snapshot_isolation(false)
            .warm_up(false);
        match self.log_bytes {
            Some(bytes) => builder.log_capacity_bytes(bytes),
            None => builder,
        }
    }
}

/// A table of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// Its name.
    pub name: &'static str,
    /// Seed of its rows.
    pub seed: u64,
    /// Its rows.
    pub content: Content,
}

/// Rows of a table.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// `sbtest` with that many rows.
    Sbtest(u32),
    /// `new_order` of that many warehouses.
    NewOrder(u32),
    /// `stock` of that many warehouses.
    Stock(u32),
    /// A table of dbSTRESS.
    DbStress(dbstress::Options, dbstress::Table),
}

/// The tables of dbSTRESS.
pub fn dbstress_tables(options: dbstress::Options, seed: u64) -> Vec<TableSpec> {
    let tables = dbstress::table_names(options.hpk).iter().zip(dbstress::Table::ALL);
    tables.map(|(name, table)| TableSpec { name, seed, content: Content::DbStress(options, table) }).collect()
}

/// The data, and the disk that it is on.
pub struct Site {
    disk: Arc<dyn Disk>,
    model: Option<ModelDisk>,
    name: PathBuf,
    tables: Arc<[Definition]>,
    files: Vec<(String, String)>,
    _dir: Option<TempDir>,
}

impl Site {
    /// Loads `tables`, at memory speed if the disk is a model.
    pub fn load(kind: &DiskKind, tables: &[TableSpec]) -> Result<Site> {
        let dir = kind.new_dir()?;
        let name = dir.as_ref().map_or_else(|| PathBuf::from("lab"), |dir| dir.path().join("data.hf"));
        let (disk, model) = kind.empty(&name)?;
        let definitions = definitions(tables);
        let mut site = Site { disk, model, name, tables: definitions, files: Vec::new(), _dir: dir };
        site.fill(tables).context("load the tables")?;
        site.set_slow(true);
        Ok(site)
    }

    fn fill(&mut self, tables: &[TableSpec]) -> Result<()> {
        let db = self.builder(&Settings::pool(64 << 20)).create(&self.name)?;
        fill(&db, tables, &self.tables)?;
        self.files = db.list_tables().into_iter().map(|t| (t.name, t.file)).collect();
        db.close()?;
        Ok(())
    }

    fn builder(&self, settings: &Settings) -> Builder {
        settings.builder().disk(Arc::clone(&self.disk))
    }

    /// Opens the database with an empty pool.
    pub fn open(&self, settings: &Settings) -> Result<Database> {
        self.builder(settings).open(&self.name).with_context(|| format!("open the database in {}", self.name.display()))
    }

    /// The tables, in the workload's order.
    pub fn tables(&self) -> &Arc<[Definition]> {
        &self.tables
    }

    /// Name of the file of a table.
    pub fn file(&self, table: &str) -> Option<&str> {
        self.files.iter().find(|(name, _)| name == table).map(|(_, file)| file.as_str())
    }

    /// The disk.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Directory of the database, on a real disk.
    pub fn path(&self) -> Option<&Path> {
        self._dir.as_ref().map(|_| self.name.as_path())
    }

    /// Keeps the directory of the data, if there is one, when this is dropped. Returns it.
    pub fn keep(&mut self) -> Option<&Path> {
        let dir = self._dir.as_mut()?;
        dir.disable_cleanup(true);
        Some(dir.path())
    }

    /// Switches the model of the disk on or off, if there is one.
    pub fn set_slow(&self, slow: bool) {
        if let Some(model) = &self.model {
            model.set_enabled(slow);
        }
    }
}

/// The definitions of tables.
pub fn definitions(tables: &[TableSpec]) -> Arc<[Definition]> {
    tables.iter().map(|t| definition(t.name, matches!(t.content, Content::Sbtest(_)))).collect()
}

/// Creates tables with their rows.
pub fn fill(db: &Database, tables: &[TableSpec], definitions: &[Definition]) -> Result<()> {
    for (table, definition) in tables.iter().zip(definitions) {
        let loaded = db.create_table_with(definition, |loader| {
            let mut push = |key: &[u8], row: &[u8]| loader.push(key, row);
            match (table.content, table.seed) {
                (Content::Sbtest(rows), seed) => sysbench::generate(seed, rows, 1..=rows, &mut push),
                (Content::NewOrder(warehouses), _) => dbt2::generate_new_order(warehouses, &mut push),
                (Content::Stock(warehouses), seed) => dbt2::generate_stock(seed, warehouses, &mut push),
                (Content::DbStress(options, table), seed) => dbstress::generate(&options, table, seed, &mut push),
            }
        });
        loaded.with_context(|| format!("load the table {}", table.name))?;
    }
    Ok(())
}
