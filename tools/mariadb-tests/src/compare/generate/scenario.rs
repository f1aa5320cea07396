//! Which kind of scenario a number names.

use std::collections::VecDeque;

use holdfast_workload::rng::Rng;

use super::super::play::Source;
use super::super::script::Step;
use super::alters::Table;
use super::long_keys;
use super::long_scans::{self, Scanned};
use super::moving_children::{self, Family};
use super::recomputed::Recomputed;
use super::references::Schema;
use super::stored::Stored;
use super::{Generator, Sessions};

/// Steps of a scenario that is about one thing.
const STEPS: u64 = 120;

/// Makes scenario `number` of a seed up: of ten with drawn sessions, one is about a table's
/// definition, one about tables that refer to each other, one about what the server stores for
/// tables, and one about a subject of its own, which are taken in turn.
pub fn scenario(seed: u64, number: u64, sessions: Sessions) -> Box<dyn Source> {
    match (sessions, number % 10) {
        (Sessions::Drawn, 1) => of_its_own(seed, number),
        (Sessions::Drawn, 3) => Box::new(Focused::new(seed, number, Table::create)),
        (Sessions::Drawn, 6) => Box::new(Focused::new(seed, number, Stored::create)),
        (Sessions::Drawn, 8) => Box::new(Focused::new(seed, number, Schema::create)),
        _ => Box::new(Generator::new(seed, number, sessions)),
    }
}

/// One of the subjects that are taken in turn.
fn of_its_own(seed: u64, number: u64) -> Box<dyn Source> {
    match number / 10 % 4 {
        0 => Box::new(Focused::new(seed, number, long_keys::Table::create)),
        1 => Box::new(Focused::new(seed, number, Family::create)),
        2 => Box::new(Focused::new(seed, number, Scanned::create)),
        _ => Box::new(Focused::new(seed, number, Recomputed::create)),
    }
}

/// What a scenario is about.
trait Topic {
    /// How many sessions speak.
    fn sessions(&self) -> usize {
        1
    }

    /// Goes on.
    fn go_on(&mut self, rng: &mut Rng) -> VecDeque<Step>;

    /// True if the engines agree on what a crash leaves, and the sessions go on as they are.
    fn may_crash(&self) -> bool {
        true
    }
}

impl Topic for Table {
    fn go_on(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        self.step(rng)
    }
}

impl Topic for Schema {
    fn go_on(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        VecDeque::from([self.step(rng)])
    }
}

impl Topic for Stored {
    fn go_on(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        self.step(rng)
    }

    fn may_crash(&self) -> bool {
        !self.counts
    }
}

impl Topic for long_keys::Table {
    fn go_on(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        VecDeque::from([self.step(rng)])
    }
}

impl Topic for Family {
    fn sessions(&self) -> usize {
        moving_children::SESSIONS
    }

    fn go_on(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        self.step(rng)
    }

    /// Sessions begin anew then, at another isolation level.
    fn may_crash(&self) -> bool {
        false
    }
}

impl Topic for Scanned {
    fn sessions(&self) -> usize {
        long_scans::SESSIONS
    }

    fn go_on(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        self.step(rng)
    }

    /// Sessions begin anew then, at another isolation level.
    fn may_crash(&self) -> bool {
        false
    }
}

impl Topic for Recomputed {
    fn go_on(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        self.step(rng)
    }

    /// Sessions begin anew then, with other settings.
    fn may_crash(&self) -> bool {
        false
    }
}

/// A scenario about one thing.
struct Focused<T> {
    rng: Rng,
    topic: T,
    /// What is to be said next.
    queue: VecDeque<Step>,
    left: u64,
    kill_at: Option<u64>,
}

impl<T: Topic> Focused<T> {
    fn new(seed: u64, number: u64, create: impl Fn(&mut Rng) -> (T, VecDeque<Step>)) -> Focused<T> {
        let mut rng = Rng::for_part(seed, number);
        let (topic, queue) = create(&mut rng);
        let kill_at = (rng.below(6) == 0).then(|| rng.below(STEPS)).filter(|_| topic.may_crash());
        Focused { rng, topic, queue, left: STEPS, kill_at }
    }
}

impl<T: Topic> Source for Focused<T> {
    fn sessions(&self) -> usize {
        self.topic.sessions()
    }

    fn next(&mut self, _free: &[usize]) -> Option<Step> {
        if let Some(step) = self.queue.pop_front() {
            return Some(step);
        }
        self.left = self.left.checked_sub(1)?;
        if self.kill_at == Some(self.left) {
            return Some(Step::Kill);
        }
        self.queue = self.topic.go_on(&mut self.rng);
        self.queue.pop_front()
    }
}
