//! Copying a database while it is in use.
//!
//! 0. Every table has to have a file with all the pages that its header counts, and none that is
//!    in use behind these, or the backup fails, or lists it as left out: what is reported as copied
//!    is complete.
//! 1. The log is followed from the checkpoint on; from now on no segment is reused before it is
//!    copied.
//! 2. The files of pages are copied as they are on disk, as many pages as their headers count, page
//!    by page with their checksums checked, while others write them. A page that does not check out
//!    (a write was under way) is read again, in the end through the cache, also one that is free:
//!    the log may have records of it. Between two pieces the log is copied that was written by
//!    then. What comes while it is copied is left for the next time, and pages by which a file
//!    grows are left to the log, or writers that are quicker than the copy would keep the backup
//!    from its end.
//! 3. The files of tables that were created meanwhile are copied, most of them before definitions
//!    are held still; then, with these held still for a moment, the rest, and the log up to its end
//!    at this moment. In this moment the copy keeps to no rate, and calls nothing of the program,
//!    which may want to change definitions itself.
//! 4. What says that the database is itself a copy, on which no server has started, is copied. Then
//!    `holdfast.meta` is written, and with it the copy is a database: opening it recovers from the
//!    copied log.
//!
//! Every change up to the end of the copied log is either in the copied page or in the copied log,
//! because the copied log begins at a checkpoint that was durable before the first page was read.
//! Tables dropped meanwhile leave files that the first open removes; their files stay until the
//! backup has ended, because it holds the schema.
//!
//! The copy is written past the system's page cache where the file system allows it: a backup
//! evicts nothing that other programs keep there, and its speed does not depend on how much of it
//! fits.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_base::HashSet;
use holdfast_base::{Lsn, PageId, PageNo, SpaceId, page};
use holdfast_io::{AlignedBuf, Create, Disk, FileDisk, FileKind, FlushMethod, OpenOptions};
use holdfast_pool::AccessKind;
use holdfast_tree::SpaceFile;
use holdfast_wal::{LogCopy, LogTail};

use crate::instance::Instance;
use crate::instance::settings::Builder;
use crate::maintenance::pieces::{is_loss, read_piece};
use crate::maintenance::report::{Finding, OnProgress, VerifyOptions, VerifyReport};
use crate::maintenance::verify;
use crate::schema::versions::Schema;
use crate::startup::opening;
use crate::{Error, Result};

/// What is told how far a backup has come.
type ProgressFn = dyn Fn(&BackupProgress) + Send + Sync;
/// What says whether to stop.
type StopFn = dyn Fn() -> bool + Send + Sync;

/// How to back up.
#[derive(Clone, Default)]
pub struct BackupOptions {
    rate_limit_bytes_per_second: Option<u64>,
    progress: Option<Arc<ProgressFn>>,
    stop: Option<Arc<StopFn>>,
    leave_out_damaged: bool,
    disk: Option<Arc<dyn Disk>>,
}

impl BackupOptions {
    /// As fast as the disks go, silently.
    #[must_use]
    pub fn new() -> BackupOptions {
        BackupOptions::default()
    }

    /// Copies at most so many bytes a second, for the sake of the other users of the database. At
    /// least 1.
    #[must_use]
    pub fn rate_limit_bytes_per_second(mut self, bytes: u64) -> BackupOptions {
        self.rate_limit_bytes_per_second = Some(bytes);
        self
    }

    /// Whether tables whose files cannot be used (missing, cut off, another database's, written by
    /// a newer version, not returned by the device) are left out and listed in
    /// [`BackupReport::left_out`], instead of failing the backup before it copies anything. In the
    /// copy they are damaged: their files are missing. Default false. A damaged page fails the
    /// backup in any case.
    #[must_use]
    pub fn leave_out_damaged(mut self, on: bool) -> BackupOptions {
        self.leave_out_damaged = on;
        self
    }

    /// Puts the copy on `disk` instead of a directory of the file system: for tests and models. The
    /// path given to [`crate::Database::backup`] is then only a name in messages.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> BackupOptions {
        self.disk = Some(disk);
        self
    }

    /// Asked now and then, by the thread that makes the copy: true ends the backup with
    /// [`Error::Interrupted`]. What was copied is no database.
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> BackupOptions {
        self.stop = Some(Arc::new(stop));
        self
    }

    /// Called now and then, by the thread that makes the copy. It holds no lock then: what is
    /// called may use the database.
    #[must_use]
    pub fn on_progress(mut self, callback: impl Fn(&BackupProgress) + Send + Sync + 'static) -> BackupOptions {
        self.progress = Some(Arc::new(callback));
        self
    }
}

