//! Ranges that stay open while their transaction changes rows, and goes back to savepoints: each
//! step gives the next row of what the transaction sees by then, from either end, of the table as
//! of an index. Against a model, by dice.

use std::collections::{BTreeMap, BTreeSet};

use holdfast::{
    Database, Entry, Error, IndexDefinition, IndexEntries, IndexRange, IndexedRow, Isolation, Range, Result, Row,
    Savepoint, Table, TableDefinition, WaitMode, WriteOptions,
};
use holdfast_testkit::SplitMix64;

use crate::common;

/// A number that the index has, and filling.
type Content = (u64, Vec<u8>);

const BY_NUMBER: IndexDefinition<u64, Content, u64> =
    IndexDefinition::new("by_number", |_: &u64, (number, _): &Content, keys| keys.push(*number));

const KEYS: u64 = 300;
const NUMBERS: u64 = 40;

fn table() -> TableDefinition<u64, Content> {
    TableDefinition::new("t").index(&BY_NUMBER)
}

type Rows = BTreeMap<u64, Content>;

fn entries(rows: &Rows) -> BTreeSet<(u64, u64)> {
    rows.iter().map(|(key, (number, _))| (*number, *key)).collect()
}

/// How far a range has come: what it gave last from the front and from the back.
struct Place<T> {
    front: Option<T>,
    back: Option<T>,
    done: bool,
}

impl<T: Ord + Copy> Place<T> {
    fn new() -> Place<T> {
        Place { front: None, back: None, done: false }
    }

    /// What a range gives next, of these in ascending order.
    fn step(&mut self, all: impl DoubleEndedIterator<Item = T>, forward: bool) -> Option<T> {
        let (front, back) = (self.front, self.back);
        let mut rest = all.filter(|item| front.is_none_or(|f| *item > f) && back.is_none_or(|b| *item < b));
        let next = if self.done {
            None
        } else if forward {
            rest.next()
        } else {
            rest.next_back()
        };
        self.done |= next.is_none();
        match forward {
            true => self.front = next.or(front),
            false => self.back = next.or(back),
        }
        next
    }
}

enum Open<'t> {
    Rows(Range<'t, u64, Content>, Place<u64>),
    Entries(IndexEntries<'t, u64, u64>, Place<(u64, u64)>),
    Indexed(IndexRange<'t, u64, Content, u64>, Place<(u64, u64)>),
}

fn end<T>(mut range: impl DoubleEndedIterator<Item = Result<T>>, forward: bool) -> Option<T> {
    let item = if forward { range.next() } else { range.next_back() };
    item.map(Result::unwrap)
}

impl<'t> Open<'t> {
    fn new(rows: &Table<'t, u64, Content>, dice: &mut SplitMix64) -> Open<'t> {
        let index = || rows.index(&BY_NUMBER).unwrap();
        match dice.below(4) {
            0 => Open::Rows(rows.range(..).unwrap(), Place::new()),
            1 => Open::Rows(rows.range_for_update(..KEYS, WaitMode::NoWait).unwrap(), Place::new()),
            2 => Open::Entries(index().keys(0..).unwrap(), Place::new()),
            _ => Open::Indexed(index().range(..=NUMBERS).unwrap(), Place::new()),
        }
    }

    fn step(&mut self, model: &Rows, forward: bool) {
        match self {
            Open::Rows(range, place) => {
                let expected = place.step(model.keys().copied(), forward);
                let found: Option<Row<u64, Content>> = end(range, forward);
                assert_eq!(found, expected.map(|key| (key, model[&key].clone())));
            }
            Open::Entries(range, place) => {
                let expected = place.step(entries(model).into_iter(), forward);
                let found: Option<Entry<u64, u64>> = end(range, forward);
                assert_eq!(found, expected);
            }
            Open::Indexed(range, place) => {
                let expected = place.step(entries(model).into_iter(), forward);
                let found: Option<IndexedRow<u64, Content, u64>> = end(range, forward);
                assert_eq!(found, expected.map(|(number, key)| (number, key, model[&key].clone())));
            }
        }
    }
}

fn content(dice: &mut SplitMix64) -> Content {
    let len = if dice.below(20) == 0 { 6_000 } else { dice.below(150) };
    (dice.below(NUMBERS), vec![dice.below(256) as u8; len as usize])
}

fn change(rows: &Table<'_, u64, Content>, model: &mut Rows, dice: &mut SplitMix64) {
    let key = dice.below(KEYS);
    let new = content(dice);
    let value = (new.0, new.1.as_slice());
    match dice.below(4) {
        0 => match rows.insert(key, value) {
            Ok(()) => assert!(model.insert(key, new).is_none()),
            Err(error) => assert!(matches!(error, Error::DuplicateKey) && model.contains_key(&key)),
        },
        1 => {
            assert_eq!(rows.upsert(key, value).unwrap(), model.insert(key, new).is_some());
        }
        2 => {
            let is_there = rows.update(key, value).unwrap();
            assert_eq!(is_there, model.contains_key(&key));
            model.entry(key).and_modify(|old| *old = new);
        }
        _ => assert_eq!(rows.delete(key).unwrap(), model.remove(&key).is_some()),
    }
}

fn run(seed: u64, isolation: Isolation) {
    let mut dice = SplitMix64::new(seed);
    let db: Database = common::small().in_memory().unwrap();
    let mut model = Rows::new();
    let txn = db.begin_write().unwrap();
    let rows = txn.open_table(&table()).unwrap();
    (0..200).for_each(|_| change(&rows, &mut model, &mut dice));
    txn.commit().unwrap();

    let txn = db.begin_write_with(&WriteOptions::new().isolation(isolation)).unwrap();
    let rows = txn.open_table(&table()).unwrap();
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut places: Vec<(Savepoint, Rows)> = Vec::new();
    for _ in 0..600 {
        match dice.below(10) {
            0 if open.len() < 8 => open.push(Open::new(&rows, &mut dice)),
            1 if !open.is_empty() && dice.below(4) == 0 => {
                drop(open.swap_remove(dice.below(open.len() as u64) as usize))
            }
            2 => places.push((txn.savepoint().unwrap(), model.clone())),
            3 if !places.is_empty() => {
                let at = dice.below(places.len() as u64) as usize;
                places.truncate(at + 1);
                txn.rollback_to(&places[at].0).unwrap();
                model.clone_from(&places[at].1);
            }
            4 | 5 => change(&rows, &mut model, &mut dice),
            _ if !open.is_empty() => {
                let at = dice.below(open.len() as u64) as usize;
                let forward = dice.below(3) > 0;
                (0..=dice.below(20)).for_each(|_| open[at].step(&model, forward));
            }
            _ => {}
        }
    }
    drop(open);
    let key = dice.below(KEYS);
    assert_eq!(rows.contains(key).unwrap(), model.contains_key(&key));
    txn.commit().unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&table()).unwrap();
    assert!(rows.iter().unwrap().map(Result::unwrap).eq(model.clone()));
    assert!(rows.index(&BY_NUMBER).unwrap().keys(..).unwrap().map(Result::unwrap).eq(entries(&model)));
    common::assert_sound(&db);
}

#[test]
fn at_each_level_of_isolation() {
    let seeds = if common::exhaustive() { 300 } else { 12 };
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        (0..seeds).for_each(|seed| run(seed, isolation));
    }
}
