//! Isolation, proven through SQL: random transactions of several sessions at each isolation level,
//! and a judge of what they saw.
//!
//! * [`plan`] decides what the sessions do, [`session`] does it on a private server and writes a
//!   [`history`], [`mod@judge`] says which anomalies are in that. What each level excludes is a
//!   table in [`level`].
//! * A write leaves a token in the row ([`history`]), so that the order of versions is known, also
//!   of rows that are deleted and inserted again.
//! * A seed names what the sessions intend; how they meet is up to the server. A round that shows
//!   an anomaly is repeated with fewer sessions and transactions, for as long as it shows one.
//! * [`plants`]: faults of the engine that the judge has to find.
//! * [`catalogue`]: the known schedules of two or three sessions, step by step, on both engines.

mod catalogue;
mod engine;
mod finding;
mod graph;
mod history;
mod judge;
#[cfg(test)]
mod judge_tests;
mod level;
mod observe;
mod plan;
mod plants;
mod round;
mod schema;
mod session;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;
use holdfast_server::server::SOCKET_ONLY;
use holdfast_server::{Cache, Profile, Server};
use indicatif::{ProgressBar, ProgressStyle};

use self::engine::Engine;
use self::finding::{Finding, forbidden};
use self::history::History;
use self::judge::judge;
use self::level::{Anomaly, Level};
use self::round::{OPTIONS, Round, Size};

/// A plain line as often as that, where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// How often a smaller round is tried before it is taken for sound.
const TRIES: u64 = 6;

#[derive(clap::Args)]
pub struct Options {
    /// Names what the sessions intend
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds; each is at one level, or at all of them mixed
    #[arg(long, conflicts_with = "minutes")]
    rounds: Option<u64>,
    /// As many rounds as fit into that
    #[arg(long, value_parser = crate::minutes)]
    minutes: Option<f64>,
    /// The number of the first round
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// The engine; of InnoDB it is only said what it does
    #[arg(long, value_enum, default_value_t = Engine::Holdfast)]
    engine: Engine,
    /// Sessions at once
    #[arg(long, default_value_t = SIZE.sessions, value_parser = clap::value_parser!(u64).range(1..))]
    sessions: u64,
    /// Transactions of a session in a round
    #[arg(long, default_value_t = SIZE.transactions, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: u64,
    /// The catalogue of known schedules on both engines, compared with the document
    #[arg(long, conflicts_with = "plants")]
    catalogue: bool,
    /// Plant faults in the engine, one after the other, and see that each is found
    #[arg(long)]
    plants: bool,
    /// Write what the catalogue gives into the document
    #[arg(long, requires = "catalogue")]
    record: bool,
}

/// How long it goes on.
enum Until {
    Rounds(u64),
    Then(Instant),
}

/// How many sessions and transactions a round has.
const SIZE: Size = Size { sessions: 6, transactions: 30 };

/// As much of it as belongs to every run of the tests: the catalogue, and 25 seconds of histories.
pub fn short(cache: &Cache) -> anyhow::Result<()> {
    with_server(cache, |socket| {
        catalogue::run(&socket, false)?;
        let until = Until::Then(Instant::now() + Duration::from_secs(25));
        histories(&socket, Engine::Holdfast, 1, 0, SIZE, &until)
    })
}

/// As much of it as the long suites have: a quarter of an hour of histories, and planted faults.
pub fn long(cache: &Cache) -> anyhow::Result<()> {
    let until = Until::Then(Instant::now() + Duration::from_secs(15 * 60));
    with_server(cache, |socket| histories(&socket, Engine::Holdfast, 2, 0, SIZE, &until))?;
    plants::run(cache, 1, SIZE, Profile::Dev)
}

/// Runs it, with the engine that is built as `profile` says or with faults planted in it; stops the
/// server again.
pub fn run_as(cache: &Cache, options: &Options, profile: Profile) -> anyhow::Result<()> {
    let size = Size { sessions: options.sessions, transactions: options.transactions };
    if options.plants {
        return plants::run(cache, options.seed, size, profile);
    }
    let until = match options.minutes {
        Some(minutes) => Until::Then(Instant::now() + Duration::from_secs_f64(minutes * 60.0)),
        None => Until::Rounds(options.rounds.unwrap_or(60)),
    };
    with_server(cache, |socket| {
        if options.catalogue {
            return catalogue::run(&socket, options.record);
        }
        histories(&socket, options.engine, options.seed, options.first, size, &until)
    })
}

fn with_server(cache: &Cache, job: impl FnOnce(PathBuf) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let server = Server::new(cache, "isolation").bound_to_us();
    server.up(SOCKET_ONLY, true, &OPTIONS.map(String::from))?;
    let result = job(server.socket_path());
    match &result {
        Ok(()) => server.down()?,
        Err(_) => println!("log of the server:\n{}", server.log_tail()),
    }
    result
}

/// What has been seen, by level.
#[derive(Default)]
struct Tally {
    rounds: u64,
    transactions: BTreeMap<Level, u64>,
    anomalies: BTreeMap<(Level, Anomaly), u64>,
}