impl std::fmt::Debug for BackupOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupOptions")
            .field("rate_limit_bytes_per_second", &self.rate_limit_bytes_per_second)
            .finish_non_exhaustive()
    }
}

/// How far a backup has come.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Bytes of files copied.
    pub bytes_done: u64,
    /// Bytes of files that there are.
    pub bytes_total: u64,
    /// Bytes of log copied.
    pub log_bytes: u64,
}

/// What a backup copied.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupReport {
    /// Files of pages.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of log.
    pub log_bytes: u64,
    /// The backup holds what was committed up to this position of the log.
    pub lsn: u64,
    /// Tables that the copy lacks, and why; see [`BackupOptions::leave_out_damaged`].
    pub left_out: Vec<Finding>,
}

/// Bytes copied at a time.
const PIECE: usize = if cfg!(sim) { 128 << 10 } else { 1 << 20 };

/// How long a backup that was asked to stop may take no notice while it waits for its rate.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks for tables that were created meanwhile, before definitions are held still.
const FILE_ROUNDS: usize = 4;

/// The file by which a layer above says that a database is a copy which needs more than recovery:
/// the first server that starts on it does that, and removes the file.
const MARK_OF_COPY: &str = "copied-while-in-use";

/// Reads of a page from its file before it is taken from the cache.
const READ_ATTEMPTS: u32 = 8;

pub(crate) fn backup(instance: &Instance, dir: &Path, options: &BackupOptions) -> Result<BackupReport> {
    instance.check()?;
    if options.rate_limit_bytes_per_second == Some(0) {
        return Err(Error::invalid(
            "rate_limit_bytes_per_second = 0 would take for ever; choose at least 1, or leave it out",
        ));
    }
    spaces_to_copy(instance, &instance.schema(), options)?;
    let target: Arc<dyn Disk> = match &options.disk {
        Some(disk) => Arc::clone(disk),
        None => {
            refuse_entries(dir)?;
            Arc::new(FileDisk::create(dir, FlushMethod::ODirect)?)
        }
    };
    if !target.list()?.is_empty() {
        return Err(Error::AlreadyExists(dir.display().to_string()));
    }
    let mut backup = Backup::begin(instance, target, options)?;
    // Keeps the files of tables that are dropped meanwhile.
    let _held = instance.schema();
    for _ in 0..FILE_ROUNDS {
        let before = backup.copied.len();
        backup.copy_files(&instance.schema())?;
        if backup.copied.len() == before {
            break;
        }
    }
    let lsn = {
        let _ddl = instance.ddl.lock();
        backup.holds_definitions = true;
        backup.copy_files(&instance.schema())?;
        backup.copy_log_to_end()?
    };
    backup.finish(lsn)
}

/// Refuses a directory that holds anything. A disk lists its files only.
fn refuse_entries(dir: &Path) -> Result<()> {
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::AlreadyExists(dir.display().to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("list", dir.display(), error)),
    }
}

/// The files of pages that `schema` asks for, and the tables that have none that could be copied.
///
/// # Errors
/// Why a table has none, unless such tables are left out.
fn spaces_to_copy(
    instance: &Instance,
    schema: &Schema,
    options: &BackupOptions,
) -> Result<(Vec<Arc<SpaceFile>>, Vec<Finding>)> {
    let access = instance.pool().access(AccessKind::Backup);
    let whole = |space: &Arc<SpaceFile>| match space.space().damaged() {
        Some(error) => Err(error.clone()),
        None => space.whole_pages(&access).and_then(|_| space.check_end(&access)),
    };
    let (mut spaces, mut left_out) = (vec![Arc::clone(&instance.system), Arc::clone(&instance.undo)], Vec::new());
    spaces.iter().try_for_each(whole)?;
    // The open of the copy drops temporary tables, whatever it finds of them.
    for table in schema.tables().filter(|table| !table.record.temporary) {
        match table.store.space().and_then(|space| whole(space).map(|()| Arc::clone(space))) {
            Ok(space) => spaces.push(space),
            Err(error) if options.leave_out_damaged && is_of_table(&error) => {
                left_out.push(Finding { table: table.name.clone(), what: error.to_string() });
            }
            Err(error) => return Err(of_table(&table.name, error)),
        }
    }
    Ok((spaces, left_out))
}

/// True if the error says that a table is unusable, and not that the database is.
fn is_of_table(error: &Error) -> bool {
    is_loss(error) || matches!(error, Error::Incompatible(_))
}

