//! Scenarios in several lanes at once, each with a server of its own: most of a scenario is
//! waiting.
//!
//! The lanes take the numbers of scenarios in order. When one of them has had enough, the others
//! finish what they are at: of all numbers up to that one the ending is known.
//!
//! Of a server that has ended by itself, error log and scenarios are kept ([`lost`]).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};
use holdfast_server::server::SOCKET_ONLY;
use holdfast_server::{Cache, Server};

use super::generate::{Sessions, scenario};
use super::lost;
use super::play::{Ending, Stage};
use super::script::Step;

const OPTIONS: [&str; 11] = [
    // What is committed survives the end of the server, which is all that is asked of it here.
    "--holdfast-flush-log-at-trx-commit=2",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-flush-method=nosync",
    "--innodb-buffer-pool-size=32M",
    "--holdfast-buffer-pool-size=32M",
    "--skip-sync-frm",
    "--aria-pagecache-buffer-size=8M",
    "--performance-schema=off",
    "--character-set-server=utf8mb4",
    "--query-cache-type=0",
    "--innodb-stats-auto-recalc=on",
];

/// A scenario that was played.
pub struct Played<'p, 's, 'c> {
    pub stage: &'p Stage<'s, 'c>,
    pub number: u64,
    pub steps: Vec<Step>,
    pub ending: Ending,
}

/// Scenarios of a seed.
pub struct Lanes<'a> {
    pub cache: &'a Cache,
    pub seed: u64,
    pub sessions: Sessions,
    pub numbers: Range<u64>,
    /// No scenario begins after that.
    pub until: Option<Instant>,
    /// How many are played at once.
    pub count: usize,
    /// True if a deadlock that only this engine has is a difference.
    pub judges_deadlocks: bool,
}

/// What the lanes share.
struct Shared {
    next: AtomicU64,
    is_over: AtomicBool,
}

impl Lanes<'_> {
    /// Plays them until `told` of one returns false.
    ///
    /// # Errors
    ///
    /// Returns the first error of a lane, of whose server the end of the log is printed.
    pub fn play(&self, told: impl Fn(Played<'_, '_, '_>) -> anyhow::Result<bool> + Sync) -> anyhow::Result<()> {
        let shared = Shared { next: AtomicU64::new(self.numbers.start), is_over: AtomicBool::new(false) };
        let count = self.count.min(usize::try_from(self.numbers.end - self.numbers.start).unwrap_or(usize::MAX));
        thread::scope(|scope| {
            let (shared, told) = (&shared, &told);
            let lanes: Vec<_> = (0..count).map(|lane| scope.spawn(move || self.lane(lane, shared, told))).collect();
            let ended =
                lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn lane(
        &self,
        lane: usize,
        shared: &Shared,
        told: &(impl Fn(Played<'_, '_, '_>) -> anyhow::Result<bool> + Sync),
    ) -> anyhow::Result<()> {
        let server = Server::new(self.cache, &format!("compare/{lane}")).bound_to_us();
        let up = |fresh| server.up(SOCKET_ONLY, fresh, &OPTIONS.map(String::from));
        let stage = Stage::new(&server, &up).with_deadlocks(self.judges_deadlocks);
        let result = up(true).and_then(|()| self.scenarios(&stage, shared, told));
        if result.is_err() {
            shared.is_over.store(true, Ordering::Relaxed);
            println!("log of the server:\n{}", server.log_tail());
        }
        // A fault may have ended it.
        let _ = server.kill();
        result
    }

    fn scenarios(
        &self,
        stage: &Stage<'_, '_>,
        shared: &Shared,
        told: &(impl Fn(Played<'_, '_, '_>) -> anyhow::Result<bool> + Sync),
    ) -> anyhow::Result<()> {
        // Those that the server has played since its data was made.
        let mut numbers = Vec::new();
        while !shared.is_over.load(Ordering::Relaxed) && self.until.is_none_or(|until| Instant::now() < until) {
            let number = shared.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.numbers.end {
                break;
            }
            numbers.push(number);
            let played = stage.play(&mut *scenario(self.seed, number, self.sessions));
            if played.is_err() {
                self.keep(stage, &numbers, &[]);
            }
            let (steps, mut ending) = played.with_context(|| format!("scenario {number} of seed {}", self.seed))?;
            if stage.is_lost() {
                self.keep(stage, &std::mem::take(&mut numbers), &steps);
                if lost::is_of_innodb(stage.server) {
                    ending = Ending::Parted("InnoDB ends the server: what it asserts does not hold");
                }
            }
            if !told(Played { stage, number, steps, ending })? {
                shared.is_over.store(true, Ordering::Relaxed);
            }
        }
        if !stage.is_lost() && !stage.server.answers() {
            self.keep(stage, &numbers, &[]);
            bail!("the server has ended behind the last scenario: {}", stage.server.end());
        }
        Ok(())
    }

    /// Keeps what is known of the server, and says where.
    fn keep(&self, stage: &Stage<'_, '_>, numbers: &[u64], steps: &[Step]) {
        match lost::keep(self.cache, stage.server, self.seed, numbers, steps) {
            Ok(folder) => println!(
                "{}; its error log and the scenarios that it has played are in {}",
                stage.server.end(),
                folder.display()
            ),
            Err(error) => println!("{}; its error log could not be kept: {error:#}", stage.server.end()),
        }
    }
}
