//! The bars of scaling, which are for machines with 16 cores.

use holdfast_lab::claims::{Bar, Claim, Evidence, Verdict};
use holdfast_lab::conditions::Conditions;

use super::cells::{Cell, Work, ratios};
use super::operation::Operation;
use crate::engines::Durability;

const CORES: usize = 16;
/// How far an operation is followed beyond its cores.
const CROWD: usize = 4 * CORES;
const NOT_BELOW: f64 = 0.95;

/// What each operation at 16 threads is of one thread, at least.
const TIMES: [(Operation, &[Durability], f64); 6] = [
    (Operation::Put, &[Durability::Lazy], 10.0),
    (Operation::Rmw, &[Durability::Lazy], 10.0),
    (Operation::Put, &[Durability::Write, Durability::Sync], 9.0),
    (Operation::Rmw, &[Durability::Write, Durability::Sync], 9.0),
    (Operation::Append, &[Durability::Lazy, Durability::Write, Durability::Sync], 4.0),
    (Operation::Get, &[Durability::Sync], 14.0),
];
const TIMES_OF_SHARED: [(Operation, f64); 2] = [(Operation::Hot, 14.0), (Operation::Range, 14.0)];
/// What is faster than on any peer with more threads than one.
const FASTEST: [Operation; 2] = [Operation::Put, Operation::Rmw];

/// All, none of which falls with more threads.
const EVERY: [Operation; 7] = [
    Operation::Get,
    Operation::Hot,
    Operation::Range,
    Operation::Put,
    Operation::Rmw,
    Operation::Append,
    Operation::Mix,
];

/// The verdicts on Holdfast; `None` on a machine with fewer cores. What was not measured has none.
pub fn of(cells: &[Cell], cores: usize, conditions: &Conditions) -> Option<Vec<Verdict>> {
    if cores < CORES {
        return None;
    }
    let mut claims = Vec::new();
    let shared = TIMES_OF_SHARED.map(|(operation, bar)| (operation, &[Durability::Sync][..], bar));
    for (operation, modes, bar) in TIMES.into_iter().chain(shared) {
        for &durability in modes {
            claims.extend(times(cells, Work { operation, durability }, bar));
        }
    }
    claims.extend(beside(cells, Operation::Get, "lmdb", 1.0));
    claims.extend(beside(cells, Operation::Append, "rocksdb", 1.5));
    claims.extend(FASTEST.into_iter().flat_map(in_each_mode).filter_map(|work| among_peers(cells, work)));
    claims
        .extend(EVERY.iter().flat_map(|&operation| in_each_mode(operation)).filter_map(|work| in_a_crowd(cells, work)));
    Some(claims.iter().map(|claim| claim.judge(conditions)).collect())
}

/// The sentence in place of verdicts.
pub fn cannot_tell(cores: usize) -> String {
    format!("The bars of scaling are for {CORES} cores or more; this machine has {cores}, which cannot tell.")
}

fn find<'a>(cells: &'a [Cell], work: Work, engine: &str, threads: usize) -> Option<&'a Cell> {
    cells.iter().find(|cell| work.is_of(cell) && cell.engine == engine && cell.threads == threads)
}

fn in_each_mode(operation: Operation) -> Vec<Work> {
    Work::all(&[operation], &[Durability::Lazy, Durability::Write, Durability::Sync])
}

/// A claim about Holdfast's rates at 16 threads.
fn at_cores(cells: &[Cell], work: Work, by: Option<&Cell>, what: &str, bar: f64) -> Option<Claim> {
    let of = ratios(&find(cells, work, "holdfast", CORES)?.turns, &by?.turns);
    let text = format!("{} at {CORES} threads, times {what}", work.title());
    Some(Claim::new(text, Evidence::turns(&of), Bar::AtLeast(bar)))
}

fn times(cells: &[Cell], work: Work, bar: f64) -> Option<Claim> {
    at_cores(cells, work, find(cells, work, "holdfast", 1), "one thread", bar)
}