/// The error, naming the table.
fn of_table(table: &str, error: Error) -> Error {
    match error {
        Error::DamagedFile { file, what } => Error::damaged_file(format_args!("{file} of table `{table}`"), what),
        Error::Incompatible(what) => Error::Incompatible(format!("table `{table}`: {what}")),
        other => other,
    }
}

struct Backup<'a> {
    instance: &'a Instance,
    options: &'a BackupOptions,
    target: Arc<dyn Disk>,
    tail: LogTail,
    copy: LogCopy,
    payload: Vec<u8>,
    first: Lsn,
    copied: HashSet<SpaceId>,
    left_out: Vec<Finding>,
    progress: BackupProgress,
    started: Duration,
    /// No definition changes now.
    holds_definitions: bool,
}

impl<'a> Backup<'a> {
    fn begin(instance: &'a Instance, target: Arc<dyn Disk>, options: &'a BackupOptions) -> Result<Backup<'a>> {
        let wal = instance.wal();
        let (first, payload, tail) = loop {
            // The checkpoint may move on before its log is held.
            let first = wal.checkpoint_lsn();
            let payload = instance.txns.checkpoint_payload();
            match wal.tail(first) {
                Ok(tail) => break (first, payload, tail),
                Err(error) if wal.checkpoint_lsn() == first => return Err(error),
                Err(_) => {}
            }
        };
        let copy = LogCopy::create(Arc::clone(&target), instance.meta.uuid, &instance.wal_config, first)?;
        let (spaces, left_out) = spaces_to_copy(instance, &instance.schema(), options)?;
        let bytes_total = spaces.iter().map(|s| s.space().file().len().unwrap_or(0)).sum();
        let progress = BackupProgress { bytes_total, ..BackupProgress::default() };
        Ok(Backup {
            instance,
            options,
            target,
            tail,
            copy,
            payload,
            first,
            copied: HashSet::default(),
            left_out,
            progress,
            started: instance.clock.now(),
            holds_definitions: false,
        })
    }

    /// Copies the files that `schema` asks for, but those that were copied.
    fn copy_files(&mut self, schema: &Schema) -> Result<()> {
        let (spaces, left_out) = spaces_to_copy(self.instance, schema, self.options)?;
        self.left_out = left_out;
        spaces.iter().try_for_each(|space| self.copy_file(space))
    }

    /// Copies the file of a space, unless that was done. The pages by which it grows meanwhile are
    /// begun in the log that is copied: it may grow more quickly than it is copied.
    fn copy_file(&mut self, space: &SpaceFile) -> Result<()> {
        let (id, file) = (space.id(), space.space().file());
        if !self.copied.insert(id) {
            return Ok(());
        }
        let open = OpenOptions::new(FileKind::Data).create(Create::New);
        let target = self.target.open(file.name(), open)?;
        let page_size = self.instance.meta.page_size;
        let mut buf = AlignedBuf::zeroed(PIECE);
        let (mut at, mut pages) = (0u64, u32::MAX);
        loop {
            let now = space.whole_pages(&self.instance.pool().access(AccessKind::Backup))?;
            // The first page is copied by then, and its header counts no more.
            if at > 0 && !holdfast_base::planted!("backup-follows-growth") {
                pages = pages.min(now);
            }
            let left = (u64::from(now.min(pages)) * page_size as u64).saturating_sub(at);
            let n = left.min(PIECE as u64) as usize;
            if n == 0 {
                break;
            }
            buf.resize(n);
            if !read_piece(file.as_ref(), at, &mut buf)? {
                continue;
            }
            for (i, bytes) in buf.chunks_exact_mut(page_size).enumerate() {
                let no = PageNo((at / page_size as u64) as u32 + i as u32);
                self.check_page(space, PageId::new(id, no), bytes)?;
            }
            target.write_at(at, &buf)?;
            at += n as u64;
            self.progress.bytes_done += n as u64;
            self.copy_log(self.instance.wal().written_lsn())?;
            self.pause()?;
        }
        target.sync()
    }

    /// Makes sure that `bytes` are a whole page, one way or another, unless it has been cut off. A
    /// free page that is damaged is copied as it is.
    fn check_page(&self, space: &SpaceFile, id: PageId, bytes: &mut [u8]) -> Result<()> {
        for _ in 0..READ_ATTEMPTS {
            if self.instance.pool().check_page(space.space(), bytes, id.no).is_ok() {
                return Ok(());
            }
            let at = u64::from(id.no.0) * bytes.len() as u64;
            if !read_piece(space.space().file().as_ref(), at, bytes)? {
                return Ok(());
            }
        }
        let pool = self.instance.pool();
        let is_allocated = space.is_allocated(id.no, &pool.access(AccessKind::Backup))?;
        // The log that is copied may have records of a page that is free by now. Its damage is no
        // damage of its table.
        let access = pool.access(if is_allocated { AccessKind::Backup } else { AccessKind::Recovery });
        let is_still_allocated = || Ok(is_allocated && space.is_allocated(id.no, &access)?);
        let guard = match pool.fix_shared(space.space(), id.no, &access) {
            // A compaction may have cut it off by now.
            Err(error) if error.is_damage() && !is_still_allocated()? => return Ok(()),
            fixed => fixed?,
        };
        bytes.copy_from_slice(&guard);
        drop(guard);
        if !page::is_blank(bytes) {
            page::seal(bytes);
        }
        Ok(())
    }

    /// Copies the log up to `end` of what was written to it meanwhile.
    fn copy_log(&mut self, end: Lsn) -> Result<()> {
        while self.tail.position() < end
            && let Some(group) = self.tail.next()?
        {
            self.copy.push(&group)?;
        }
        self.progress.log_bytes = self.copy.position().since(self.first);
        self.progress.bytes_total = self.progress.bytes_total.max(self.progress.bytes_done);
        if let Some(callback) = self.options.progress.as_ref().filter(|_| !self.holds_definitions) {
            callback(&self.progress);
        }
        Ok(())
    }

    fn copy_log_to_end(&mut self) -> Result<Lsn> {
        let wal = self.instance.wal();
        let end = wal.next_lsn();
        wal.flush_to(end)?;
        while self.copy.position() < end && !holdfast_base::planted!("backup-lacks-the-last-log") {
            self.copy_log(end)?;
        }
        Ok(self.copy.position())
    }

    /// Waits until as many bytes were due as have been copied, unless definitions are held still.
    fn pause(&self) -> Result<()> {
        if self.holds_definitions {
            return Ok(());
        }
        loop {
            if self.options.stop.as_ref().is_some_and(|stop| stop()) {
                return Err(Error::Interrupted);
            }
            let Some(rate) = self.options.rate_limit_bytes_per_second else { return Ok(()) };
            let due = Duration::from_secs_f64(self.progress.bytes_done as f64 / rate as f64);
            let spent = self.instance.clock.now().saturating_sub(self.started);
            if due <= spent {
                return Ok(());
            }
            self.instance.clock.sleep((due - spent).min(PAUSE));
        }
    }

    /// A copy of a copy on which no server has started is such a one, too.
    fn carry_mark(&self) -> Result<()> {
        let disk = &self.instance.disk;
        if !disk.list()?.iter().any(|name| name == MARK_OF_COPY) {
            return Ok(());
        }
        let from = disk.open(MARK_OF_COPY, OpenOptions::new(FileKind::Meta).read_only(true))?;
        let mut text = vec![0; usize::try_from(from.len()?).unwrap_or(0)];
        from.read_at(0, &mut text)?;
        let to = self.target.open(MARK_OF_COPY, OpenOptions::new(FileKind::Meta).create(Create::New))?;
        to.write_at(0, &text)?;
        to.sync()
    }

    fn finish(self, lsn: Lsn) -> Result<BackupReport> {
        self.carry_mark()?;
        self.copy.finish(&self.payload)?;
        self.instance.meta.copy(&*self.target)?;
        Ok(BackupReport {
            files: self.copied.len() as u64,
            bytes: self.progress.bytes_done,
            log_bytes: self.progress.log_bytes,
            lsn: lsn.0,
            left_out: self.left_out,
        })
    }
}

pub(crate) fn restore(settings: &Builder, dir: &Path, progress: &OnProgress<'_>) -> Result<VerifyReport> {
    let instance = opening::open(settings, dir)?;
    let report = verify::verify(&instance, &VerifyOptions::default(), &mut |at| progress(at))?;
    if let Some(finding) = report.findings.first() {
        let what = format!("{}: {} ({} findings in all)", finding.table, finding.what, report.findings.len());
        return Err(Error::damaged_file(dir.display(), what));
    }
    if let Some(unchecked) = report.unchecked().next() {
        return Err(Error::invalid(format!("table `{}` was not checked: {}", unchecked.table, unchecked.what)));
    }
    instance.close()?;
    Ok(report)
}
