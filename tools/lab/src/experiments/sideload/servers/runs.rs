//! The experiment on private servers: every engine, warm and cold, in turns with the same engine
//! whose pool holds both tables.
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

use crate::bench::Bench;
use crate::experiments::sideload::outcome::Outcome;
use crate::experiments::sideload::scale::Scale;
use crate::experiments::sideload::scenario::{Beside, Parts, Run};
use crate::experiments::sideload::{BIG, HOT, Start};
use crate::pin::Cores;
use crate::progress::Progress;
use crate::server::contender::{Contender, engine_name};
use crate::server::data::{self, SCHEMA};
use crate::server::instance::{Instance, Spec};
use crate::server::load::Oltp;
use crate::server::options::of_sideload;
use crate::server::own::OwnServer;
use crate::server::slow_disk::SlowDisk;
use crate::turns::Rounds;

/// What a contender has measured.
pub type ContenderOutcome = (Contender, Outcome);

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
            Contender::InnoDb { .. } | Contender::MyRocks | Contender::Released(_) => {
                let all = self.turn.mul_f64(self.rounds.least as f64);
                (Rounds { least: 2, most: 2 }, all / 3, all / 4)
            }
        }
    }

    /// The time of a start of a contender, about: a dump as long as a hot table may take, which
    /// takes half of that, and the turns.
    pub(super) fn of_start(&self, contender: Contender) -> Duration {
        let (rounds, own, ceiling) = self.turns(contender);
        self.patience * 3 / 2 + self.alone * 2 + (own + ceiling) * rounds.least as u32
    }
}

/// Runs the experiment.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Vec<ContenderOutcome>> {
    let cache = Cache::of_the_project();
    progress.step("building the engine for the server");
    holdfast_server::build(&cache).context("the engine for the server could not be built")?;
    apt::fetch_sysbench(&cache)?;
    let mut outcomes = Vec::new();
    progress.plan(options.contenders.iter().map(|&one| options.times.of_start(one) * 2).sum());
    let mut rest = options.contenders.as_slice();
    while let Some(first) = rest.first() {
        // Contenders of one engine of a server have one set of data, and one ceiling.
        let data = |contender: &Contender| (contender.engine(), contender.release());
        let same = rest.iter().take_while(|contender| data(contender) == data(first)).count();
        let (these, others) = rest.split_at(same);
        rest = others;
        let stage = Stage { cache: &cache, options };
        let result = stage.engine(these, progress, &mut outcomes);
        stage.server(OWN, *first)?.remove()?;
        stage.server(CEILING, *first)?.remove()?;
        result.with_context(|| first.to_string())?;
    }
    Ok(outcomes)
}

/// Folders of the two servers.
const OWN: &str = "own";
const CEILING: &str = "ceiling";

struct Stage<'a> {
    cache: &'a Cache,
    options: &'a Options,
}

impl<'a> Stage<'a> {
    fn server(&self, folder: &str, contender: Contender) -> Result<OwnServer<'a>> {
        OwnServer::of(self.cache, contender, folder)
    }

    /// The disk of the servers that are measured, if it is modelled.
    fn disk(&self) -> Option<SlowDisk> {
        self.options.disk().map(|model| SlowDisk { model, later: false })
    }

    /// Starts the server whose pool holds the tables. It is on the modelled disk too, though it
    /// reads nothing: supervision costs a program time at each of its system calls.
    fn start_ceiling(&self, contender: Contender) -> Result<Bench<Instance<'a>>> {
        let instance = self.start((CEILING, self.disk()), contender, self.options.scale.ceiling_bytes(), false)?;
        Ok(bench(instance, contender))
    }

    /// Starts the server whose pool does not hold them.
    fn start_own(&self, contender: Contender) -> Result<Bench<Instance<'a>>> {
        let instance = self.start((OWN, self.disk()), contender, self.options.scale.pool_bytes(), true)?;
        Ok(bench(instance, contender))
    }

    fn start(
        &self,
        (folder, disk): (&str, Option<SlowDisk>),
        contender: Contender,
        pool_bytes: u64,
        listed: bool,
    ) -> Result<Instance<'a>> {
        let (mut server, cores) = (self.server(folder, contender)?, &self.options.cores);
        let started = server.start(&of_sideload(contender, pool_bytes, self.options.scale.size), cores, disk);
        started.with_context(|| format!("start a server for {contender}"))?;
        let (big_rows, oltp) = (self.options.scale.big_rows(), self.options.oltp.clone());
        Instance::of_own(self.cache, cores, server, Spec { contender, pool_bytes, big_rows, listed, oltp })
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
        fill_the_pool(&mut ceiling.load)?;
        for &contender in contenders {
            for start in [Start::Warm, Start::Cold] {
                let own = self.start_own(contender)?;
                progress.step(&format!("{contender}, {}", start.name()));
                let parts = parts(self.options, contender, start);
                let of = Run { parts, own, ceiling: Some(&mut ceiling), progress }.run()?;
                outcomes.push((contender, of));
                progress.did(self.options.times.of_start(contender));
            }
        }
        Ok(())
    }

    /// Loads the tables with the engine, in two copies.
    fn load(&self, contender: Contender, progress: &mut Progress) -> Result<()> {
        let scale = self.options.scale;
        progress.step(&format!("{}: loading the tables", engine_name(contender)));
        let (server, copy) = (self.server(OWN, contender)?, self.server(CEILING, contender)?);
        server.make_data()?;
        copy.remove()?;
        let mut instance = self.start((OWN, None), contender, scale.ceiling_bytes(), false)?;
        let conn = instance.probe.conn();
        conn.query_drop(format!("CREATE DATABASE {SCHEMA}"))?;
        conn.query_drop(format!("USE {SCHEMA}"))?;
        let rows = [scale.hot_rows(), scale.big_rows()];
        let mut told = |done: u32| progress.show_part((done.into(), (rows[0] + rows[1]).into()), "rows");
        data::load(conn, contender.engine(), self.options.oltp.seed, rows, &mut told)?;
        for statement in contender.settle() {
            conn.query_drop(statement)?;
        }
        instance.shut_down()?;
        server.copy_data_to(&copy)
    }
}

/// A server as what is measured.
pub(super) fn bench(instance: Instance<'_>, contender: Contender) -> Bench<Instance<'_>> {
    Bench::new(instance, &contender.to_string(), INTERVAL)
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

/// A run of a contender, or of the engine on a server of a user.
pub(super) fn parts(options: &Options, contender: Contender, start: Start) -> Parts {
    let times = &options.times;
    let (rounds, own, ceiling) = times.turns(contender);
    Parts {
        subject: contender.to_string(),
        tone: contender.tone(),
        start,
        rate: options.oltp.rate,
        scale: options.scale,
        turn_over: LONGEST_DUMP,
        patience: times.patience,
        settle: times.patience / 4,
        alone: times.alone,
        beside: Beside::Turns { rounds, own, ceiling },
        start_up: START_UP,
        after: times.alone,
        enough: None,
        collapse: false,
    }
}

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(500);
/// The time that the clients need to start, before they are measured.
const START_UP: Duration = Duration::from_millis(500);
/// Longer than any dump of the experiment on a working disk.
const LONGEST_DUMP: Duration = Duration::from_secs(1800);
