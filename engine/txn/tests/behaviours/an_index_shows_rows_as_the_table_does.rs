//! Without snapshot isolation a transaction may replace a version of a row that its view does not
//! see. The row is its own from then on, and read by its newest version; entries that lead to it
//! were read at the view all the same, so that a scan of a secondary index gave such rows twice, or
//! not at all, or under keys that they did not have any more.
//!
//! Random transactions change rows and keep a secondary index up, as the layers above do. Whatever
//! one reads through the index, in both directions, by key, and with cursors that are open while it
//! changes rows, has to be what a model says of the rows.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use holdfast_base::{Error, Result};
use holdfast_testkit::SplitMix64;
use holdfast_txn::*;

use crate::common::*;

/// Different index keys.
const INDEX_KEYS: u64 = 5;
/// Bytes of an index key, and of a row key.
const KEY_LEN: usize = 4;

fn key(n: u64) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

/// The index key of a row with this value.
fn index_key(value: u64) -> Vec<u8> {
    key(value / 4 % INDEX_KEYS)
}

/// The secondary entry of a row: its key, and its value, which is sometimes too large for its page.
/// Of values that differ in their last bit it is the same.
fn entry(row: u64, value: u64) -> (Vec<u8>, Vec<u8>) {
    let mut covered = vec![KEY_LEN as u8];
    covered.extend((value / 2).to_le_bytes());
    if value.is_multiple_of(16) {
        covered.resize(5_000, 7);
    }
    ([index_key(value), key(row)].concat(), covered)
}

/// What was committed to each row, with the numbers of the commits.
#[derive(Default)]
struct History {
    commits: u64,
    versions: BTreeMap<u64, Vec<(u64, Option<u64>)>>,
}

impl History {
    fn at(&self, row: u64, commit: u64) -> Option<u64> {
        let versions = self.versions.get(&row)?;
        versions.iter().rev().find(|(no, _)| *no <= commit).and_then(|(_, value)| *value)
    }
}

type Own = BTreeMap<u64, Option<u64>>;

/// A cursor over the rows or the index that goes on between other things.
struct OpenCursor {
    cursor: RowCursor,
    over_rows: bool,
    forward: bool,
    view: u64,
    last: Option<Vec<u8>>,
}

/// A transaction, and what the model knows of it.
struct Open {
    txn: Txn,
    view: Option<u64>,
    /// The rows whose newest version is its own.
    own: Own,
    savepoints: Vec<(TxnSavepoint, Own)>,
    cursors: VecDeque<OpenCursor>,
}

impl Open {
    /// The rows that it sees with a view of `commit`, or the entries of those.
    fn visible(&self, history: &History, rows: u64, commit: u64, over_rows: bool) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let value = |row| self.own.get(&row).copied().unwrap_or_else(|| history.at(row, commit));
        let row_itself = |row, value: u64| (key(row), value.to_le_bytes().to_vec());
        let shown = |row, value| if over_rows { row_itself(row, value) } else { entry(row, value) };
        (0..rows).filter_map(|row| Some(shown(row, value(row)?))).collect()
    }
}

struct World {
    db: Db,
    history: History,
    open: Vec<Open>,
    rng: SplitMix64,
    rows: u64,
    isolation: Isolation,
}

impl World {
    fn begin(&mut self) {
        let (isolation, wait) = (self.isolation, Some(LockWait::NoWait));
        let options = TxnOptions { isolation, snapshot_isolation: false, wait, ..TxnOptions::default() };
        let txn = self.db.sys.begin(options);
        let (own, savepoints, cursors) = (Own::new(), Vec::new(), VecDeque::new());
        self.open.push(Open { txn, view: None, own, savepoints, cursors });
    }

    /// A statement begins that reads without locks: the commit that its view is of.
    fn begin_read(&mut self, at: usize) -> u64 {
        let (me, now) = (&mut self.open[at], self.history.commits);
        me.txn.statement_begin().unwrap();
        if self.isolation == Isolation::ReadCommitted {
            return now;
        }
        *me.view.get_or_insert(now)
    }

