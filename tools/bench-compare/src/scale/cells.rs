//! The figures: a cell is one operation of one engine at one number of threads.

use holdfast_lab::measure::median;
use serde::Serialize;

use super::child::Reply;
use super::operation::Operation;
use crate::engines::Durability;

/// What one turn measured.
#[derive(Serialize, Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Operations a second.
    pub per_second: f64,
    /// Processor time of an operation, in microseconds.
    pub processor_us: f64,
    /// Context switches of an operation: its own doing (a wait), and the scheduler's.
    pub voluntary: f64,
    pub involuntary: f64,
}

impl Sample {
    pub fn of(reply: &Reply) -> Sample {
        let each = |amount: f64| amount / reply.operations.max(1) as f64;
        Sample {
            per_second: reply.operations as f64 / reply.seconds,
            processor_us: each(reply.processor_seconds * 1e6),
            voluntary: each(reply.voluntary_switches as f64),
            involuntary: each(reply.involuntary_switches as f64),
        }
    }
}

/// One operation of one engine at one number of threads.
#[derive(Serialize, Clone, Debug)]
pub struct Cell {
    pub operation: Operation,
    /// Absent for operations that commit nothing.
    pub durability: Option<Durability>,
    pub engine: String,
    pub threads: usize,
    /// The medians of the turns.
    pub median: Sample,
    /// Half the range of the rates, by their median.
    pub spread: f64,
    /// The median of the rates by those of one thread in the same turn; absent if that was not
    /// measured.
    pub times: Option<f64>,
    pub turns: Vec<Sample>,
}

impl Cell {
    /// Of `turns`, and those of one thread if that was measured, too.
    pub fn new(work: Work, engine: &str, threads: usize, turns: Vec<Sample>, of_one: Option<&[Sample]>) -> Cell {
        let middle = |of: fn(&Sample) -> f64| median(&turns.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        let per_second = middle(|turn| turn.per_second);
        let (least, most) =
            turns.iter().fold((f64::MAX, 0f64), |(l, m), turn| (l.min(turn.per_second), m.max(turn.per_second)));
        Cell {
            operation: work.operation,
            durability: work.operation.writes().then_some(work.durability),
            engine: engine.to_string(),
            threads,
            median: Sample {
                per_second,
                processor_us: middle(|turn| turn.processor_us),
                voluntary: middle(|turn| turn.voluntary),
                involuntary: middle(|turn| turn.involuntary),
            },
            spread: if per_second > 0.0 { (most - least) / 2.0 / per_second } else { 0.0 },
            times: of_one.and_then(|of_one| median(&ratios(&turns, of_one))),
            turns,
        }
    }
}

/// The rates `of` by the rates `by` of the same turns.
pub fn ratios(of: &[Sample], by: &[Sample]) -> Vec<f64> {
    of.iter().zip(by).map(|(of, by)| of.per_second / by.per_second).collect()
}

/// What is measured at all numbers of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub operation: Operation,
    pub durability: Durability,
}

impl Work {
    /// Operations that commit nothing once, the others in each mode.
    pub fn all(operations: &[Operation], modes: &[Durability]) -> Vec<Work> {
        let reads = operations.iter().filter(|operation| !operation.writes());
        let reads = reads.map(|&operation| Work { operation, durability: Durability::Sync });
        let writes = modes.iter().flat_map(|&durability| {
            let writes = operations.iter().filter(|operation| operation.writes());
            writes.map(move |&operation| Work { operation, durability })
        });
        reads.chain(writes).collect()
    }

    pub fn title(self) -> String {
        let mode = match self.durability {
            _ if !self.operation.writes() => return self.operation.title().to_string(),
            Durability::Lazy => "lazy",
            Durability::Write => "write",
            Durability::Sync => "sync",
        };
        format!("{}, {mode}", self.operation.title())
    }

    /// True if `cell` is of this work.
    pub fn is_of(self, cell: &Cell) -> bool {
        cell.operation == self.operation && cell.durability.is_none_or(|durability| durability == self.durability)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const PUT: Work = Work { operation: Operation::Put, durability: Durability::Lazy };

    pub fn sample(per_second: f64) -> Sample {
        Sample { per_second, processor_us: 2.5, voluntary: 0.5, involuntary: 0.001 }
    }

    #[test]
    fn figures_are_by_operation() {
        let reply = Reply {
            operations: 1_000,
            seconds: 0.5,
            processor_seconds: 0.004,
            voluntary_switches: 20,
            involuntary_switches: 10,
            error: None,
        };
        let expected = Sample { per_second: 2_000.0, processor_us: 4.0, voluntary: 0.02, involuntary: 0.01 };
        assert_eq!(Sample::of(&reply), expected);
        assert_eq!(Sample::of(&Reply { seconds: 1.0, ..Reply::default() }).per_second, 0.0);
    }

    #[test]
    fn the_times_of_one_thread_are_those_within_a_turn() {
        // The machine was half as fast in the second turn: that moves the rates and not the times.
        let (one, four) = ([10.0, 5.0, 10.0].map(sample), [40.0, 20.0, 30.0].map(sample));
        let cell = Cell::new(PUT, "holdfast", 4, four.to_vec(), Some(&one));
        assert_eq!((cell.median.per_second, cell.times), (30.0, Some(4.0)));
        assert!((cell.spread - 10.0 / 30.0).abs() < 1e-9);
        assert_eq!(Cell::new(PUT, "holdfast", 4, four.to_vec(), None).times, None);
    }

    #[test]
    fn operations_that_commit_nothing_are_measured_once() {
        let all = Work::all(&[Operation::Put, Operation::Get], &[Durability::Lazy, Durability::Sync]);
        let titles: Vec<String> = all.iter().map(|work| work.title()).collect();
        assert_eq!(titles, ["get", "put, lazy", "put, sync"]);
    }
}
