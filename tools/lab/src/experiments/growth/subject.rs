//! The table of a size, and what is done with it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use holdfast::io::FileDisk;
use holdfast::raw::{IndexSource, RawDatabase};
use holdfast::{
    BackupOptions, Builder, Database, FlushAtCommit, FlushMethod, VerifyOptions, VerifyReport, WriteTransaction,
};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_workload::rng::Rng;
use holdfast_workload::sysbench::{self, SbRow};
use holdfast_workload::{Failure, Rows as _, Scan, TableNo};
use tempfile::TempDir;

use super::outcome::{Killed, Size};
use super::plan::{EMBEDDED, Options, Step, UNFINISHED, UPDATES, USUAL_AGE};
use super::watch::{Reached, Watch};
use crate::progress::Progress;
use crate::rig::site::{Settings, new_dir_in};
use crate::rig::tables::{Definition, definition};
use crate::target::embedded::EmbeddedRows;

const TABLE: &str = "sbtest";
/// The index that is added.
const ADDED: &str = "k_2";
/// Bytes of a row and its entry in the file after the load.
const BYTES_PER_ROW: u64 = 288;
/// The log that is written at most before the kill, in capacities.
const LAPS: u64 = 2;

/// The table of a size.
struct Subject<'o> {
    options: &'o Options,
    rows: u32,
    tables: Arc<[Definition]>,
    place: TempDir,
}

/// Does all steps with a table of `mib` MiB; `before` is the next smaller size.
pub(super) fn measure(options: &Options, mib: u64, before: Option<&Size>, progress: &mut Progress) -> Result<Size> {
    let rows = u32::try_from((mib << 20) / BYTES_PER_ROW).context("too many rows")?;
    let place = new_dir_in(&options.plan.dir)?;
    let subject = Subject { options, rows, tables: Arc::from([definition(TABLE, true)]), place };
    let mut watch = Watch { name: EMBEDDED, mib, before, process: None, taken: Vec::new(), progress };
    let db = RawDatabase::new(subject.builder().create(subject.path())?);
    watch.step(Step::Load, |reached| subject.load(db.database(), reached))?;
    let bytes = db.open_table(TABLE)?.file_bytes()?;
    let missed = watch.step(Step::Dump, |reached| subject.dump(db.database(), reached))?;
    let findings = watch.step(Step::Check, |reached| check(db.database(), reached))?;
    watch.step(Step::Index, |reached| subject.add_index(&db, reached))?;
    watch.beside("dropping the index", None, |_| drop_index(&db))?;
    let copy = subject.place.path().join("copy.hf");
    watch.step(Step::Backup, |reached| back_up(db.database(), &copy, reached))?;
    watch.beside("closing", None, |_| Ok(db.close()?))?;
    let report = watch.step(Step::Restore, |_| Ok(subject.builder().restore(&copy)?))?;
    std::fs::remove_dir_all(&copy).with_context(|| format!("remove {}", copy.display()))?;
    let (_, killed) = watch.beside("updates until the kill", None, |reached| subject.update_and_kill(reached))?;
    let db = watch.step(Step::Recovery, |_| Ok(subject.builder().open(subject.path())?))?;
    let (_, wrong) = watch.beside("rows after the recovery", None, |reached| subject.wrong(&db, &killed, reached))?;
    db.close()?;
    let findings = findings + findings_of(&report);
    let (taken, lost) = (watch.taken, [missed, wrong]);
    Ok(Size { mib, rows, bytes, taken, log_bytes: killed.log_bytes, lost, findings })
}