impl Tally {
    fn add(&mut self, history: &History, findings: &[Finding]) {
        self.rounds += 1;
        for txn in &history.txns {
            *self.transactions.entry(txn.level).or_default() += 1;
        }
        for finding in findings {
            *self.anomalies.entry(finding.kind()).or_default() += 1;
        }
    }

    /// The kinds of findings that have not been seen before.
    fn new_kinds<'f>(&self, findings: impl Iterator<Item = &'f Finding>) -> BTreeSet<(Level, Anomaly)> {
        findings.map(Finding::kind).filter(|kind| !self.anomalies.contains_key(kind)).collect()
    }

    fn table(&self) -> String {
        let mut table = String::new();
        for (level, transactions) in &self.transactions {
            let seen = Anomaly::ALL.iter().filter_map(|anomaly| {
                let count = self.anomalies.get(&(*level, *anomaly))?;
                Some(format!("{} {count}", anomaly.name()))
            });
            let seen: Vec<_> = seen.collect();
            let seen = if seen.is_empty() { "none".into() } else { seen.join(", ") };
            table += &format!("{:<37} {transactions:>7} transactions; anomalies: {seen}\n", level.name());
        }
        table
    }
}

fn histories(
    socket: &std::path::Path,
    engine: Engine,
    seed: u64,
    first: u64,
    size: Size,
    until: &Until,
) -> anyhow::Result<()> {
    println!("isolation on {}: seed {seed}", engine.name());
    let bar = progress(until)?;
    let (mut tally, mut said) = (Tally::default(), Instant::now());
    for n in first.. {
        let over = match until {
            Until::Rounds(rounds) => n - first >= *rounds,
            Until::Then(end) => Instant::now() >= *end,
        };
        if over {
            break;
        }
        let round = Round::of(engine, seed, n, size);
        let again = format!(
            "cargo xtask mariadb isolation --engine {} --seed {seed} --first {n} --rounds 1 --sessions {} --transactions {}",
            engine.name().to_lowercase(),
            size.sessions,
            size.transactions
        );
        let history = round.run(socket).map_err(|e| e.context(again.clone()))?;
        let findings = judge(&history, engine);
        if engine == Engine::Innodb {
            // What the levels exclude on Holdfast: the first of each kind.
            for kind in tally.new_kinds(forbidden(&findings)) {
                println!("round {n}: {}", report(&history, findings.iter().filter(|finding| finding.kind() == kind)));
            }
        }
        tally.add(&history, &findings);
        if engine == Engine::Holdfast && forbidden(&findings).next().is_some() {
            let (history, findings, size) = smaller(socket, round, history, findings);
            let report = report(&history, forbidden(&findings));
            bail!("{report}\nthe shortest of its rounds had {size:?}; the round again: {again}");
        }
        bar.inc(1);
        if !std::io::stderr().is_terminal() && said.elapsed() >= LINE_EVERY {
            said = Instant::now();
            println!("{} rounds", tally.rounds);
        }
    }
    bar.finish_and_clear();
    println!("{} rounds\n{}", tally.rounds, tally.table());
    Ok(())
}

fn progress(until: &Until) -> anyhow::Result<ProgressBar> {
    let (bar, template) = match until {
        Until::Rounds(rounds) => (ProgressBar::new(*rounds), "isolation {bar:40} {pos}/{len} rounds, {eta} left"),
        Until::Then(_) => (ProgressBar::new_spinner(), "isolation {spinner} {pos} rounds, {elapsed}"),
    };
    Ok(bar.with_style(ProgressStyle::with_template(template)?))
}

/// Repeats the round with less in it, for as long as it shows what it must not.
fn smaller(
    socket: &std::path::Path,
    mut round: Round,
    mut history: History,
    mut findings: Vec<Finding>,
) -> (History, Vec<Finding>, Size) {
    let fewer = |size: Size| {
        let [sessions, transactions] = [size.sessions - 1, size.transactions / 2];
        [Size { transactions, ..size }, Size { sessions, ..size }]
    };
    'smaller: loop {
        for size in fewer(round.size).into_iter().filter(|size| size.sessions > 1 && size.transactions > 0) {
            for _ in 0..TRIES {
                let Ok(shorter) = (Round { size, ..round }).run(socket) else { continue };
                let found = judge(&shorter, round.engine);
                if forbidden(&found).next().is_some() {
                    round.size = size;
                    (history, findings) = (shorter, found);
                    continue 'smaller;
                }
            }
        }
        return (history, findings, round.size);
    }
}

/// The worst of the findings, with the transactions that take part.
fn report<'f>(history: &History, findings: impl Iterator<Item = &'f Finding> + Clone) -> String {
    let all = findings.clone().count();
    let Some(finding) = findings.min_by_key(|finding| (finding.anomaly, finding.txns.len())) else {
        return String::new();
    };
    let mut text = format!("{} at {}: {}\n", finding.anomaly.name(), finding.level.name(), finding.text);
    for txn in history.txns.iter().filter(|txn| finding.txns.contains(&txn.number)) {
        text += &txn.to_string();
    }
    text + &format!("the first of {all} findings\n")
}
