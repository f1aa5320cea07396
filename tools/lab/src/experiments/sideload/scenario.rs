//! One run of one subject: warm or cold, at full speed or at a request rate. The same on the engine
//! in this process and on servers.
//!
//! ```text
//! warm:  the dump alone | OLTP warms up | OLTP alone |
//!        the dump starts: both, in turns with the ceiling | the dump stops
//! cold:  the dump alone | OLTP starts: both, until the hot table is warm or patience ends |
//!        both, in turns with the ceiling | the dump stops
//! ```
//!
//! Both begin with a dump that turns the pool over: the pool of a server that has been running is
//! full, and an LRU list that has never evicted a page ranks its pages differently.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::options::Start;
use super::outcome::{Outcome, Warmth};
use super::scale::Scale;
use super::shares::{self, TURNOVERS};
use super::warming::Warming;
use crate::bench::{Bench, Loaded, Mark, Window};
use crate::progress::Progress;
use crate::target::Resident;
use crate::turns::{Rounds, in_turns};

/// The lengths of a run's parts, and what differs between subjects.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The policy or the engine.
    pub subject: String,
    /// The class of its colour in charts.
    pub tone: &'static str,
    pub start: Start,
    /// Transactions per second that OLTP is held to; `None` for full speed.
    pub rate: Option<f64>,
    /// For the sizes of the tables.
    pub scale: Scale,
    /// The longest time in which the dump may turn the pool over.
    pub turn_over: Duration,
    /// The longest time in which the hot table may get warm.
    pub patience: Duration,
    /// Longest wait for its last pages, once it is warm.
    pub settle: Duration,
    /// OLTP without the dump.
    pub alone: Duration,
    pub beside: Beside,
    /// The time that clients need to start, before they are measured beside each other.
    pub start_up: Duration,
    /// OLTP after the dump.
    pub after: Duration,
    /// After this time no more turns are given to decide a claim.
    pub enough: Option<Instant>,
    /// True if a cold start that collapses is measured: the pages that the dump alone makes young,
    /// and the second half of the time of a table that did not get warm.
    pub collapse: bool,
}

/// How OLTP and dump are measured beside each other.
#[derive(Clone, Copy, Debug)]
pub enum Beside {
    /// In turns with the ceiling, if there is one.
    Turns { rounds: Rounds, own: Duration, ceiling: Duration },
    /// For twice this long, against the rate: the first half reaches the state that the second half
    /// measures.
    Halves(Duration),
}

/// A run in progress.
pub struct Run<'r, L> {
    pub parts: Parts,
    pub own: Bench<L>,
    /// The subject whose pool holds both tables, if there is one, without a load.
    pub ceiling: Option<&'r mut Bench<L>>,
    pub progress: &'r mut Progress,
}

/// OLTP and dump beside each other.
struct Both {
    own: Vec<Window>,
    ceiling: Vec<Window>,
    from: Mark,
}

/// What a run has measured before.
#[derive(Default)]
struct Before {
    tps_alone: Option<f64>,
    dump_alone: Option<Window>,
    warmth: Option<Warmth>,
    tps_in_cold: Vec<f64>,
    /// The content of the pool.
    resident: Vec<Resident>,
    /// Where pages made young are counted, if not beside OLTP.
    young: Option<(Mark, Mark)>,
}

const ALONE: &str = "the dump alone";
/// OLTP and dump beside each other, once the table is warm.
pub const BESIDE: &str = "OLTP beside the dump";
/// The same until it is, or patience ends.
pub const COLD: &str = "cold start beside the dump";
/// The parts of the second half of a cold start that reached nothing: a few transactions each.
const PARTS_OF_COLD: usize = 5;

