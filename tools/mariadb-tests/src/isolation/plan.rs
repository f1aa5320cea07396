//! What the sessions of a round are going to do: random transactions, named by a seed.

use holdfast_workload::rng::Rng;

use super::history::{Column, Key, Range, State, Token};
use super::level::Level;
use super::schema::{B_VALUES, KEYS, U_VALUES};

/// How a transaction is begun and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One statement, in autocommit mode.
    Autocommit,
    Plain,
    ConsistentSnapshot,
    /// Prepared, then committed or rolled back.
    Xa,
}

/// The lock of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    None,
    Share,
    Update,
}

#[derive(Clone, Debug)]
pub enum What {
    Read { range: Range, index: &'static str, lock: Lock, with_trail: bool, downwards: bool },
    Update { range: Range, index: &'static str, b: Option<u64>, u: Option<Option<u64>> },
    Delete { range: Range },
    Insert { key: Key, state: State },
    Upsert { key: Key, state: State },
}

#[derive(Clone, Debug)]
pub enum Step {
    Do(What),
    Savepoint,
    /// To the last savepoint.
    RollbackTo,
}

#[derive(Clone, Debug)]
pub struct TxnPlan {
    pub level: Level,
    pub shape: Shape,
    pub steps: Vec<Step>,
    pub commits: bool,
}

impl TxnPlan {
    /// A transaction at `level`, or at any if none is given.
    pub fn random(rng: &mut Rng, level: Option<Level>) -> TxnPlan {
        let level = level.unwrap_or_else(|| Level::ALL[rng.below(5) as usize]);
        let shape = match rng.below(20) {
            0..=2 => Shape::Autocommit,
            3..=4 if level.has_snapshot() => Shape::ConsistentSnapshot,
            5 => Shape::Xa,
            _ => Shape::Plain,
        };
        let statements = if shape == Shape::Autocommit { 1 } else { rng.between(2, 7) };
        let mut steps: Vec<Step> = (0..statements).map(|_| Step::Do(What::random(rng))).collect();
        let has_savepoints = matches!(shape, Shape::Plain | Shape::ConsistentSnapshot);
        if has_savepoints && rng.below(8) == 0 {
            steps.extend(TxnPlan::locks_and_goes_back(rng));
        } else if has_savepoints && rng.below(5) == 0 {
            let at = rng.below(steps.len() as u64) as usize;
            steps.insert(at, Step::Savepoint);
            let back = rng.between(at as u64 + 1, steps.len() as u64) as usize;
            steps.insert(back, Step::RollbackTo);
        }
        TxnPlan { level, shape, steps, commits: rng.below(8) != 0 }
    }

    /// A row is locked, changed behind a savepoint, put back, and read again after something else:
    /// it has to be as it was, at the levels that keep locks.
    fn locks_and_goes_back(rng: &mut Rng) -> [Step; 6] {
        let (range, index) = (Range::item(rng.below(KEYS)), "PRIMARY");
        let lock = [Lock::Share, Lock::Update][rng.below(2) as usize];
        let read = What::Read { range, index, lock, with_trail: false, downwards: false };
        let change = What::Update { range, index, b: Some(rng.below(B_VALUES)), u: None };
        let between = What::random(rng);
        let [before, change, between, after] = [read.clone(), change, between, read].map(Step::Do);
        [before, Step::Savepoint, change, Step::RollbackTo, between, after]
    }
}

impl Range {
    fn item(key: Key) -> Range {
        Range { column: Column::Id, low: key, high: key }
    }

    fn random(rng: &mut Rng) -> Range {
        let span = |rng: &mut Rng, column, values: u64| {
            let low = rng.below(values);
            Range { column, low, high: (low + rng.below(values / 3)).min(values - 1) }
        };
        match rng.below(10) {
            0..=3 => Range::item(rng.below(KEYS)),
            4 => span(rng, Column::Id, KEYS),
            5..=7 => span(rng, Column::B, B_VALUES),
            8 => {
                let value = rng.below(U_VALUES);
                Range { column: Column::U, low: value, high: value }
            }
            _ => span(rng, Column::U, U_VALUES),
        }
    }

    /// An index that leads to the rows.
    fn index(&self, rng: &mut Rng) -> &'static str {
        match self.column {
            Column::Id => "PRIMARY",
            Column::B => ["kb", "kbt"][rng.below(2) as usize],
            Column::U => "ku",
        }
    }

    pub fn sql(&self) -> String {
        let column = match self.column {
            Column::Id => "id",
            Column::B => "b",
            Column::U => "u",
        };
        if self.low == self.high {
            format!("{column} = {}", self.low)
        } else {
            format!("{column} BETWEEN {} AND {}", self.low, self.high)
        }
    }
}

fn state(rng: &mut Rng) -> State {
    State { b: rng.below(B_VALUES), u: (rng.below(3) == 0).then(|| rng.below(U_VALUES)) }
}

impl What {
    fn random(rng: &mut Rng) -> What {
        match rng.below(100) {
            0..=49 => {
                let range = Range::random(rng);
                let lock = [Lock::None, Lock::None, Lock::None, Lock::Share, Lock::Update][rng.below(5) as usize];
                let index = range.index(rng);
                What::Read { range, index, lock, with_trail: rng.below(3) == 0, downwards: rng.below(3) == 0 }
            }
            50..=79 => {
                let range = Range::random(rng);
                let index = range.index(rng);
                let b = (rng.below(2) == 0).then(|| rng.below(B_VALUES));
                // A value for several rows could not be unique.
                let u = (range.is_item() && rng.below(4) == 0).then(|| state(rng).u);
                What::Update { range, index, b, u }
            }
            80..=87 => What::Delete { range: Range::random(rng) },
            88..=93 => What::Insert { key: rng.below(KEYS), state: state(rng) },
            _ => What::Upsert { key: rng.below(KEYS), state: state(rng) },
        }
    }

