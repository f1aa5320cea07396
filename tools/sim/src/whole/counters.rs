//! Numbers that tables count up: none is given out twice, and none again that a durable commit came
//! after, also across power cuts.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use holdfast::Result;
use holdfast::raw::{MARKS, RawDatabase, RawTable};
use holdfast_base::blocking::Mutex;

use super::history::Coverage;
use super::plan::Dice;
use super::raw_rows::RawRows;

/// A table's number in the history, and which of its marks.
type Name = (usize, usize);

#[derive(Clone, Debug, Default)]
struct Counter {
    /// The first number of each grant, and the one behind its last.
    given: BTreeMap<u64, u64>,
    /// What is given out now is not below this.
    floor: u64,
    /// What is given out next.
    next: u64,
    /// The most that `next` has been in this life.
    top: u64,
    /// A crash does not take it back behind this.
    durable: u64,
    /// A call has failed: what it has taken is not known.
    failed: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(BTreeMap<Name, Counter>);

/// What a transaction has taken.
#[derive(Debug, Default)]
pub(super) struct Taken(Vec<(Name, u64)>);

/// Numbers beyond those that were taken that a crash may pass over.
const AHEAD: u64 = 1000;

impl Counter {
    fn moves_to(&mut self, next: u64) {
        (self.next, self.top) = (next, self.top.max(next));
    }
}

impl Taken {
    /// Takes numbers of a table, or raises what it gives out next.
    pub fn take(
        &mut self,
        shared: &Mutex<Counters>,
        rows: &RawRows,
        dice: &mut Dice,
        coverage: &Coverage,
    ) -> anyhow::Result<Result<()>> {
        let name = (rows.number, dice.below(MARKS as u64) as usize);
        let floor = shared.lock().0.entry(name).or_default().floor;
        let behind = if dice.percent(75) {
            coverage.count("counter: take");
            let count = dice.one_of(&[1, 1, 7, 1_500]);
            rows.table.take_mark(name.1, count).map(|first| (Some(first), first + count))
        } else {
            coverage.count("counter: raise");
            let next = floor + dice.below(300);
            rows.table.raise_mark(name.1, next, dice.below(AHEAD)).map(|()| (None, next))
        };
        let mut counters = shared.lock();
        let counter = counters.0.entry(name).or_default();
        let (first, behind) = match behind {
            Ok(behind) => behind,
            Err(error) => {
                counter.failed = true;
                return Ok(Err(error));
            }
        };
        if let Some(first) = first {
            let before = counter.given.range(..behind).next_back();
            ensure!(
                first >= floor && before.is_none_or(|(_, end)| *end <= first),
                "number {first} of {name:?} is given out, after {before:?} and {floor}"
            );
            counter.given.insert(first, behind);
        } else {
            counter.floor = counter.floor.max(behind);
        }
        counter.moves_to(counter.next.max(behind));
        self.0.push((name, behind));
        Ok(Ok(()))
    }

    /// A synced commit came after.
    pub fn lasts(&self, shared: &Mutex<Counters>) {
        let mut counters = shared.lock();
        for (name, behind) in &self.0 {
            let counter = counters.0.entry(*name).or_default();
            counter.durable = counter.durable.max(*behind);
        }
    }
}

impl Counters {
    /// Sets what a table gives out next, also downwards; the caller is its only user.
    ///
    /// # Errors
    /// The errors of the engine.
    pub fn set(
        shared: &Mutex<Counters>,
        number: usize,
        table: &RawTable,
        dice: &mut Dice,
        coverage: &Coverage,
    ) -> Result<()> {
        let name = (number, dice.below(MARKS as u64) as usize);
        let now = shared.lock().0.entry(name).or_default().next;
        let next = if dice.percent(50) { 1 + dice.below(now.max(1)) } else { now + dice.below(300) + 1 };
        coverage.count(if next < now { "counter: set downwards" } else { "counter: set" });
        let result = table.set_mark(name.1, next);
        let mut counters = shared.lock();
        let counter = counters.0.entry(name).or_default();
        counter.given.clear();
        // A crash leaves what was durable before, or this.
        counter.durable = counter.durable.min(next);
        if result.is_ok() {
            counter.floor = next;
            counter.moves_to(next);
        } else {
            counter.floor = counter.floor.min(next);
            counter.next = counter.next.min(next);
            counter.failed = true;
        }
        result
    }

    /// Table `old` was made anew as `new`, which counts on. A crash may have left either of them.
    pub fn go_on(&mut self, old: usize, new: usize) {
        for which in 0..MARKS {
            if let Some(counter) = self.0.get(&(old, which)).cloned() {
                self.0.insert((new, which), counter);
            }
        }
    }

    /// What holds for the next life, of the tables called `names`.
    ///
    /// # Errors
    /// A number that would be given out again, or a gap.
    pub fn settle(
        mut self,
        raw: &RawDatabase,
        names: &BTreeMap<usize, String>,
        closed: bool,
    ) -> anyhow::Result<Counters> {
        self.0.retain(|(table, _), _| names.contains_key(table));
        for ((table, which), counter) in &mut self.0 {
            let next = raw.open_table(&names[table]).context("a table with counters")?.mark(*which);
            let least = if closed { counter.next } else { counter.durable };
            ensure!(next >= least, "mark {which} of table {table} is {next} after a restart: {counter:?}");
            let most = if closed { counter.next.max(1) } else { counter.top + AHEAD };
            ensure!(
                counter.failed || next <= most,
                "mark {which} of table {table} is {next} after a restart: {counter:?}"
            );
            *counter = Counter { floor: next, next, top: next, durable: least, ..Counter::default() };
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing was known of the counters of a table that a crash left anew, and of those of one
    /// that was there behind a change that had failed it was taken that they begin at 0.
    #[test]
    fn a_table_that_is_made_anew_counts_on_whichever_of_the_two_a_crash_leaves() {
        let mut counters = Counters::default();
        counters.0.insert((1, 0), Counter { durable: 7, ..Counter::default() });
        counters.go_on(1, 2);
        let durable = |table: usize| counters.0.get(&(table, 0)).map(|counter| counter.durable);
        assert_eq!([1, 2].map(durable), [Some(7); 2]);
        assert!(!counters.0.contains_key(&(2, 1)));
    }
}
