//! A table with an index on a virtual column whose value depends on what the session has set. Rows
//! are written under one setting, and changed and deleted under another. InnoDB leaves entries of
//! the old values behind and may call its table damaged; this engine finds its rows.
//!
//! No statement looks for rows by that column.

use std::collections::VecDeque;

use holdfast_workload::rng::Rng;

use super::super::script::{Statement, Step};
use super::dice::Dice;

const ROWS: u64 = 20;
/// The virtual column, beside `id`, `a`, `s` and `b`.
const COLUMNS: [&str; 3] = [
    "v DECIMAL(30,20) AS (a / 3) VIRTUAL",
    "v DECIMAL(35,25) AS (a / 7 + b) VIRTUAL",
    "v DATE AS (CAST(s AS DATE)) VIRTUAL",
];
const KEYS: [&str; 3] = ["KEY v (v)", "KEY v (v, b)", "KEY v (b, v)"];
const DATES: [&str; 5] = ["2020-01-02", "2020-00-03", "2020-04-00", "2020-02-30", "0000-00-00"];
/// The server takes `div_precision_increment` as it is when a table is opened.
const SETTINGS: [&str; 7] = [
    "div_precision_increment = 0",
    "div_precision_increment = 4",
    "div_precision_increment = 10",
    "div_precision_increment = 18",
    "sql_mode = ''",
    "sql_mode = 'NO_ZERO_IN_DATE'",
    "sql_mode = 'NO_ZERO_IN_DATE,NO_ZERO_DATE'",
];

/// The table `t`.
pub struct Recomputed;

impl Recomputed {
    /// A new table with rows, and the statements that make it.
    pub fn create(rng: &mut Rng) -> (Recomputed, VecDeque<Step>) {
        let (column, key) = (*rng.one_of(&COLUMNS), *rng.one_of(&KEYS));
        let columns = format!("id INT PRIMARY KEY, a INT, s VARCHAR(20), b INT, {column}, {key}");
        let said = ["SET sql_mode = ''".to_owned(), format!("CREATE TABLE t ({columns})"), insert(rng), insert(rng)];
        (Recomputed, said.into_iter().map(|sql| Step::say(0, sql)).collect())
    }

    /// What comes next.
    pub fn step(&self, rng: &mut Rng) -> VecDeque<Step> {
        let id = rng.below(ROWS);
        let sql = match rng.below(40) {
            0..=5 => {
                let set = format!("SET {}", rng.one_of(&SETTINGS));
                return VecDeque::from([Step::say(0, set), Step::say(0, "FLUSH TABLES")]);
            }
            6..=13 => insert(rng),
            14..=17 => format!("UPDATE t SET b = {} WHERE id = {id}", rng.below(9)),
            18..=20 => format!("UPDATE t SET a = {} WHERE id = {id}", rng.below(50)),
            21..=22 => format!("UPDATE t SET s = '{}' WHERE id = {id}", rng.one_of(&DATES)),
            23 => format!("UPDATE t SET b = b + 1 WHERE id > {id} ORDER BY id"),
            24..=28 => format!("DELETE FROM t WHERE id = {id}"),
            29 => format!("DELETE FROM t WHERE id > {id} ORDER BY id"),
            30..=33 => (*rng.one_of(&["BEGIN", "COMMIT", "ROLLBACK", "ROLLBACK"])).to_owned(),
            34 => "CHECK TABLE t EXTENDED".to_owned(),
            _ => {
                let sql = "SELECT id, a, s, b FROM t IGNORE INDEX (v) ORDER BY id".to_owned();
                return VecDeque::from([Step::Say(Statement { session: 0, sql, ordered: true })]);
            }
        };
        VecDeque::from([Step::say(0, sql)])
    }
}

fn insert(rng: &mut Rng) -> String {
    let verb = *rng.one_of(&["INSERT IGNORE", "INSERT IGNORE", "REPLACE"]);
    let rows: Vec<_> = (0..1 + rng.below(4))
        .map(|_| {
            let (id, a, b) = (rng.below(ROWS), rng.below(50), rng.below(9));
            format!("({id}, {a}, '{}', {b})", rng.one_of(&DATES))
        })
        .collect();
    format!("{verb} INTO t (id, a, s, b) VALUES {}", rows.join(", "))
}
