//! Random histories of interleaved transactions - changes, savepoints, deletes, re-inserts,
//! secondary entries, large values, snapshots held for long, purge at random moments - against a
//! model that keeps every version.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use holdfast_base::{Error, Result};
use holdfast_testkit::SplitMix64;
use holdfast_txn::*;

use crate::common::*;

type Key = u64;

/// Every committed version of every key, with the number of its commit.
#[derive(Default)]
struct History {
    versions: BTreeMap<Key, Vec<(u64, Option<u64>)>>,
    commits: u64,
}

impl History {
    fn at(&self, key: Key, commit: u64) -> Option<u64> {
        let versions = self.versions.get(&key)?;
        versions.iter().rev().find(|(no, _)| *no <= commit)?.1
    }
    fn newest(&self, key: Key) -> u64 {
        self.versions.get(&key).and_then(|v| v.last()).map_or(0, |v| v.0)
    }
}

struct Open {
    txn: Txn,
    isolation: Isolation,
    read_only: bool,
    snapshot: u64,
    /// Own changes, and what they looked like at each savepoint.
    own: BTreeMap<Key, Option<u64>>,
    /// Rows that were put back by a rollback to a savepoint.
    locked: BTreeSet<Key>,
    savepoints: Vec<(TxnSavepoint, BTreeMap<Key, Option<u64>>)>,
}

impl Open {
    fn sees(&self, history: &History, key: Key) -> Option<u64> {
        match self.own.get(&key) {
            Some(own) => *own,
            None => history.at(key, self.view(history)),
        }
    }
    fn view(&self, history: &History) -> u64 {
        if self.isolation == Isolation::ReadCommitted { history.commits } else { self.snapshot }
    }
    fn all(&self, history: &History) -> Vec<(Key, u64)> {
        let keys = history.versions.keys().chain(self.own.keys());
        let keys: BTreeSet<Key> = keys.copied().collect();
        keys.into_iter().filter_map(|k| Some((k, self.sees(history, k)?))).collect()
    }
}

fn key(k: Key) -> Vec<u8> {
    let mut key = format!("{k:04}").into_bytes();
    if k.is_multiple_of(11) {
        key.extend(vec![b'k'; 900]); // Too long for a plain key of the version tree... of some page sizes.
    }
    key
}

fn value(v: u64) -> Vec<u8> {
    let mut value = v.to_string().into_bytes();
    let len = match v % 29 {
        0..8 => HEAD + 9_000,
        8..12 => 700,
        _ => value.len() + v as usize % 50,
    };
    value.resize(len, b' ');
    value
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().trim_end().parse().unwrap()
}

fn entry(k: Key, v: u64) -> Vec<u8> {
    format!("{:02}/{k:04}", v % 13).into_bytes()
}

struct World {
    db: Db,
    history: History,
    open: Vec<Open>,
    rng: SplitMix64,
    keys: u64,
    next_value: u64,
}

/// A statement's change of row `k`, whose value is `seen` before it.
struct Change {
    /// 0: delete, 1: insert, 2: update, 3: upsert.
    kind: u64,
    k: Key,
    v: u64,
    seen: Option<u64>,
}

impl Change {
    /// Changes the row and its secondary entry. Returns the value of the row afterwards.
    fn apply(&self, txn: &mut Txn, rows: &TableIndex, entries: &TableIndex) -> Result<Option<u64>> {
        let &Change { kind, k, v, seen } = self;
        let mut old = Vec::new();
        let new = match kind {
            0 => {
                if !txn.delete(rows, &key(k), Some(&mut old))? {
                    return Ok(seen);
                }
                None
            }
            1 => {
                txn.insert(rows, &key(k), headed(&value(v)))?;
                Some(v)
            }
            2 => {
                if !txn.update(rows, &key(k), headed(&value(v)), Some(&mut old))? {
                    return Ok(seen);
                }
                Some(v)
            }
            _ => {
                if !txn.upsert(rows, &key(k), headed(&value(v)), Some(&mut old))? {
                    old.clear();
                }
                Some(v)
            }
        };
        assert_eq!((!old.is_empty()).then(|| number(&old)), if kind == 1 { None } else { seen });
        let before = seen.filter(|_| kind != 1).map(|s| entry(k, s));
        let after = new.map(|n| entry(k, n));
        if let Some(before) = &before
            && after.as_ref() != Some(before)
        {
            assert!(txn.delete(entries, before, None)?);
        }
        if let (Some(after), Some(new)) = (&after, new) {
            txn.upsert(entries, after, new.to_string().as_bytes(), None)?;
        }
        Ok(new)
    }
}

