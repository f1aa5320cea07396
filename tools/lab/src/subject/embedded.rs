//! The engine in this process.

use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holdfast::{Database, ReadOptions, ReadTransaction};
use holdfast_workload::dbstress::{self, Table};

use super::meters::{Meter, Values};
use super::{Second, Series, Subject, Turn};
use crate::pin;
use crate::progress::Progress;
use crate::rig::control;
use crate::rig::sampler::Sampler;
use crate::rig::sessions::Sessions;
use crate::rig::site::{Settings, Site};
use crate::server::turns::workload::Workload;

/// An open database under dbSTRESS, or the control of one.
pub struct Embedded {
    series: Series,
    site: Arc<Site>,
    db: Database,
    sampler: Sampler,
    snapshot: Option<Snapshot>,
    group: u64,
    /// For the control of an engine: how long its price is measured.
    pricing: Option<Duration>,
    /// The last price, and the sessions whose it is.
    priced: Option<(Sessions, f64)>,
}

/// The sessions of a turn, and the seed of the first turn.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub sessions: Sessions,
    pub seed: u64,
}

impl Embedded {
    /// Opens the database of `site`.
    pub fn open(name: &str, site: impl Into<Arc<Site>>, settings: &Settings) -> Result<Embedded> {
        let site = site.into();
        let db = site.open(settings)?;
        Ok(Embedded::of(name, site, db))
    }

    fn of(name: &str, site: Arc<Site>, db: Database) -> Embedded {
        let (series, sampler) = (Series::new(name), Sampler::new(&db));
        Embedded { series, site, db, sampler, snapshot: None, group: 1, pricing: None, priced: None }
    }

    /// Times that many transactions in a row as one.
    pub fn timed_in_groups_of(self, group: u64) -> Embedded {
        Embedded { group, ..self }
    }

    /// The control of this engine: as many threads as its sessions that use the processor time of
    /// one session's transaction and do nothing else. That time is measured before and after each
    /// turn, for `pricing` each; that after one turn is that before the next.
    pub fn control(&self, name: &str, pricing: Duration) -> Embedded {
        let control = Embedded::of(name, Arc::clone(&self.site), self.db.clone());
        Embedded { group: self.group, pricing: Some(pricing), ..control }
    }

    /// Bytes of the pages in its pool.
    pub fn resident_bytes(&self) -> u64 {
        let (cache, _) = self.db.cache_stats();
        cache.resident_pages * cache.page_size as u64
    }

    /// The frames of its pool.
    pub fn frames(&self) -> usize {
        self.db.cache_stats().0.frames as usize
    }

    /// A turn of the control. The loop is measured before it runs, and on a shared machine the same
    /// loop takes up to twice as long a second later: the figures are converted to those of a loop
    /// that took the intended time.
    fn control_turn(&mut self, work: &Work, duration: Duration, pricing: Duration) -> Result<Turn> {
        let sessions = work.sessions.count();
        let seed = self.series.seed_of_turn(work.seed);
        let mut alone = work.sessions.alone().load(&self.db, &self.site, seed, 1)?;
        // With as many cores at work as in the turns.
        let mut price = || control::price(&mut alone, pin::cores_given().min(sessions) - 1, pricing);
        let known = self.priced.filter(|(sessions, _)| *sessions == work.sessions);
        let before = known.map_or_else(&mut price, |(_, us)| Ok(us))?;
        let turn = control::burners(before, sessions, self.group)?.run(duration, &mut |_| Ok(()))?;
        let after = price()?;
        let price = f64::midpoint(before, after);
        let slower = turn.cpu_us().context("the system reports no processor time")? / price;
        self.priced = Some((work.sessions, after));
        let latencies = turn.latencies.scaled(1.0 / slower);
        let transactions = turn.transactions * slower;
        let mut values = Values::default();
        values[Meter::Commits as usize] = Some(transactions / turn.seconds);
        let each = vec![Second { t: turn.seconds, length: turn.seconds, values, ..Second::default() }];
        Ok(Turn { transactions, values, latencies, each, ..turn })
    }

    fn engine_turn(&mut self, work: &Work, phase: &str, duration: Duration, progress: &mut Progress) -> Result<Turn> {
        let seed = self.series.seed_of_turn(work.seed);
        let mut load = work.sessions.load(&self.db, &self.site, seed, self.group)?;
        let mut turn = self.sampler.run(phase, &mut load, duration, progress, &mut |_| Ok(()))?;
        turn.values[Meter::CoreToCore as usize] = control::core_to_core().map(|figure| figure.median);
        Ok(turn)
    }

    /// Opens another database in its place; its turns go on.
    pub fn reopen(&mut self, site: Site, settings: &Settings) -> Result<()> {
        self.db = site.open(settings)?;
        self.sampler = Sampler::new(&self.db);
        self.site = Arc::new(site);
        Ok(())
    }
}

impl Subject for Embedded {
    type Work = Work;

    fn series(&self) -> &Series {
        &self.series
    }

    fn series_mut(&mut self) -> &mut Series {
        &mut self.series
    }

    fn work(&self, workload: Workload, sessions: u32, rw_ratio: u32, seed: u64) -> Result<Work> {
        match workload {
            Workload::DbStress { objects } => {
                let options = dbstress::Options::light(objects, sessions, rw_ratio);
                Ok(Work { sessions: Sessions::DbStress(options), seed })
            }
            Workload::Dbt2 { .. } => bail!("the embedded engine has no tables of dbt2; --target mariadb has"),
        }
    }

    fn turn(&mut self, work: &Work, phase: &str, duration: Duration, progress: &mut Progress) -> Result<Turn> {
        self.series.turns += 1;
        let turn = match self.pricing {
            Some(pricing) => self.control_turn(work, duration, pricing)?,
            None => self.engine_turn(work, phase, duration, progress)?,
        };
        self.series.add(phase, &turn);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.mark_changed(&self.db, &self.site)?;
        }
        Ok(turn)
    }

    fn hold_snapshot(&mut self) -> Result<()> {
        self.snapshot = Some(Snapshot { transaction: self.db.begin_read()?, changed: Vec::new() });
        Ok(())
    }

    fn rows_changed(&mut self) -> Result<u64> {
        let snapshot = self.snapshot.take().context("no snapshot is held")?;
        Ok(snapshot.changed.iter().filter(|changed| **changed).count() as u64)
    }

    fn fill_log(&mut self, work: &Work, lap: f64, progress: &mut Progress) -> Result<bool> {
        self.site.set_slow(false);
        let (began, mut written) = (Instant::now(), 0.0);
        while written < LAPS * lap && began.elapsed() < FILLING_MAX {
            let turn = self.warm_up(work, Duration::from_secs(1), progress)?;
            written += turn.values[Meter::Log as usize].unwrap_or(0.0) * turn.seconds;
            progress.show_part(((written / 1e6) as u64, (LAPS * lap / 1e6) as u64), "MB of log");
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
}

/// Laps of the log at memory speed: one, and one more, by which the first changes of the dirty
/// pages are spread evenly over it. And the longest time for them.
const LAPS: f64 = 2.0;
const FILLING_MAX: Duration = Duration::from_secs(60);

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
