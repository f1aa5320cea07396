//! The engine in this process.

use std::ops::Bound;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holdfast::{Database, ReadOptions, ReadTransaction};
use holdfast_workload::dbstress::{self, Table};

use super::meters::{self, Meter, Values};
use super::{Second, Series, Subject, Turn};
use crate::figures::Chart;
use crate::progress::Progress;
use crate::rig::sampler::{Sample, Sampler};
use crate::rig::sessions::{DBSTRESS_CLASSES, dbstress as sessions};
use crate::rig::site::{Settings, Site};
use crate::server::turns::workload::Workload;

/// An open database under dbSTRESS.
pub struct Embedded {
    series: Series,
    site: Site,
    db: Database,
    sampler: Sampler,
    snapshot: Option<Snapshot>,
}

/// The sessions of a turn, and the seed of the first turn.
#[derive(Clone, Copy, Debug)]
pub struct Sessions {
    options: dbstress::Options,
    seed: u64,
}

impl Embedded {
    /// Opens the database of `site`. The time axis of its own charts begins at `began`.
    ///
    /// # Errors
    /// Those of [`Site::open`].
    pub fn open(name: &str, site: Site, settings: &Settings, began: Instant) -> Result<Embedded> {
        let db = site.open(settings)?;
        let sampler = Sampler::since(&db, began);
        Ok(Embedded { series: Series::new(name), site, db, sampler, snapshot: None })
    }

    /// Opens another database in its place; its turns go on.
    ///
    /// # Errors
    /// Those of [`Site::open`].
    pub fn reopen(&mut self, site: Site, settings: &Settings) -> Result<()> {
        self.db = site.open(settings)?;
        self.sampler.follow(&self.db);
        self.site = site;
        Ok(())
    }
}

impl Subject for Embedded {
    type Work = Sessions;

    fn series(&self) -> &Series {
        &self.series
    }

    fn series_mut(&mut self) -> &mut Series {
        &mut self.series
    }

    fn work(&self, workload: Workload, sessions: u32, rw_ratio: u32, seed: u64) -> Result<Sessions> {
        match workload {
            Workload::DbStress { objects } => {
                Ok(Sessions { options: dbstress::Options::light(objects, sessions, rw_ratio), seed })
            }
            Workload::Dbt2 { .. } => bail!("the embedded engine has no tables of dbt2; --target mariadb has"),
        }
    }

    fn turn(&mut self, work: &Sessions, phase: &str, duration: Duration, progress: &mut Progress) -> Result<Turn> {
        self.series.turns += 1;
        let load = sessions(&self.db, &self.site, work.options, work.seed + self.series.turns);
        let (from, began) = (self.sampler.samples.len(), self.sampler.now());
        let turn = self.sampler.run(phase, &load, duration, progress)?;
        let second = |s: &Sample| Second { t: self.series.ran + s.t - began, values: values(s) };
        let each: Vec<Second> = self.sampler.samples[from..].iter().map(second).collect();
        let turn = Turn {
            seconds: turn.seconds,
            transactions: turn.transactions as f64,
            cpu_seconds: Some(turn.cpu_seconds),
            values: meters::over(each.iter().map(|s| &s.values)),
            latencies: turn.latencies,
            p95_ms: Vec::new(),
            each,
        };
        self.series.add(phase, &turn);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.mark_changed(&self.db, &self.site)?;
        }
        Ok(turn)
    }

    fn memory_mb(&self) -> Option<f64> {
        None
    }

    fn hold_snapshot(&mut self) -> Result<()> {
        self.snapshot = Some(Snapshot { transaction: self.db.begin_read()?, changed: Vec::new() });
        Ok(())
    }

    fn rows_changed(&mut self) -> Result<u64> {
        let snapshot = self.snapshot.take().context("no snapshot is held")?;
        Ok(snapshot.changed.iter().filter(|changed| **changed).count() as u64)
    }

    fn fill_log(&mut self, work: &Sessions, lap: f64, progress: &mut Progress) -> Result<bool> {
        self.site.set_slow(false);
        let (began, mut written) = (Instant::now(), 0.0);
        while written < LAPS * lap && began.elapsed() < FILLING_MAX {
            let turn = self.warm_up(work, Duration::from_secs(1), progress)?;
            written += turn.values[Meter::Log as usize].unwrap_or(0.0) * turn.seconds;
        }
        self.site.set_slow(true);
        Ok(written >= LAPS * lap)
    }

    fn sync_beside(&mut self) -> Result<()> {
        match self.site.path() {
            Some(path) => self.sampler.sync_beside(path.parent().unwrap_or(path)),
            None => Ok(()),
        }
    }

    fn charts(&self) -> Vec<Chart> {
        self.sampler.charts(self.name(), DBSTRESS_CLASSES)
    }
}

/// Laps of the log at memory speed: one, and one more, by which the first changes of the dirty
/// pages are spread evenly over it. And the longest time for them.
const LAPS: f64 = 2.0;
const FILLING_MAX: Duration = Duration::from_secs(60);

/// The meters of a sample.
fn values(sample: &Sample) -> Values {
    let mut values = [None; Meter::ALL.len()];
    let known = [
        (Meter::Commits, sample.tps),
        (Meter::History, sample.history as f64),
        (Meter::Versions, sample.versions as f64),
        (Meter::Age, sample.age_bytes as f64),
        (Meter::Log, sample.log_bytes_per_s),
        (Meter::Free, sample.free_pages as f64),
        (Meter::Dirty, sample.dirty_pages as f64),
        (Meter::Reads, sample.reads_per_s),
        (Meter::Writes, sample.writes_per_s),
    ];
    known.into_iter().for_each(|(meter, value)| values[meter as usize] = Some(value));
    values[Meter::Syncs as usize] = sample.syncs_per_s;
    values
}

/// A transaction that reads the state of its beginning.
struct Snapshot {
    transaction: ReadTransaction,
    /// For each row of HISTORY, whether it has differed at the end of a turn. At the end of the
    /// last turn alone, some rows have by chance the value that the snapshot sees.
    changed: Vec<bool>,
}

impl Snapshot {
    /// Marks the rows of HISTORY, in their order, that differ between it and the newest state. Both
    /// always have the same rows.
    fn mark_changed(&mut self, db: &Database, site: &Site) -> Result<()> {
        let definition = &site.tables()[Table::History.number().0];
        let new = db.begin_read()?;
        let (old, new) = (self.transaction.open_table(definition)?, new.open_table(definition)?);
        let all = (Bound::<&[u8]>::Unbounded, Bound::<&[u8]>::Unbounded);
        let (mut before, mut after) = (old.cursor(&ReadOptions::default()), new.cursor(&ReadOptions::default()));
        before.seek(all)?;
        after.seek(all)?;
        let (mut keys, mut rows) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for at in 0.. {
            if !before.next_into(&mut keys[0], &mut rows[0])? {
                break;
            }
            ensure!(
                after.next_into(&mut keys[1], &mut rows[1])? && keys[0] == keys[1],
                "the snapshot has other rows of HISTORY than the newest state: an UPDATE changes no key"
            );
            if at == self.changed.len() {
                self.changed.push(false);
            }
            self.changed[at] |= rows[0] != rows[1];
        }
        Ok(())
    }
}
