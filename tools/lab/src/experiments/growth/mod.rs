//! `growth`: what does each maintenance operation cost per GB as the database grows, with a cache
//! that stays the same?
//!
//! Loading, reading, checking, indexing, copying and restoring a table take time in proportion to
//! its size, and a fixed amount of memory. What does not (a sort that has to be in memory, a list
//! of all pages, a search per row) is not noticed with a small table. So every size is larger than
//! the cache, and each step of the largest is compared with the same of the smallest.
//!
//! 1. `load`: the table is created with its rows, in the order of their keys, and its index `k`, as
//!    `ALTER TABLE ... ENGINE` fills a table. (An INSERT into a table with an index over random
//!    values costs a read and a write of a page once the index is larger than the cache, in every
//!    B-tree.)
//! 2. `dump`: every row is read by a declared scan.
//! 3. `check`: every page, row and entry.
//! 4. `index`: a second index is added in place, as ALTER TABLE ... ADD INDEX does it, and dropped
//!    afterwards.
//! 5. `backup`, and 6. `restore` of the copy, which checks it.
//! 7. `recovery`: random updates run until the log has its usual age, then the disk refuses every
//!    change (`FaultDisk`). The files stay as a kill would leave them, with a transaction that has
//!    not ended. The open is timed. It depends on the log alone, so it is judged in seconds.
//!
//! On private servers, one after the other, the same is done by SQL with a table without a second
//! index: INSERT ... SELECT, a SELECT of all rows, CHECK TABLE, ALTER TABLE ... ADD INDEX, and a
//! start after SIGKILL. There is no backup, and so no restore.
//!
//! The memory of a step is the peak of the process. Filling an index sorts entries in a buffer,
//! which small sizes do not fill, and an allocator keeps what was freed; the bar leaves room for
//! what the smallest size leaves of that buffer.

mod outcome;
mod plan;
mod server;
mod subject;
mod watch;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::args::rig::RigArgs;
use crate::document::{Document, merged};
use crate::figures::Figures;
use crate::machine::Machine;
use crate::progress::Progress;
use crate::server::contender::Engine;
use crate::server::turns::side::Side;
use crate::server::turns::{self, engine_name};
use outcome::Size;
use plan::{EMBEDDED, GB, Options};

/// Files at the most, by the size of the table: the table with two indexes, and a copy of it.
const FILES: f64 = 2.3;

const TITLE: &str = "Maintenance as the database grows";

/// Runs the experiment.
pub(crate) fn run(args: &RigArgs, progress: &mut Progress) -> Result<Document> {
    let options = Options::of(args);
    args.common.ensure_has_choice(&args.engines)?;
    let is_here = |engine: &Engine| !matches!(engine, Engine::Released(_));
    ensure!(
        args.engines.iter().all(is_here),
        "growth runs on engines of the distribution's server, which makes its rows"
    );
    if args.embedded() { embedded(&options, progress) } else { args.judged(on_servers(&options, progress)) }
}

/// Runs the experiment on the embedded engine, unless the disk has too little room, which is known
/// before anything is written.
fn embedded(options: &Options, progress: &mut Progress) -> Result<Document> {
    check_sizes(options, &options.plan.dir)?;
    let sizes = each_size(options, |mib, before| subject::measure(options, mib, before, progress))?;
    let disk = options.plan.files();
    let settings =
        settings(options, json!({ "workload": "sysbench rows with an index on k", "disk": disk.describe() }));
    let mut document = Document::new("growth", settings, Machine::this(Some(&options.plan.dir)));
    document.title = TITLE.to_owned();
    document.runs = sizes.iter().map(|size| outcome::document_run("embedded", EMBEDDED, size)).collect();
    document.claims = outcome::claims(&sizes);
    let charts = vec![("By the size of the table".to_owned(), outcome::charts(&sizes))];
    let what =
        format!("sysbench rows with an index, of {} MiB, on files in {}", listed(options), options.plan.dir.display());
    let (lead, grids) = (lead(options, &what), outcome::grids("", &sizes));
    Ok(document.with_figures(Figures { lead, grids, charts, ..Figures::default() }))
}