impl<L: Loaded> Run<'_, L> {
    /// Runs it.
    pub fn run(mut self) -> Result<Outcome> {
        let (before, both) = match self.parts.start {
            Start::Warm => self.warm()?,
            Start::Cold => self.cold()?,
        };
        self.end(before, both)
    }

    fn warm(&mut self) -> Result<(Before, Both)> {
        let hurried = self.own.load.hurry(true);
        let (_, _, alone) = self.turn_over()?;
        self.own.load.stop_dump()?;
        let rate = self.parts.rate;
        let warms_up_hurried = self.own.load.hurry(rate.is_some());
        self.start_oltp(rate.filter(|_| !warms_up_hurried))?;
        let (warmth, _) = self.until_warm("OLTP warms up")?;
        self.own.load.hurry(false);
        if warms_up_hurried {
            self.own.load.start_oltp(rate)?;
        }
        let (from, to) = self.own.run("OLTP alone", self.parts.alone, self.progress)?;
        let resident = self.own.load.resident()?;
        self.own.load.start_dump()?;
        let both = self.beside()?;
        let before = Before {
            tps_alone: Some(to.since(&from).tps),
            dump_alone: (!hurried).then_some(alone),
            warmth: (!warms_up_hurried).then_some(warmth),
            resident,
            ..Before::default()
        };
        Ok((before, both))
    }

    fn cold(&mut self) -> Result<(Before, Both)> {
        self.own.load.hurry(false);
        let (full, to, alone) = self.turn_over()?;
        let mut before = Before { dump_alone: Some(alone), resident: self.own.load.resident()?, ..Before::default() };
        self.start_oltp(self.parts.rate)?;
        let (warmth, half) = self.until_warm(COLD)?;
        before.warmth = Some(warmth);
        before.young = self.parts.collapse.then_some((full, to));
        let both = if self.parts.collapse && !warmth.reached {
            before.tps_in_cold = self.own.tps_since(&half, PARTS_OF_COLD);
            self.second_half(half)?
        } else {
            self.beside()?
        };
        if warmth.reached {
            before.tps_in_cold = both.own.iter().map(|w| w.tps).collect();
        }
        Ok((before, both))
    }

    fn start_oltp(&mut self, rate: Option<f64>) -> Result<()> {
        self.own.drawn = true;
        self.own.load.start_oltp(rate)
    }

    /// Starts the dump and runs until it has gone through the pool's pages twice. Returns the mark
    /// after the first time, when the pool was full, and the mark and the rate at the end.
    fn turn_over(&mut self) -> Result<(Mark, Mark, Window)> {
        self.own.load.start_dump()?;
        let mut full = self.own.mark()?;
        let until = &mut |load: &L, mark: &Mark| {
            let turnovers = load.pool_turnovers();
            if turnovers < 1.0 {
                full = mark.clone();
            }
            turnovers >= 2.0
        };
        let (from, to, _) = self.own.run_until(ALONE, self.parts.turn_over, self.progress, until)?;
        self.own.load.turned_over(to.dumped_since(&from))?;
        let alone = to.since(&from);
        Ok((full, to, alone))
    }

    /// Runs until the hot table is warm, or until patience ends; then until it is whole, so that
    /// each later read is one of a page that was lost. Also returns the mark at half of patience,
    /// if the run got that far.
    fn until_warm(&mut self, phase: &str) -> Result<(Warmth, Mark)> {
        let (patience, rows) = (self.parts.patience, self.parts.scale.hot_rows());
        let mut half = self.own.mark()?;
        let half_time = half.t + patience.as_secs_f64() / 2.0;
        let mut warming = Warming::new(&half.counters);
        let is_warm = &mut |_: &L, mark: &Mark| {
            if mark.t < half_time {
                half = mark.clone();
            }
            warming.add(&mark.counters)
        };
        let (from, to, reached) = self.own.run_until(phase, patience, self.progress, is_warm)?;
        let is_whole = &mut |_: &L, mark: &Mark| {
            warming.add(&mark.counters);
            warming.is_whole(rows)
        };
        let whole = reached && self.own.run_until(phase, self.parts.settle, self.progress, is_whole)?.2;
        Ok((Warmth { reads: to.hot_reads_since(&from), seconds: to.t - from.t, reached, whole }, half))
    }

    /// A table that did not get warm: the second half of its time, which began at `half`, and one
    /// turn of the ceiling.
    fn second_half(&mut self, half: Mark) -> Result<Both> {
        let own = vec![self.own.mark()?.since(&half)];
        let mut ceiling = Vec::new();
        if let Beside::Turns { ceiling: turn, .. } = self.parts.beside {
            self.load_ceiling(true)?;
            let bench = self.ceiling.as_mut();
            let turn = bench.map(|bench| bench.run(BESIDE, turn, self.progress)).transpose()?;
            ceiling.extend(turn.map(|(from, to)| to.since(&from)));
            self.load_ceiling(false)?;
        }
        Ok(Both { own, ceiling, from: half })
    }

    /// Runs OLTP and dump beside each other.
    fn beside(&mut self) -> Result<Both> {
        self.own.load.take_p95();
        match self.parts.beside {
            Beside::Turns { rounds, own, ceiling } => self.turns(rounds, [own, ceiling]),
            Beside::Halves(half) => {
                let (begin, _) = self.own.run(BESIDE, half, self.progress)?;
                self.own.load.take_p95();
                let (from, to) = self.own.run(BESIDE, half, self.progress)?;
                Ok(Both { own: vec![to.since(&from)], ceiling: Vec::new(), from: begin })
            }
        }
    }

    /// Runs OLTP and dump in turns with the ceiling, until more would not change what is said.
    fn turns(&mut self, rounds: Rounds, lengths: [Duration; 2]) -> Result<Both> {
        // All clients begin with effects that only a start has.
        self.load_ceiling(true)?;
        for bench in self.ceiling.as_deref_mut().into_iter().chain([&mut self.own]) {
            bench.run(BESIDE, self.parts.start_up, self.progress)?;
        }
        let from = self.own.mark()?;
        let sides = if self.ceiling.is_some() { 2 } else { 1 };
        let turnovers_per_unit = self.own.load.rows(1.0) / f64::from(self.parts.scale.hot_rows());
        let turn = |side: usize| {
            let bench = match &mut self.ceiling {
                Some(ceiling) if side == 1 => &mut **ceiling,
                _ => &mut self.own,
            };
            let (from, to) = bench.run(BESIDE, lengths[side], self.progress)?;
            Ok(to.since(&from))
        };
        let enough = self.parts.enough;
        let decided = |turns: &[Vec<Window>]| match turns {
            [own, ceiling] => {
                let dumped: f64 = own.iter().map(|w| w.dumped_per_s * w.seconds).sum();
                let late = enough.is_some_and(|at| Instant::now() >= at);
                dumped * turnovers_per_unit >= TURNOVERS && (late || shares::decided(own, ceiling))
            }
            _ => true,
        };
        let mut turns = in_turns(sides, rounds, turn, decided)?.into_iter();
        self.load_ceiling(false)?;
        let [own, ceiling] = [turns.next(), turns.next()].map(Option::unwrap_or_default);
        Ok(Both { own, ceiling, from })
    }

    /// Starts the load of the ceiling, or ends it.
    fn load_ceiling(&mut self, starts: bool) -> Result<()> {
        let Some(ceiling) = self.ceiling.as_deref_mut() else { return Ok(()) };
        if starts {
            ceiling.load.start_oltp(self.parts.rate)?;
            ceiling.load.start_dump()
        } else {
            ceiling.load.stop_oltp()?;
            ceiling.load.stop_dump()
        }
    }

    /// Stops the dump, looks at the pool a last time, and puts all figures together.
    fn end(mut self, before: Before, both: Both) -> Result<Outcome> {
        let to = self.own.mark()?;
        let p95_ms = self.own.load.take_p95();
        let during = self.own.load.resident()?;
        self.own.load.stop_dump()?;
        self.own.run("OLTP after the dump", self.parts.after, self.progress)?;
        let after = self.own.load.resident()?;
        let rows = |from: &Mark, to: &Mark| self.own.load.rows(to.dumped_since(from) as f64);
        let (young_from, young_to) = before.young.unwrap_or_else(|| (both.from.clone(), to.clone()));
        let tps = |windows: &[Window]| windows.iter().map(|w| w.tps).collect();
        let big_rows = f64::from(self.parts.scale.big_rows());
        let seconds = |window: &Window| big_rows / self.own.load.rows(window.dumped_per_s);
        let (samples, phases) = self.own.series();
        Ok(Outcome {
            subject: self.parts.subject.clone(),
            tone: self.parts.tone,
            start: self.parts.start,
            rate: self.parts.rate,
            tps_alone: before.tps_alone,
            tps_beside: tps(&both.own),
            tps_in_cold: before.tps_in_cold,
            ceiling_tps: tps(&both.ceiling),
            dump_s_alone: before.dump_alone.as_ref().map(seconds),
            dump_s_beside: both.own.iter().map(seconds).collect(),
            ceiling_dump_s: both.ceiling.iter().map(seconds).collect(),
            p95_ms,
            hot_reads: to.hot_reads_since(&both.from),
            turnovers: rows(&both.from, &to) / f64::from(self.parts.scale.hot_rows()),
            warmth: before.warmth,
            young: young_to.young_since(&young_from),
            dumped_rows: rows(&young_from, &young_to),
            // Only the engine says how many pages a row takes.
            dumped_pages: 0.0,
            resident: [before.resident, during, after],
            pool_mb: self.parts.scale.pool_bytes() as f64 / 1e6,
            samples: samples.to_vec(),
            phases: phases.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Counters;

    /// A subject whose seconds pass when it is looked at while it runs: 100 transactions, and 50
    /// rows of the dump.
    #[derive(Default)]
    struct Fake {
        t: f64,
        counters: Counters,
        runs: bool,
        oltp: bool,
        dump: bool,
        /// Pages of the hot table that are not in memory; half of them are read in a second, and
        /// stay out if the dump evicts them.
        missing: u64,
        evicts: bool,
        can_hurry: bool,
        /// The rates of OLTP, as it was started.
        rates: Vec<Option<f64>>,
    }

    impl Loaded for Fake {
        fn start_oltp(&mut self, rate: Option<f64>) -> Result<()> {
            self.rates.push(rate);
            self.oltp = true;
            Ok(())
        }

        fn stop_oltp(&mut self) -> Result<()> {
            self.oltp = false;
            Ok(())
        }

        fn start_dump(&mut self) -> Result<()> {
            self.dump = true;
            Ok(())
        }

        fn stop_dump(&mut self) -> Result<()> {
            self.dump = false;
            Ok(())
        }

        fn set_running(&mut self, runs: bool) {
            self.runs = runs;
        }

        fn hurry(&mut self, hurries: bool) -> bool {
            hurries && self.can_hurry
        }

        fn now(&self) -> f64 {
            self.t
        }

        fn counters(&mut self) -> Result<Counters> {
            let (young, reads) = (self.counters.made_young.unwrap_or(0), self.counters.hot_reads.unwrap_or(0));
            if self.runs {
                self.t += 1.0;
                let read = if self.oltp { self.missing.div_ceil(2) } else { 0 };
                self.missing -= if self.evicts && self.dump { 0 } else { read };
                self.counters = Counters {
                    commits: self.counters.commits + if self.oltp { 100 } else { 0 },
                    dumped: self.counters.dumped + if self.dump { 50 } else { 0 },
                    hot_reads: Some(reads + read),
                    made_young: Some(young + if self.oltp { 1 } else { 7 }),
                    not_young: Some(0),
                };
            }
            Ok(self.counters.clone())
        }

        fn pool_turnovers(&self) -> f64 {
            self.counters.dumped as f64 / 100.0
        }

        fn take_p95(&mut self) -> Option<f64> {
            Some(1.0)
        }

        fn resident(&mut self) -> Result<Vec<Resident>> {
            Ok(Vec::new())
        }
    }

    fn bench(load: Fake) -> Bench<Fake> {
        Bench::new(load, "fake", Duration::ZERO)
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Runs a subject beside a ceiling for three rounds. A hot table has 11,000 rows.
    fn outcome(load: Fake, start: Start, rate: Option<f64>, collapse: bool) -> (Outcome, Bench<Fake>) {
        let mut ceiling = bench(Fake::default());
        let turns = Beside::Turns { rounds: Rounds { least: 3, most: 3 }, own: seconds(2), ceiling: seconds(1) };
        let parts = Parts {
            subject: "fake".to_owned(),
            tone: "",
            start,
            rate,
            scale: Scale::new(100.0, 1.0),
            turn_over: seconds(100),
            patience: seconds(40),
            settle: seconds(10),
            alone: seconds(5),
            beside: turns,
            start_up: Duration::ZERO,
            after: seconds(3),
            enough: None,
            collapse,
        };
        let (own, progress) = (bench(load), &mut Progress::hidden());
        (Run { parts, own, ceiling: Some(&mut ceiling), progress }.run().unwrap(), ceiling)
    }

    #[test]
    fn a_cold_start_that_gets_warm_is_measured_in_turns() {
        let (o, ceiling) = outcome(Fake { missing: 600, ..Fake::default() }, Start::Cold, None, true);
        let warmth = o.warmth.unwrap();
        assert!(warmth.reached && warmth.whole, "{warmth:?}");
        assert!(warmth.reads.unwrap() > 580, "all but a few of 600 pages: {warmth:?}");
        assert_eq!((o.hot_reads, o.tps_beside.len(), o.ceiling_tps.len()), (Some(0), 3, 3));
        assert_eq!(o.tps_in_cold, o.tps_beside);
        // From the full pool to OLTP, of the dump alone.
        assert_eq!((o.young, o.dumped_rows), (Some((21, 0)), 150.0));
        assert_eq!((o.tps_alone, o.dump_s_alone), (None, Some(f64::from(Scale::new(100.0, 1.0).big_rows()) / 50.0)));
        assert!(!ceiling.load.oltp && !ceiling.load.dump, "its clients are ended");
    }

    #[test]
    fn a_cold_start_that_collapses_is_measured_in_the_second_half_of_its_time() {
        let load = || Fake { missing: 600, evicts: true, ..Fake::default() };
        let (o, _) = outcome(load(), Start::Cold, None, true);
        assert!(!o.warmth.unwrap().reached);
        assert_eq!((o.tps_beside.len(), o.ceiling_tps.len(), o.tps_in_cold.len()), (1, 1, 5));
        assert_eq!(o.hot_reads, Some(300 * 20), "in the half of 40 s");
        // On a server the same is measured in turns.
        let (o, _) = outcome(load(), Start::Cold, None, false);
        assert_eq!((o.tps_beside.len(), o.ceiling_tps.len(), o.hot_reads), (3, 3, Some(300 * 6)));
        assert_eq!(o.young, Some((6, 0)), "beside OLTP");
    }

    #[test]
    fn what_was_hurried_is_not_measured() {
        let run = |can_hurry, rate| {
            let load = Fake { missing: 600, can_hurry, ..Fake::default() };
            let (o, ceiling) = outcome(load, Start::Warm, rate, false);
            assert_eq!((o.tps_alone, ceiling.load.rates), (Some(100.0), vec![rate]));
            (o.dump_s_alone.is_some(), o.warmth.is_some())
        };
        assert_eq!(run(false, Some(9.0)), (true, true));
        assert_eq!(run(true, None), (false, true), "the dump before");
        assert_eq!(run(true, Some(9.0)), (false, false), "the warm-up, too");
    }
}