    /// The statement, which writes `token`.
    pub fn sql(&self, token: Token) -> String {
        let tok = token.0;
        let appended = format!("tok = {tok}, trail = CONCAT(trail, ' {tok}:', b, ':', IFNULL(u, '-'))");
        let null = |u: &Option<u64>| u.map_or("NULL".into(), |u| u.to_string());
        let values = |key: &Key, state: &State| {
            let (b, u) = (state.b, state.u);
            let trail = format!("{tok}:{b}:{}", u.map_or("-".into(), |u| u.to_string()));
            format!("INSERT INTO r VALUES ({key}, {b}, {}, {tok}, '{trail}')", null(&u))
        };
        match self {
            What::Read { range, index, lock, with_trail, downwards } => {
                let trail = if *with_trail { ", trail" } else { "" };
                let order = match (downwards, range.column) {
                    (false, _) => "",
                    (true, Column::Id) => " ORDER BY id DESC",
                    (true, Column::B) => " ORDER BY b DESC",
                    (true, Column::U) => " ORDER BY u DESC",
                };
                let lock = match lock {
                    Lock::None => "",
                    Lock::Share => " LOCK IN SHARE MODE",
                    Lock::Update => " FOR UPDATE",
                };
                let condition = range.sql();
                format!("SELECT id, b, u, tok{trail} FROM r FORCE INDEX ({index}) WHERE {condition}{order}{lock}")
            }
            What::Update { range, index, b, u } => {
                let b = b.map_or(String::new(), |b| format!("b = {b}, "));
                let u = u.map_or(String::new(), |u| format!("u = {}, ", null(&u)));
                format!("UPDATE r FORCE INDEX ({index}) SET {b}{u}{appended} WHERE {}", range.sql())
            }
            What::Delete { range } => format!("DELETE FROM r WHERE {} RETURNING id, b, u, tok, trail", range.sql()),
            What::Insert { key, state } => values(key, state),
            What::Upsert { key, state } => {
                format!("{} ON DUPLICATE KEY UPDATE b = VALUES(b), {appended}", values(key, state))
            }
        }
    }
}
