//! The data of an experiment on the embedded engine: loaded once, then opened with pools, logs and
//! commit modes as needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use holdfast::io::{Create, FileDisk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Builder, Database, Disk, FlushAtCommit, FlushMethod};
use holdfast_testkit::{DiskModel, ModelDisk};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::tables::{Definition, TableSpec, definitions, fill};
use crate::clock::PausableClock;
use crate::progress::Progress;

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
    /// Files past the system's cache in `dir`.
    pub fn files(dir: &Path) -> DiskKind {
        DiskKind::Real { dir: dir.to_owned(), method: FlushMethod::ODirect }
    }

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

/// The disk of a server, for the settings of a document: a model, or a real one.
pub fn described(model: Option<DiskModel>) -> Value {
    model.map_or_else(|| json!("real"), |model| DiskKind::Model(model).describe())
}

/// `inner` behind a model that is off. Its clock sleeps without spinning, since the cores are for
/// the sessions.
fn modelled(inner: Arc<dyn Disk>, model: DiskModel) -> ModelDisk {
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

/// The data, and the disk that it is on.
pub struct Site {
    disk: Arc<dyn Disk>,
    /// The model in front of the disk, if it has one. In front of a disk that is no model it stays
    /// off, and only counts the requests to each file.
    model: Option<ModelDisk>,
    is_model: bool,
    name: PathBuf,
    tables: Arc<[Definition]>,
    files: Vec<(String, String)>,
    dir: Option<TempDir>,
}

/// The pool with which data is loaded, if its size does not matter.
const LOAD_POOL: u64 = 64 << 20;

impl Site {
    /// Loads `tables`, at memory speed if the disk is a model.
    pub fn load(kind: &DiskKind, tables: &[TableSpec], progress: &mut Progress) -> Result<Site> {
        let site = Site::empty(kind, definitions(tables), false)?.filled(tables, LOAD_POOL, progress)?;
        site.set_slow(true);
        Ok(site)
    }

    /// As [`Site::load`], with a pool of `pool_bytes` for that. The requests to each file are
    /// counted, and the model of the disk stays off.
    pub fn counted(kind: &DiskKind, tables: &[TableSpec], pool_bytes: u64, progress: &mut Progress) -> Result<Site> {
        Site::empty(kind, definitions(tables), true)?.filled(tables, pool_bytes, progress)
    }

    fn empty(kind: &DiskKind, tables: Arc<[Definition]>, counted: bool) -> Result<Site> {
        let dir = kind.new_dir()?;
        let name = dir.as_ref().map_or_else(|| PathBuf::from("lab"), |dir| dir.path().join("data.hf"));
        let (mut disk, mut model) = kind.empty(&name)?;
        let is_model = model.is_some();
        if counted && !is_model {
            let counts = modelled(disk, DiskModel::spinning());
            (disk, model) = (Arc::new(counts.clone()), Some(counts));
        }
        Ok(Site { disk, model, is_model, name, tables, files: Vec::new(), dir })
    }

    fn filled(mut self, tables: &[TableSpec], pool_bytes: u64, progress: &mut Progress) -> Result<Site> {
        let db = self.builder(&Settings::pool(pool_bytes)).create(&self.name).context("create the database")?;
        fill(&db, tables, &self.tables, progress)?;
        self.files = db.list_tables().into_iter().map(|t| (t.name, t.file)).collect();
        db.close().context("close the loaded database")?;
        Ok(self)
    }

    /// The same data on another disk of this kind, for a database that is open at the same time.
    pub fn copy(&self, kind: &DiskKind) -> Result<Site> {
        let copy = Site::empty(kind, Arc::clone(&self.tables), self.model.is_some())?;
        copy_disk(self.disk.as_ref(), copy.disk.as_ref()).context("copy the data")?;
        Ok(Site { files: self.files.clone(), ..copy })
    }

    fn builder(&self, settings: &Settings) -> Builder {
        settings.builder().disk(Arc::clone(&self.disk))
    }

    /// Opens the database with an empty pool.
    pub fn open(&self, settings: &Settings) -> Result<Database> {
        self.open_with(settings, |builder| builder)
    }

    /// As [`Site::open`], with what `further` sets.
    pub fn open_with(&self, settings: &Settings, further: impl FnOnce(Builder) -> Builder) -> Result<Database> {
        let opened = further(self.builder(settings)).open(&self.name);
        opened.with_context(|| format!("open the database in {}", self.name.display()))
    }

    /// The tables, in the workload's order.
    pub fn tables(&self) -> &Arc<[Definition]> {
        &self.tables
    }

    /// The tables by name, and the file of each.
    pub fn files(&self) -> &[(String, String)] {
        &self.files
    }

    /// Name of the file of a table.
    pub fn file(&self, table: &str) -> Option<&str> {
        self.files.iter().find(|(name, _)| name == table).map(|(_, file)| file.as_str())
    }

    /// The disk.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The disk, if the requests to its files are counted.
    pub fn counts(&self) -> Option<&ModelDisk> {
        self.model.as_ref()
    }

    /// True if the disk is a model.
    pub fn is_model(&self) -> bool {
        self.is_model
    }

    /// Directory of the database, on a real disk.
    pub fn path(&self) -> Option<&Path> {
        self.dir.as_ref().map(|_| self.name.as_path())
    }

    /// Keeps the directory of the data, if there is one, when this is dropped. Returns it.
    pub fn keep(&mut self) -> Option<&Path> {
        let dir = self.dir.as_mut()?;
        dir.disable_cleanup(true);
        Some(dir.path())
    }

    /// Switches the model of the disk on or off, if the disk is one.
    pub fn set_slow(&self, slow: bool) {
        if let Some(model) = &self.model {
            model.set_enabled(slow && self.is_model);
        }
    }
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