impl Subject<'_> {
    fn path(&self) -> PathBuf {
        self.place.path().join("data.hf")
    }

    fn builder(&self) -> Builder {
        let Options { pool_bytes, log_bytes, .. } = *self.options;
        let settings = Settings { log_bytes: Some(log_bytes), ..Settings::pool(pool_bytes) };
        settings.builder().flush_method(FlushMethod::ODirect)
    }

    fn table(&self) -> &Definition {
        &self.tables[0]
    }

    fn load(&self, db: &Database, reached: &Reached) -> Result<()> {
        let mut done = 0;
        db.create_table_with(self.table(), |loader| {
            sysbench::generate(self.options.plan.seed, self.rows, 1..=self.rows, |key, row| {
                done += 1;
                reached.set(done, self.rows.into());
                loader.push(key, row)
            })
        })?;
        // What is left in the cache is a larger share of a smaller table.
        Ok(db.checkpoint()?)
    }

    /// Reads all rows as a dump does.
    fn scan(
        &self,
        db: &Database,
        reached: &Reached,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<u64> {
        let mut seen = 0;
        let mut rows = EmbeddedRows::new(db, &self.tables);
        let mut sink = |key: &[u8], row: &[u8]| {
            each(key, row)?;
            seen += 1;
            reached.set(seen, self.rows.into());
            Ok(true)
        };
        let failed = |f: Failure| anyhow!("the scan: {f}");
        rows.begin(true).map_err(failed)?;
        rows.range(TableNo(0), None, None, Scan::Declared, &mut sink).map_err(failed)?;
        rows.commit().map_err(failed)?;
        Ok(seen)
    }

    /// The number of rows that the dump lacks.
    fn dump(&self, db: &Database, reached: &Reached) -> Result<u64> {
        let seen = self.scan(db, reached, |_, _| Ok(()))?;
        Ok(seen.abs_diff(self.rows.into()))
    }

    /// Adds an index over `k`, as ALTER TABLE does.
    fn add_index(&self, db: &RawDatabase, reached: &Reached) -> Result<()> {
        let mut alter = db.begin_alter(TABLE, &[(ADDED, false)], false, Duration::ZERO)?;
        let mut entry = Vec::new();
        self.scan(db.database(), reached, |key, row| {
            let k = sysbench::index_key(row).ok_or_else(|| Failure::fatal("a row without k"))?;
            entry.clear();
            entry.extend_from_slice(&k);
            entry.extend_from_slice(key);
            // The value is the length of the index key.
            alter.push(0, &entry, entry.len(), &[k.len() as u8]).map_err(Failure::fatal)
        })?;
        alter.finish()?;
        alter.become_table(&[IndexSource::Kept(1), IndexSource::Added(0)], &[])?;
        db.commit_alters(&mut [&mut alter], &[], Duration::ZERO)?;
        Ok(db.database().checkpoint()?)
    }

    /// Updates random rows until the log has its usual age, then refuses every change of a file. A
    /// transaction has changed rows and has not ended.
    fn update_and_kill(&self, reached: &Reached) -> Result<Killed> {
        let disk = FaultDisk::new(Arc::new(FileDisk::create(self.path(), FlushMethod::ODirect)?));
        let db = self.builder().disk(Arc::new(disk.clone())).open(self.path())?;
        let mut rng = Rng::for_part(self.options.plan.seed, u64::from(self.rows) + 1);
        let mut changed = HashSet::new();
        let began = db.stats().log.lsn;
        loop {
            let log = db.stats().log;
            let age = (log.capacity_bytes as f64 * USUAL_AGE) as u64;
            reached.set(log.age_bytes, age);
            if log.age_bytes >= age || log.lsn - began >= LAPS * log.capacity_bytes {
                break;
            }
            let ids: Vec<u32> = (0..UPDATES).map(|_| 1 + rng.below(self.rows.into()) as u32).collect();
            self.update(&db, ids.iter().copied(), 1)?.commit_with(FlushAtCommit::Lazy)?;
            changed.extend(ids);
        }
        let unfinished = self.update(&db, 1..=UNFINISHED.min(self.rows / 2), 2)?;
        // It makes durable what came before it, that of the unfinished transaction as well.
        self.update(&db, [self.rows].into_iter(), 1)?.commit_with(FlushAtCommit::Sync)?;
        changed.insert(self.rows);
        let log_bytes = db.stats().log.age_bytes;
        use FaultOp::{Open, Remove, Rename, SetLen, Sync, SyncDir, Write};
        for op in [Write, Sync, SetLen, Open, Remove, Rename, SyncDir] {
            disk.schedule(Fault::nth(op, 1).sticky());
        }
        drop(unfinished);
        drop(db);
        Ok(Killed { changed, log_bytes })
    }

    /// Gives rows the content of a version.
    fn update(&self, db: &Database, ids: impl Iterator<Item = u32>, version: u64) -> Result<WriteTransaction> {
        let txn = db.begin_write()?;
        {
            let table = txn.open_table(self.table())?;
            for id in ids {
                let found = table.update(&sysbench::key(id), &self.row(id, version))?;
                ensure!(found, "row {id} is not there");
            }
        }
        Ok(txn)
    }

    /// A row: as it was loaded (0), changed (1), changed by the transaction that does not end (2).
    fn row(&self, id: u32, version: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        SbRow::initial(self.options.plan.seed.wrapping_add(version), id, self.rows)
            .encode(&sysbench::schema(), &mut bytes);
        bytes
    }

    /// The number of rows that are not there, or not as the last commit left them.
    fn wrong(&self, db: &Database, killed: &Killed, reached: &Reached) -> Result<u64> {
        let mut wrong = 0;
        let seen = self.scan(db, reached, |key, row| {
            let id = sysbench::id_of(key)?;
            let version = u64::from(killed.changed.contains(&id));
            wrong += u64::from(self.row(id, version) != row);
            Ok(())
        })?;
        Ok(wrong + seen.abs_diff(self.rows.into()))
    }
}