/// Of the same turns as `peer`, in each mode.
fn beside(cells: &[Cell], operation: Operation, peer: &str, bar: f64) -> Vec<Claim> {
    let claim = |work| at_cores(cells, work, find(cells, work, peer, CORES), &format!("{peer}'s"), bar);
    in_each_mode(operation).into_iter().filter_map(claim).collect()
}

/// With two threads and more the rate is not below that of any peer in the same turns.
fn among_peers(cells: &[Cell], work: Work) -> Option<Claim> {
    let peers = cells.iter().filter(|cell| work.is_of(cell) && cell.engine != "holdfast" && cell.threads > 1);
    let beside = |peer: &Cell| {
        let ours = find(cells, work, "holdfast", peer.threads)?;
        Some(Evidence::turns(&ratios(&ours.turns, &peer.turns)))
    };
    let of: Vec<_> = peers.filter_map(beside).collect();
    let text = format!("{} from 2 threads on, times the fastest peer's, worst number of threads", work.title());
    (!of.is_empty()).then(|| Claim::worst(text, of, Bar::AtLeast(1.0)))
}

/// With more threads than 16 the rate does not fall.
fn in_a_crowd(cells: &[Cell], work: Work) -> Option<Claim> {
    let at_cores = find(cells, work, "holdfast", CORES)?;
    let crowded = cells.iter().filter(|cell| work.is_of(cell) && cell.engine == "holdfast");
    let crowded = crowded.filter(|cell| (CORES + 1..=CROWD).contains(&cell.threads));
    let kept: Vec<_> = crowded.map(|cell| Evidence::turns(&ratios(&cell.turns, &at_cores.turns))).collect();
    let text = format!("{} at {} to {CROWD} threads, times {CORES}", work.title(), CORES + 1);
    (!kept.is_empty()).then(|| Claim::worst(text, kept, Bar::AtLeast(NOT_BELOW)))
}

#[cfg(test)]
mod tests {
    use super::super::cells::tests::{PUT, sample};
    use super::*;
    use holdfast_lab::claims::Answer;

    fn cell(work: Work, engine: &str, threads: usize, rate: f64) -> Cell {
        Cell::new(work, engine, threads, vec![sample(rate); 5], None)
    }

    #[test]
    fn a_small_machine_cannot_tell() {
        let conditions = Conditions::quiet_machine();
        assert!(of(&[cell(PUT, "holdfast", 16, 12.0)], 2, &conditions).is_none());
        assert!(cannot_tell(2).contains("has 2"));
    }

    #[test]
    fn what_was_measured_is_compared_with_its_bar() {
        let append = Work { operation: Operation::Append, durability: Durability::Write };
        let cells = [
            cell(PUT, "holdfast", 1, 1.0),
            cell(PUT, "lmdb", 1, 2.0),
            cell(PUT, "lmdb", 16, 5.0),
            cell(PUT, "rocksdb", 16, 9.0),
            cell(PUT, "rocksdb", 32, 10.0),
            cell(PUT, "holdfast", 16, 9.5),
            cell(PUT, "holdfast", 32, 9.4),
            cell(PUT, "holdfast", 64, 8.5),
            cell(append, "holdfast", 1, 1.0),
            cell(append, "holdfast", 16, 6.0),
            cell(append, "rocksdb", 16, 3.0),
        ];
        let verdicts = of(&cells, 16, &Conditions::quiet_machine()).unwrap();
        let text: Vec<_> = verdicts.iter().map(|v| (v.claim.as_str(), v.answer == Answer::Holds, v.value)).collect();
        assert_eq!(
            text,
            [
                ("put, lazy at 16 threads, times one thread", false, Some(9.5)),
                ("append, write at 16 threads, times one thread", true, Some(6.0)),
                ("append, write at 16 threads, times rocksdb's", true, Some(2.0)),
                (
                    "put, lazy from 2 threads on, times the fastest peer's, worst number of threads",
                    false,
                    Some(9.4 / 10.0)
                ),
                ("put, lazy at 17 to 64 threads, times 16", false, Some(8.5 / 9.5)),
            ]
        );
    }
}
