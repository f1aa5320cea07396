//! The experiment on private servers: every engine, warm and cold, in turns with the same engine
//! whose pool holds both tables. The parts of a run are those of the `scenario` on the embedded
//! engine.
//!
//! Server and clients have cores of their own. OLTP and dump share the server's, so their
//! throughput shows the effect of the cache only against the *ceiling*: the same engine, the same
//! load, the same cores, a pool that holds both tables. Holdfast has many short turns. The others
//! have few long ones, since `old_blocks_time` goes on while their clients are stopped.

use std::time::Duration;

use anyhow::{Context, Result};
use holdfast_server::{Cache, apt};
use holdfast_testkit::DiskModel;
use mysql::prelude::Queryable;

use super::outcome::ContenderOutcome;
use crate::bench::{Mark, Window};
use crate::experiments::sideload::outcome::{Outcome, Warmth};
use crate::experiments::sideload::scale::Scale;
use crate::experiments::sideload::warming::Warming;
use crate::experiments::sideload::{BIG, HOT, Start, shares};
use crate::measure::median;
use crate::pin::Cores;
use crate::progress::Progress;
use crate::server::contender::Contender;
use crate::server::data::{self, SCHEMA};
use crate::server::instance::{Instance, Spec};
use crate::server::load::Oltp;
use crate::server::own::OwnServer;
use crate::server::slow_disk::SlowDisk;
use crate::target::Resident;
use crate::turns::{Rounds, in_turns};

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    pub scale: Scale,
    pub contenders: Vec<Contender>,
    pub oltp: Oltp,
    pub times: Times,
    /// True if the servers that are measured run on the modelled disk.
    pub modelled: bool,
    /// Cores.
    pub cores: Cores,
}

impl Options {
    /// The modelled disk, if there is one.
    pub(super) fn disk(&self) -> Option<DiskModel> {
        self.modelled.then(|| self.scale.disk())
    }
}

/// The durations.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A turn of Holdfast.
    pub turn: Duration,
    /// Its turns, and as many of the ceiling.
    pub rounds: Rounds,
    /// The time for which OLTP is measured alone.
    pub alone: Duration,
    /// The longest time in which a hot table may become resident.
    pub patience: Duration,
}

impl Times {
    /// The number of turns of a contender, their length, and the length of the ceiling's.
    fn turns(&self, contender: Contender) -> (Rounds, Duration, Duration) {
        match contender {
            Contender::Holdfast => (self.rounds, self.turn, self.turn),
            Contender::InnoDb { .. } | Contender::MyRocks => {
                let all = self.turn.mul_f64(self.rounds.least as f64);
                (Rounds { least: 2, most: 2 }, all / 3, all / 4)
            }
        }
    }
}

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Vec<ContenderOutcome>> {
    let cache = Cache::of_the_project();
    progress.step("building the engine for the server");
    holdfast_server::build(&cache).context("the engine for the server could not be built")?;
    apt::fetch_sysbench(&cache)?;
    let mut outcomes = Vec::new();
    let mut rest = options.contenders.as_slice();
    while let Some(first) = rest.first() {
        // Contenders of one engine have one set of data, and one ceiling.
        let same = rest.iter().take_while(|c| c.engine() == first.engine()).count();
        let (these, others) = rest.split_at(same);
        rest = others;
        let stage = Stage { cache: &cache, options };
        let result = stage.engine(these, progress, &mut outcomes);
        stage.server(OWN).remove()?;
        stage.server(CEILING).remove()?;
        result.with_context(|| first.to_string())?;
    }
    Ok(outcomes)
}

/// Folders of the two servers in the cache folder.
const OWN: &str = "lab/own";
const CEILING: &str = "lab/ceiling";

struct Stage<'a> {
    cache: &'a Cache,
    options: &'a Options,
}

/// The measurements in turns.
struct Turns {
    own: Vec<Window>,
    ceiling: Vec<Window>,
    hot_reads: Option<u64>,
    young: Option<(u64, u64)>,
    dumped_rows: f64,
}