/// The number of findings.
fn check(db: &Database, reached: &Reached) -> Result<u64> {
    let report = db.verify(&VerifyOptions::default(), &mut |p| reached.set(p.pages_done, p.pages_total))?;
    Ok(findings_of(&report))
}

/// The number of findings. What was left out may be wrong.
fn findings_of(report: &VerifyReport) -> u64 {
    (report.findings.len() + report.unchecked().count()) as u64
}

fn drop_index(db: &RawDatabase) -> Result<()> {
    let mut alter = db.begin_alter(TABLE, &[], false, Duration::ZERO)?;
    alter.become_table(&[IndexSource::Kept(1)], &[])?;
    db.commit_alters(&mut [&mut alter], &[], Duration::ZERO)?;
    Ok(db.database().checkpoint()?)
}

fn back_up(db: &Database, copy: &Path, reached: &Arc<Reached>) -> Result<()> {
    let reached = Arc::clone(reached);
    let options = BackupOptions::new().on_progress(move |p| reached.set(p.bytes_done, p.bytes_total));
    db.backup(copy, &options)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use holdfast::io::{FileKind, OpenOptions};

    use super::*;
    use crate::rig::site::{DiskKind, Site};
    use crate::rig::tables::{Content, TableSpec};

    /// It *held* that the checks find nothing where a table was not checked.
    #[test]
    fn what_a_check_left_out_counts_as_a_finding() {
        let tables = [TableSpec { name: TABLE, seed: 1, content: Content::Sbtest(2_000) }];
        let site = Site::load(&DiskKind::Memory, &tables, &mut Progress::hidden()).unwrap();
        let (disk, file) = (site.disk(), site.file(TABLE).unwrap());
        let name = disk.list().unwrap().into_iter().find(|name| name.ends_with(file)).unwrap();
        let file = disk.open(&name, OpenOptions::new(FileKind::Meta)).unwrap();
        file.write_at(file.len().unwrap() / 2, &[0xee; 4096]).unwrap();
        let db = site.open(&Settings::pool(16 << 20)).unwrap();
        let mut report = db.verify(&VerifyOptions::default(), &mut |_| ()).unwrap();
        let found = report.findings.len() as u64;
        assert_ne!(found, 0);
        assert_eq!(findings_of(&report), found);
        report.refused = std::mem::take(&mut report.findings);
        assert_eq!(findings_of(&report), found);
    }
}