    fn change(&mut self, at: usize) {
        let row = self.rng.below(self.rows);
        let newest = self.open[at].own.get(&row).copied();
        let newest = newest.unwrap_or_else(|| self.history.at(row, u64::MAX));
        let value = match (newest, self.rng.below(3)) {
            (Some(value), 0) => value ^ 1,
            (Some(value), 1) => value + 4 * INDEX_KEYS,
            _ => self.rng.below(8 * INDEX_KEYS),
        };
        let kind = self.rng.below(5);
        let (rows, index) = (self.db.rows.clone(), self.db.secondary.clone());
        let me = &mut self.open[at];
        let start = me.txn.statement_begin().unwrap();
        let result = (|| -> Result<Option<u64>> {
            let mut old = Vec::new();
            let new = (kind > 0).then_some(value);
            let body = value.to_le_bytes();
            let existed = match kind {
                0 => me.txn.delete(&rows, &key(row), Some(&mut old))?,
                1 => me.txn.insert(&rows, &key(row), &body).map(|()| false)?,
                2 | 3 => me.txn.update(&rows, &key(row), &body, Some(&mut old))?,
                _ => me.txn.upsert(&rows, &key(row), &body, Some(&mut old))?,
            };
            let old = existed.then(|| u64::from_le_bytes(old.try_into().unwrap()));
            assert_eq!(old, newest, "row {row}");
            if !existed && matches!(kind, 0 | 2 | 3) {
                return Ok(None);
            }
            let (before, after) = (old.map(|v| entry(row, v)), new.map(|v| entry(row, v)));
            match (&before, &after) {
                (before, after) if before == after => {}
                (Some(before), Some(after)) if before.0 == after.0 => {
                    assert!(me.txn.update(&index, &after.0, &after.1, None)?);
                }
                _ => {
                    if let Some(before) = before {
                        assert!(me.txn.delete(&index, &before.0, None)?);
                    }
                    if let Some(after) = after {
                        me.txn.insert(&index, &after.0, &after.1)?;
                    }
                }
            }
            me.own.insert(row, new);
            Ok(new)
        })();
        match result {
            Ok(_) => {}
            Err(Error::DuplicateKey) => assert!(kind == 1 && newest.is_some()),
            Err(Error::WouldBlock) => me.txn.rollback_to(start).unwrap(),
            Err(error) => panic!("{error}"),
        }
    }

    fn scan(&mut self, at: usize) {
        let view = self.begin_read(at);
        let direction = if self.rng.below(2) == 0 { Direction::Forward } else { Direction::Reverse };
        let over_rows = self.rng.below(3) == 0;
        let index = if over_rows { &self.db.rows } else { &self.db.secondary };
        let me = &mut self.open[at];
        let expected = me.visible(&self.history, self.rows, view, over_rows);
        let options = CursorOptions { direction, ..CursorOptions::default() };
        let mut cursor = me.txn.cursor(index, Bound::Unbounded, Bound::Unbounded, options).unwrap();
        let mut found = Vec::new();
        while let Some((key, value)) = cursor.next().unwrap() {
            found.push((key.to_vec(), value.to_vec()));
        }
        if direction == Direction::Reverse {
            found.reverse();
        }
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }

    fn look_up(&mut self, at: usize) {
        let view = self.begin_read(at);
        let (row, value) = (self.rng.below(self.rows), self.rng.below(4 * INDEX_KEYS));
        let (db, me) = (&self.db, &mut self.open[at]);
        let expected = me.visible(&self.history, self.rows, view, false);
        let (wanted, mut found) = (entry(row, value).0, Vec::new());
        let there = me.txn.get(&db.secondary, &wanted, &mut found).unwrap();
        assert_eq!(there.then_some(&found), expected.get(&wanted));
        // All rows under one index key.
        let (from, to) = (index_key(value), [index_key(value), vec![0xff]].concat());
        let (from, to) = (Bound::Included(&*from), Bound::Excluded(&*to));
        let mut cursor = me.txn.cursor(&db.secondary, from, to, CursorOptions::default()).unwrap();
        let mut found = Vec::new();
        while let Some((key, _)) = cursor.next().unwrap() {
            found.push(key.to_vec());
        }
        let expected: Vec<_> = expected.into_keys().filter(|key| key[..KEY_LEN] == index_key(value)).collect();
        assert_eq!(found, expected);
    }

