//! Transactions of XA that have locked more rows by one scan than a few dozen, and are prepared:
//! another session inserts between these rows. It changes none of them: what was only read is kept
//! for longer by the one engine than by the other.

use std::collections::VecDeque;

use holdfast_workload::rng::Rng;

use super::super::script::{SCHEMA, Step};
use super::dice::Dice;

pub const SESSIONS: usize = 2;
/// Rows that are there at first: every third primary key.
const ROWS: u64 = 300;
const APART: u64 = 3;

/// A table `t`, and how many rows have been inserted since.
pub struct Scanned {
    inserted: u64,
}

impl Scanned {
    /// A new table with rows, and the statements that make it.
    pub fn create(rng: &mut Rng) -> (Scanned, VecDeque<Step>) {
        let level = *rng.one_of(&["REPEATABLE READ", "READ COMMITTED", "READ COMMITTED", "SERIALIZABLE"]);
        let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
        let mut story: VecDeque<Step> = (0..SESSIONS).map(|session| Step::say(session, &set)).collect();
        let key = *rng.one_of(&["KEY k (a)", "KEY k (a, b)", "UNIQUE KEY k (id, a)"]);
        story.push_back(Step::say(0, format!("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, {key})")));
        let rows = format!("INSERT INTO t SELECT seq * {APART}, seq % 5, 0 FROM seq_1_to_{ROWS}");
        story.push_back(Step::say(0, rows));
        (Scanned { inserted: 0 }, story)
    }

    /// What comes next: a transaction from its begin to its end, or something beside one.
    pub fn step(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        if rng.chance(30) {
            let sql = match rng.below(3) {
                0 => format!("DELETE FROM t WHERE id % {APART} <> 0"),
                _ => "SELECT COUNT(*), SUM(a), SUM(b) FROM t".into(),
            };
            return VecDeque::from([Step::say(1, sql)]);
        }
        let (name, (from, to)) = (format!("'{SCHEMA}.0'"), some_rows(rng));
        let mut story = VecDeque::from([Step::say(0, format!("XA START {name}"))]);
        for _ in 0..1 + rng.below(2) {
            story.push_back(Step::say(0, scan(from, to, rng)));
        }
        if rng.chance(30) {
            story.push_back(Step::say(0, format!("UPDATE t SET b = b + 1 WHERE id = {}", APART * rng.below(ROWS))));
        }
        story.push_back(Step::say(0, format!("XA END {name}")));
        story.push_back(Step::say(0, format!("XA PREPARE {name}")));
        for _ in 0..1 + rng.below(4) {
            story.push_back(Step::say(1, self.insert(from, to, rng)));
        }
        let end = *rng.one_of(&["COMMIT", "ROLLBACK"]);
        story.push_back(Step::say(0, format!("XA {end} {name}")));
        story
    }

    /// A row between those that are there, mostly under the scan.
    fn insert(&mut self, from: u64, to: u64, rng: &mut Rng) -> String {
        self.inserted += 1;
        let (from, to) = if rng.chance(80) { (from, to) } else { (0, APART * (ROWS + 5)) };
        let row = from / APART + rng.below((to - from) / APART + 1);
        let id = APART * row + 1 + rng.below(APART - 1);
        format!("INSERT INTO t VALUES ({id}, {}, {})", rng.below(5), self.inserted)
    }
}

/// From which key to which one a scan goes: mostly over more rows than have locks of their own.
fn some_rows(rng: &mut Rng) -> (u64, u64) {
    let rows = *rng.one_of(&[20, 70, 100, 150, ROWS]);
    let first = 1 + rng.below(ROWS - rows + 1);
    (APART * first, APART * (first + rows - 1))
}

fn scan(from: u64, to: u64, rng: &mut Rng) -> String {
    let rows = format!("id BETWEEN {from} AND {to}");
    match rng.below(5) {
        0 => format!("UPDATE t FORCE INDEX (PRIMARY) SET b = b + 1 WHERE {rows}"),
        1 => format!("UPDATE t FORCE INDEX (PRIMARY) SET b = b + 1 WHERE {rows} AND a = 2"),
        2 => format!("SELECT COUNT(*), SUM(b) FROM t FORCE INDEX (PRIMARY) WHERE {rows} LOCK IN SHARE MODE"),
        _ => format!("SELECT COUNT(*), SUM(b) FROM t FORCE INDEX (PRIMARY) WHERE {rows} FOR UPDATE"),
    }
}