impl World {
    fn begin(&mut self) {
        let (isolation, read_only) = match self.rng.below(4) {
            0 => (Isolation::ReadCommitted, false),
            1 => (Isolation::RepeatableRead, true),
            _ => (Isolation::RepeatableRead, false),
        };
        let wait = Some(LockWait::NoWait);
        let mut txn = self.db.sys.begin(TxnOptions { isolation, snapshot_isolation: true, read_only, wait });
        txn.take_snapshot();
        let (own, locked, savepoints) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        self.open.push(Open { txn, isolation, read_only, snapshot: self.history.commits, own, locked, savepoints });
    }

    /// What the model says a change of `k` by transaction `at` meets.
    fn expected_error(&self, at: usize, k: Key, inserts: bool) -> Option<&'static str> {
        let me = &self.open[at];
        let others = || self.open.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, other)| other);
        let locked = others().any(|other| other.locked.contains(&k));
        if others().any(|other| other.own.contains_key(&k)) || locked && inserts {
            return Some("WouldBlock");
        }
        let stale = self.history.newest(k) > me.snapshot && !me.own.contains_key(&k);
        let conflicts = me.isolation == Isolation::RepeatableRead && stale;
        conflicts.then_some("Conflict").or(locked.then_some("WouldBlock"))
    }

    /// One statement: a row and its secondary entry change together, or not at all.
    fn change(&mut self, at: usize) {
        let (k, v) = (self.rng.below(self.keys), self.next_value);
        self.next_value += 1;
        let kind = self.rng.below(4);
        let expected = self.expected_error(at, k, kind == 1);
        let seen = {
            let me = &self.open[at];
            match me.own.get(&k) {
                Some(own) => *own,
                None => self.history.at(k, self.history.commits),
            }
        };
        let (rows, entries) = (self.db.rows.clone(), self.db.entries.clone());
        let me = &mut self.open[at];
        let savepoint = me.txn.statement_begin().unwrap();
        let change = Change { kind, k, v, seen };
        let result = change.apply(&mut me.txn, &rows, &entries);
        match result {
            Ok(new) => {
                assert!(expected.is_none() || (kind == 1 && seen.is_some()), "expected {expected:?} for {k}");
                if new != seen {
                    me.own.insert(k, new);
                }
            }
            Err(e) => {
                me.txn.rollback_to(savepoint).unwrap();
                match e {
                    Error::DuplicateKey => assert!(kind == 1 && seen.is_some()),
                    Error::Conflict => assert_eq!(expected, Some("Conflict")),
                    Error::WouldBlock => assert_eq!(expected, Some("WouldBlock")),
                    e => panic!("{e}"),
                }
            }
        }
    }

    fn check(&mut self, at: usize) {
        let db = &self.db;
        let me = &mut self.open[at];
        me.txn.statement_begin().unwrap();
        let expected = me.all(&self.history);
        match self.rng.below(3) {
            0 => {
                let k = self.rng.below(self.keys);
                let mut found = Vec::new();
                let there = me.txn.get(&db.rows, &key(k), &mut found).unwrap();
                let want = expected.iter().find(|(key, _)| *key == k).map(|(_, v)| *v);
                assert_eq!(there.then(|| number(&found)), want, "key {k}");
            }
            1 => {
                let direction = if self.rng.below(2) == 0 { Direction::Forward } else { Direction::Reverse };
                let scan = [ScanMode::Auto, ScanMode::Declared, ScanMode::Never][self.rng.below(3) as usize];
                let options = CursorOptions { direction, scan, ..CursorOptions::default() };
                let mut cursor = me.txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
                let mut found = Vec::new();
                while let Some((k, v)) = cursor.next().unwrap() {
                    found.push((std::str::from_utf8(&k[..4]).unwrap().parse::<u64>().unwrap(), number(v)));
                }
                if direction == Direction::Reverse {
                    found.reverse();
                }
                assert_eq!(found, expected);
            }
            _ => {
                let mut want: Vec<_> = expected.iter().map(|(k, v)| (entry(*k, *v), *v)).collect();
                want.sort();
                let found = scan(&mut me.txn, &db.entries);
                let found: Vec<_> =
                    found.into_iter().map(|(k, v)| (k.into_bytes(), v.parse::<u64>().unwrap())).collect();
                assert_eq!(found, want);
            }
        }
    }

    fn end(&mut self, at: usize, commit: bool) {
        let mut me = self.open.swap_remove(at);
        if !commit {
            me.txn.rollback().unwrap();
            return;
        }
        me.txn.commit(FlushAtCommit::Lazy).unwrap();
        if !me.own.is_empty() {
            self.history.commits += 1;
            for (k, v) in me.own {
                self.history.versions.entry(k).or_default().push((self.history.commits, v));
            }
        }
    }

    fn step(&mut self) {
        if self.open.is_empty() || (self.open.len() < 6 && self.rng.below(8) == 0) {
            return self.begin();
        }
        let at = self.rng.below(self.open.len() as u64) as usize;
        match self.rng.below(40) {
            // A snapshot is held longer than others.
            0..3 if !self.open[at].read_only || self.rng.below(6) == 0 => self.end(at, true),
            3 if !self.open[at].read_only => self.end(at, false),
            4..6 => {
                let me = &mut self.open[at];
                me.savepoints.push((me.txn.savepoint(), me.own.clone()));
            }
            6..8 => {
                let me = &mut self.open[at];
                if !me.savepoints.is_empty() {
                    let keep = self.rng.below(me.savepoints.len() as u64) as usize;
                    let (savepoint, own) = me.savepoints[keep].clone();
                    me.savepoints.truncate(keep + 1);
                    me.txn.rollback_to(savepoint).unwrap();
                    let before = |k: &&Key| self.history.at(**k, self.history.commits).is_some();
                    me.locked.extend(me.own.keys().filter(|k| !own.contains_key(k)).filter(before));
                    me.own = own;
                }
            }
            8..10 => {
                let limit = 1 + self.rng.below(20) as usize;
                self.db.sys.purge(limit).unwrap();
            }
            10..18 => self.check(at),
            _ if !self.open[at].read_only => self.change(at),
            _ => self.check(at),
        }
    }

    fn finish(mut self) {
        while !self.open.is_empty() {
            self.check(0);
            let commit = self.rng.below(2) == 0;
            self.end(0, commit);
        }
        self.db.purge();
        assert_eq!(self.db.sys.history_length(), 0);
        assert_eq!(self.db.sys.versions_stored(), 0);
        assert_eq!(self.db.sys.stats().undo_pages, 0);
        let live = (0..self.keys).filter(|k| self.history.at(*k, u64::MAX).is_some()).count();
        assert_eq!(self.db.physical(&self.db.rows), live);
        assert_eq!(self.db.physical(&self.db.entries), live);
        assert_eq!(self.db.rows.rows(), live as u64);
        assert!(self.db.sys.locks().locks().is_empty());
        assert!(self.db.sys.transactions().is_empty());
        self.db.verify_clean();
    }
}

/// Bytes of the shelf: there is none, much goes on from there, nothing has to.
const SHELVES: [u64; 3] = [0, 4 << 10, 32 << 20];

fn run(seed: u64, steps: usize, keys: u64, mut setup: Setup) {
    setup.txn.shelf_bytes = SHELVES[seed as usize % SHELVES.len()];
    let (rng, db) = (SplitMix64::new(seed), Db::with(setup));
    let mut world = World { db, history: History::default(), open: Vec::new(), rng, keys, next_value: 1 };
    for _ in 0..steps {
        world.step();
    }
    world.finish();
}

#[test]
fn few_keys() {
    for seed in 0..25 {
        run(seed, 1_500, 12, Setup::default());
    }
}

#[test]
fn many_keys() {
    for seed in 100..106 {
        run(seed, 3_000, 200, Setup::default());
    }
}

#[test]
fn views_become_long_at_once() {
    for seed in 200..215 {
        let mut setup = Setup::default();
        setup.txn.short_view_commits = 1;
        run(seed, 1_500, 20, setup);
    }
}

#[test]
fn larger_pages() {
    for seed in 300..304 {
        run(seed, 1_500, 30, Setup { page_size: 16384, ..Setup::default() });
    }
}