/// Runs the experiment on private servers, one after the other. The first engine is judged.
fn on_servers(options: &Options, progress: &mut Progress) -> Result<Document> {
    let root = holdfast_server::run::root();
    let largest = options.mib.iter().max().copied().unwrap_or(0);
    ensure!(
        largest <= server::MOST_MIB,
        "growth on a server takes tables of {} MiB at most, whose rows have numbers in an INT; --mib has {largest}",
        server::MOST_MIB
    );
    check_sizes(options, &root)?;
    let cache = turns::equip(progress)?;
    let mut document = Document::new("growth-mariadb", Value::Null, Machine::this(Some(&root)));
    let (mut grids, mut charts) = (Vec::new(), Vec::new());
    for &contender in &options.plan.contenders {
        let name = engine_name(contender);
        let sizes = each_size(options, |mib, before| {
            let mut side = Side::private(&cache, &options.plan.cores, &name, contender)?;
            server::measure(&mut side, options, mib, before, progress)
        })?;
        document.runs.extend(sizes.iter().map(|size| outcome::document_run("mariadb", &name, size)));
        if grids.is_empty() {
            document.claims = outcome::claims(&sizes);
        }
        grids.extend(outcome::grids(&format!(", {name}"), &sizes));
        charts.push((format!("By the size of the table, {name}"), outcome::charts(&sizes)));
    }
    document.title = format!("{TITLE}, on a server");
    let names: Vec<String> = options.plan.contenders.iter().map(|one| engine_name(*one)).collect();
    let workload =
        json!({ "workload": "sysbench rows", "engines": names.join(", "), "pinned": options.plan.cores.pins() });
    document.settings = settings(options, workload);
    let what = format!("sysbench rows of {} MiB, on private servers", listed(options));
    Ok(document.with_figures(Figures { lead: lead(options, &what), grids, charts, ..Figures::default() }))
}

fn check_sizes(options: &Options, dir: &Path) -> Result<()> {
    ensure!(
        options.mib.len() > 1 && options.mib.is_sorted_by(|a, b| a < b),
        "growth compares sizes: --mib takes at least two, ascending"
    );
    check_room(dir, room_needed(options))
}

/// Measures all sizes; each is told what was measured of the next smaller one.
fn each_size(options: &Options, mut measure: impl FnMut(u64, Option<&Size>) -> Result<Size>) -> Result<Vec<Size>> {
    let mut sizes: Vec<Size> = Vec::new();
    for &mib in &options.mib {
        let measured = measure(mib, sizes.last())?;
        sizes.push(measured);
    }
    Ok(sizes)
}

/// Bytes of files at the most.
fn room_needed(options: &Options) -> u64 {
    let largest = options.mib.iter().max().copied().unwrap_or(0) << 20;
    (largest as f64 * FILES) as u64 + 2 * options.log_bytes
}

/// Refuses to begin if the file system of `dir` has less than `needed` bytes.
fn check_room(dir: &Path, needed: u64) -> Result<()> {
    let stat = rustix::fs::statvfs(dir).with_context(|| format!("free space of {}", dir.display()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let gb = |bytes: u64| bytes as f64 / GB;
    ensure!(
        free >= needed,
        "growth needs {:.1} GB in {}, which has {:.1} GB free; --mib takes smaller sizes, and --dir chooses \
         another directory for the embedded engine",
        gb(needed),
        dir.display(),
        gb(free)
    );
    Ok(())
}

/// The sizes in texts.
fn listed(options: &Options) -> String {
    options.mib.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

fn lead(options: &Options, what: &str) -> String {
    let pool = options.pool_bytes >> 20;
    format!("A table of {what}, with a cache of {pool} MiB: what each operation on all of it takes per GB.")
}

/// The settings of a document: those of all targets, and `own`.
fn settings(options: &Options, own: Value) -> Value {
    let common = json!({
        "mib": options.mib,
        "pool_bytes": options.pool_bytes,
        "log_capacity_bytes": options.log_bytes,
        "seed": options.plan.seed,
    });
    merged(own, common)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::turns::Plan;

    /// It was noticed when that table began, after the smaller ones.
    #[test]
    fn a_table_whose_rows_have_no_numbers_is_refused_before_anything_is_started() {
        let options = Options { plan: Plan::default(), mib: vec![1, 1 << 20], pool_bytes: 8 << 20, log_bytes: 4 << 20 };
        let error = on_servers(&options, &mut Progress::hidden()).unwrap_err().to_string();
        assert!(error.starts_with("growth on a server takes tables of 450559 MiB"), "{error}");
    }

    #[test]
    fn a_disk_without_room_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { dir: dir.path().to_owned(), ..Plan::default() };
        let options = Options { plan, mib: vec![1, 1 << 40], pool_bytes: 8 << 20, log_bytes: 4 << 20 };
        let error = embedded(&options, &mut Progress::hidden()).unwrap_err().to_string();
        assert!(error.starts_with("growth needs ") && error.contains(" GB free"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = embedded(&Options { mib: vec![2, 1], ..options }, &mut Progress::hidden()).unwrap_err().to_string();
        assert!(error.contains("ascending"), "{error}");
    }
}