impl<'a> Stage<'a> {
    fn server(&self, folder: &str) -> OwnServer<'a> {
        OwnServer::private(self.cache, folder)
    }

    /// The disk of the servers that are measured, if it is modelled.
    fn disk(&self) -> Option<SlowDisk> {
        self.options.disk().map(|model| SlowDisk { model, later: false })
    }

    /// Starts the server whose pool holds the tables. It is on the modelled disk too, though it
    /// reads nothing: supervision costs a program time at each of its system calls.
    fn start_ceiling(&self, contender: Contender) -> Result<Instance<'a>> {
        self.start((CEILING, self.disk()), contender, self.options.scale.ceiling_bytes(), false)
    }

    /// Starts the server whose pool does not hold them.
    fn start_own(&self, contender: Contender) -> Result<Instance<'a>> {
        self.start((OWN, self.disk()), contender, self.options.scale.pool_bytes(), true)
    }

    fn start(
        &self,
        (folder, disk): (&str, Option<SlowDisk>),
        contender: Contender,
        pool_bytes: u64,
        listed: bool,
    ) -> Result<Instance<'a>> {
        let (mut server, cores) = (self.server(folder), &self.options.cores);
        let started = server.start(&contender.options(pool_bytes, self.options.scale.size), cores, disk);
        started.with_context(|| format!("start a server for {contender}"))?;
        let spec = Spec { contender, pool_bytes, big_rows: self.options.scale.big_rows(), listed };
        Instance::of_own(self.cache, cores, server, &spec)
    }

    /// Measures all contenders of one engine.
    fn engine(
        &self,
        contenders: &[Contender],
        progress: &mut Progress,
        outcomes: &mut Vec<ContenderOutcome>,
    ) -> Result<()> {
        let Some(&first) = contenders.first() else { return Ok(()) };
        self.load(first, progress)?;
        progress.step(&format!("{first}: the ceiling"));
        let mut ceiling = self.start_ceiling(first)?;
        fill_the_pool(&mut ceiling)?;
        for &contender in contenders {
            for start in [Start::Warm, Start::Cold] {
                let own = self.start_own(contender)?;
                progress.step(&format!("{contender}, {}", start.name()));
                let mut run = Run { options: self.options, contender, own, ceiling: Some(&mut ceiling), progress };
                outcomes.push(match start {
                    Start::Warm => run.warm()?,
                    Start::Cold => run.cold()?,
                });
            }
        }
        Ok(())
    }

    /// Loads the tables with the engine, in two copies.
    fn load(&self, contender: Contender, progress: &mut Progress) -> Result<()> {
        let scale = self.options.scale;
        progress.step(&format!("{}: loading the tables", contender.engine()));
        let (server, copy) = (self.server(OWN), self.server(CEILING));
        server.remove()?;
        copy.remove()?;
        let mut instance = self.start((OWN, None), contender, scale.ceiling_bytes(), false)?;
        let conn = instance.probe.conn();
        conn.query_drop(format!("CREATE DATABASE {SCHEMA}"))?;
        conn.query_drop(format!("USE {SCHEMA}"))?;
        let rows = [scale.hot_rows(), scale.big_rows()];
        let mut told = |done| progress.show(&format!("{done} of {} rows", rows[0] + rows[1]));
        data::load(conn, contender.engine(), self.options.oltp.seed, rows, &mut told)?;
        for statement in contender.settle() {
            conn.query_drop(statement)?;
        }
        instance.shut_down()?;
        server.copy_data_to(&copy)
    }
}

/// Reads everything once.
fn fill_the_pool(ceiling: &mut Instance<'_>) -> Result<()> {
    let conn = ceiling.probe.conn();
    for table in [BIG, HOT] {
        for index in ["PRIMARY", "k"] {
            let column = if index == "k" { "k" } else { "LENGTH(pad)" };
            let sql = format!("SELECT SUM({column}) FROM {SCHEMA}.{table} FORCE INDEX ({index})");
            conn.query_drop(sql)?;
        }
    }
    Ok(())
}

const WARMING: &str = "OLTP warms up";
const COLD: &str = "cold start beside the dump";
const BESIDE: &str = "OLTP beside the dump";

/// One contender, warm or cold.
pub(super) struct Run<'r, 'a> {
    pub(super) options: &'r Options,
    pub(super) contender: Contender,
    pub(super) own: Instance<'a>,
    /// The server whose pool holds both tables, if there is one.
    pub(super) ceiling: Option<&'r mut Instance<'a>>,
    pub(super) progress: &'r mut Progress,
}

impl Run<'_, '_> {
    pub(super) fn warm(&mut self) -> Result<ContenderOutcome> {
        let dump_alone = self.dump_alone()?;
        self.own.stop_dump();
        self.own.start_oltp(&self.options.oltp)?;
        let warmth = self.warm_up(WARMING)?;
        let (from, to) = self.own.run("OLTP alone", self.options.times.alone, self.progress)?;
        let tps_alone = to.since(&from).tps;
        let before = self.own.resident()?;
        self.own.start_dump();
        self.beside(Start::Warm, (Some(tps_alone), dump_alone), warmth, before)
    }

    pub(super) fn cold(&mut self) -> Result<ContenderOutcome> {
        let dump_alone = self.dump_alone()?;
        let before = self.own.resident()?;
        self.own.start_oltp(&self.options.oltp)?;
        let warmth = self.warm_up(COLD)?;
        self.beside(Start::Cold, (None, dump_alone), warmth, before)
    }

    /// The common part of both starts: the turns beside the dump, and the time after the dump.
    fn beside(
        &mut self,
        start: Start,
        alone: (Option<f64>, f64),
        warmth: Warmth,
        before: Vec<Resident>,
    ) -> Result<ContenderOutcome> {
        self.own.take_p95();
        let turns = self.turns()?;
        let p95 = self.own.take_p95();
        let during = self.own.resident()?;
        self.own.stop_dump();
        self.own.run("OLTP after the dump", self.options.times.alone, self.progress)?;
        let after = self.own.resident()?;
        Ok(self.outcome(start, alone, warmth, turns, &p95, [before, during, after]))
    }