    fn open_cursor(&mut self, at: usize) {
        let view = self.begin_read(at);
        let forward = self.rng.below(2) == 0;
        let over_rows = self.rng.below(3) == 0;
        let index = if over_rows { &self.db.rows } else { &self.db.secondary };
        let me = &mut self.open[at];
        let direction = if forward { Direction::Forward } else { Direction::Reverse };
        let options = CursorOptions { direction, ..CursorOptions::default() };
        let cursor = me.txn.cursor(index, Bound::Unbounded, Bound::Unbounded, options).unwrap();
        me.cursors.push_back(OpenCursor { cursor, over_rows, forward, view, last: None });
        if me.cursors.len() > 3 {
            me.cursors.pop_front();
        }
    }

    /// A cursor gives the first entry that is visible now, behind the one that it gave last.
    fn move_cursor(&mut self, at: usize) {
        let me = &mut self.open[at];
        let Some(mut open) = me.cursors.pop_front() else { return };
        let visible = me.visible(&self.history, self.rows, open.view, open.over_rows);
        for _ in 0..=self.rng.below(4) {
            let expected = match (&open.last, open.forward) {
                (None, true) => visible.iter().next(),
                (None, false) => visible.iter().next_back(),
                (Some(last), true) => visible.range::<Vec<u8>, _>((Bound::Excluded(last), Bound::Unbounded)).next(),
                (Some(last), false) => visible.range::<Vec<u8>, _>(..last).next_back(),
            };
            let found = open.cursor.next().unwrap();
            assert_eq!(found, expected.map(|(key, value)| (&**key, &**value)));
            let Some((key, _)) = found else { return };
            open.last = Some(key.to_vec());
        }
        me.cursors.push_back(open);
    }

    fn end(&mut self, at: usize, commit: bool) {
        let mut me = self.open.swap_remove(at);
        me.cursors.clear();
        if !commit {
            return me.txn.rollback().unwrap();
        }
        me.txn.commit(FlushAtCommit::Lazy).unwrap();
        self.history.commits += 1;
        for (row, value) in me.own {
            self.history.versions.entry(row).or_default().push((self.history.commits, value));
        }
    }

    fn step(&mut self) {
        if self.open.is_empty() || (self.open.len() < 4 && self.rng.below(8) == 0) {
            return self.begin();
        }
        let at = self.rng.below(self.open.len() as u64) as usize;
        match self.rng.below(40) {
            0 | 1 => self.end(at, true),
            2 => self.end(at, false),
            3 | 4 => {
                let me = &mut self.open[at];
                me.savepoints.push((me.txn.savepoint(), me.own.clone()));
            }
            5 => {
                let me = &mut self.open[at];
                if !me.savepoints.is_empty() {
                    let keep = self.rng.below(me.savepoints.len() as u64) as usize;
                    let (savepoint, own) = me.savepoints[keep].clone();
                    me.savepoints.truncate(keep + 1);
                    me.txn.rollback_to(savepoint).unwrap();
                    me.own = own;
                }
            }
            6 => {
                let limit = 1 + self.rng.below(20) as usize;
                self.db.sys.purge(limit).unwrap();
            }
            7..11 => self.scan(at),
            11..15 => self.look_up(at),
            15..17 => self.open_cursor(at),
            17..23 => self.move_cursor(at),
            _ => self.change(at),
        }
    }
}

fn run(seed: u64, isolation: Isolation, rows: u64) {
    let (rng, db) = (SplitMix64::new(seed), Db::new());
    let (history, open) = (History::default(), Vec::new());
    let mut world = World { db, history, open, rng, rows, isolation };
    for _ in 0..1_500 {
        world.step();
    }
    while !world.open.is_empty() {
        world.scan(0);
        world.end(0, true);
    }
    world.db.purge();
    world.db.verify_clean();
}

#[test]
fn at_repeatable_read() {
    for seed in 0..30 {
        run(seed, Isolation::RepeatableRead, 8);
    }
    run(30, Isolation::RepeatableRead, 60);
}

#[test]
fn at_read_committed() {
    for seed in 100..130 {
        run(seed, Isolation::ReadCommitted, 8);
    }
}