    /// Runs one whole dump, which turns the pool over. The next dump continues from there. Returns
    /// its bytes per second.
    fn dump_alone(&mut self) -> Result<f64> {
        self.own.start_dump();
        let until = &mut |own: &Instance<'_>, _: &Mark| own.dumps() >= 1;
        let (from, to, ended) = self.own.run_until("the dump alone", LONGEST_DUMP, self.progress, until)?;
        anyhow::ensure!(ended, "one dump takes longer than {} s", LONGEST_DUMP.as_secs());
        // The next dump has begun meanwhile; half an interval of it is little against the whole.
        self.own.learn_length(to.dumped - from.dumped);
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.learn_length(to.dumped - from.dumped);
        }
        Ok(to.since(&from).dumped_per_s)
    }

    /// Runs until the hot table is warm, or until the longest time has passed; then until it is
    /// whole, for a quarter of that time.
    fn warm_up(&mut self, phase: &str) -> Result<Warmth> {
        let (patience, rows) = (self.options.times.patience, self.options.scale.hot_rows());
        let mut warming = Warming::new(&self.own.mark()?.counters);
        let until = &mut |_: &Instance<'_>, mark: &Mark| warming.add(&mark.counters);
        let (from, to, reached) = self.own.run_until(phase, patience, self.progress, until)?;
        let until = &mut |_: &Instance<'_>, mark: &Mark| {
            warming.add(&mark.counters);
            warming.is_whole(rows)
        };
        let whole = reached && self.own.run_until(phase, patience / 4, self.progress, until)?.2;
        Ok(Warmth { seconds: to.t - from.t, reads: to.hot_reads_since(&from), reached, whole })
    }

    /// Runs OLTP and dump in turns with the ceiling.
    fn turns(&mut self) -> Result<Turns> {
        let (rounds, length, ceiling_length) = self.options.times.turns(self.contender);
        // Both begin with effects that only a start has.
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.start_oltp(&self.options.oltp)?;
            ceiling.start_dump();
            ceiling.run(BESIDE, SETTLE, self.progress)?;
        }
        self.own.run(BESIDE, SETTLE, self.progress)?;
        let start = self.own.mark()?;
        let sides = if self.ceiling.is_some() { 2 } else { 1 };
        let turn = |side| {
            let (instance, length) = match &mut self.ceiling {
                Some(ceiling) if side == 1 => (&mut **ceiling, ceiling_length),
                _ => (&mut self.own, length),
            };
            let (from, to) = instance.run(BESIDE, length, self.progress)?;
            Ok(to.since(&from))
        };
        let decided = |turns: &[Vec<Window>]| match turns {
            [own, ceiling] => shares::decided(own, ceiling),
            _ => true,
        };
        let mut turns = in_turns(sides, rounds, turn, decided)?.into_iter();
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.stop_oltp();
            ceiling.stop_dump();
        }
        let end = self.own.mark()?;
        Ok(Turns {
            own: turns.next().unwrap_or_default(),
            ceiling: turns.next().unwrap_or_default(),
            hot_reads: end.hot_reads_since(&start),
            young: end.young_since(&start),
            dumped_rows: self.own.rows((end.dumped - start.dumped) as f64),
        })
    }

    fn outcome(
        &mut self,
        start: Start,
        (tps_alone, dump_alone): (Option<f64>, f64),
        warmth: Warmth,
        turns: Turns,
        p95: &[f64],
        resident: [Vec<Resident>; 3],
    ) -> ContenderOutcome {
        let scale = self.options.scale;
        let tps = |windows: &[Window]| windows.iter().map(|w| w.tps).collect();
        let seconds = |windows: &[Window]| windows.iter().map(|w| self.own.dump_seconds(w.dumped_per_s)).collect();
        let (samples, phases) = self.own.series();
        let of = Outcome {
            subject: self.contender.to_string(),
            start,
            rate: self.options.oltp.rate,
            tps_alone,
            dump_s_alone: Some(self.own.dump_seconds(dump_alone)),
            dump_s_beside: seconds(&turns.own),
            ceiling_dump_s: seconds(&turns.ceiling),
            tps_beside: tps(&turns.own),
            ceiling_tps: tps(&turns.ceiling),
            p95_ms: median(p95),
            hot_reads: turns.hot_reads,
            turnovers: turns.dumped_rows / f64::from(scale.hot_rows()),
            warmth: Some(warmth),
            young: turns.young,
            resident,
            pool_mb: scale.pool_bytes() as f64 / 1e6,
            samples: samples.to_vec(),
            phases: phases.to_vec(),
        };
        ContenderOutcome { contender: self.contender, of }
    }
}

/// The time that the clients need to start, before they are measured.
const SETTLE: Duration = Duration::from_millis(500);
/// Longer than any dump of the experiment on a working disk.
const LONGEST_DUMP: Duration = Duration::from_secs(1800);
