//! Keys near the longest that an index keeps whole: those that come to it are cut, and end with a
//! hash. A zero byte takes two bytes in a key, so that columns of a few thousand bytes get there.
//! Rows are looked for, changed and deleted by such keys, and by the first of two columns that
//! comes close to the limit alone.

use std::collections::VecDeque;

use holdfast_workload::rng::Rng;

use super::super::script::{Statement, Step};
use super::dice::Dice;

/// A table `t` has `id`, by which rows are in an order, `v` with the long values, and `b`.
#[derive(Clone, Copy)]
struct Form {
    columns: &'static str,
    key: &'static str,
    /// How many bytes of a key are to be `v` alone, at most.
    most: u64,
    /// How long a value can be.
    longest: u64,
}

/// A page of 16 KiB takes keys of 4,092 bytes, and primary keys of a quarter of that.
const FORMS: [Form; 6] = [
    Form { columns: "v VARBINARY(2500), b INT, PRIMARY KEY (id), KEY k (v, b)", key: "k", most: 4092, longest: 2500 },
    Form {
        columns: "v VARBINARY(2500) NOT NULL, b INT NOT NULL, PRIMARY KEY (id), UNIQUE KEY k (v, b)",
        key: "k",
        most: 4092,
        longest: 2500,
    },
    Form {
        columns: "v VARCHAR(2500) CHARACTER SET latin1 COLLATE latin1_nopad_bin, b INT, PRIMARY KEY (id), KEY k (v, b)",
        key: "k",
        most: 4092,
        longest: 2500,
    },
    Form { columns: "v VARBINARY(3072), b INT, PRIMARY KEY (id), KEY k (v)", key: "k", most: 4092, longest: 3072 },
    Form {
        columns: "v VARBINARY(2500), b INT, c VARBINARY(20) DEFAULT 'c', PRIMARY KEY (id), KEY k (v, c, b)",
        key: "k",
        most: 4092,
        longest: 2500,
    },
    Form { columns: "v VARBINARY(600), b INT, PRIMARY KEY (v, b)", key: "PRIMARY", most: 1028, longest: 600 },
];

/// So many bytes below the most a value can be: enough for the columns behind it, and for the hash.
const BELOW: u64 = 40;

/// The table of a scenario.
pub struct Table {
    form: Form,
    next_id: u64,
}

impl Table {
    /// A new table with rows, and the statements that make it.
    pub fn create(rng: &mut Rng) -> (Table, VecDeque<Step>) {
        let mut table = Table { form: *rng.one_of(&FORMS), next_id: 1 };
        let create = format!("CREATE TABLE t (id INT NOT NULL, {})", table.form.columns);
        let mut story = VecDeque::from([Step::say(0, create)]);
        for _ in 0..4 {
            story.push_back(Step::say(0, table.insert(rng)));
        }
        (table, story)
    }

    /// What comes next.
    pub fn step(&mut self, rng: &mut Rng) -> Step {
        let key = self.form.key;
        let sql = match rng.below(40) {
            0..=9 => self.insert(rng),
            10..=14 => {
                let b = rng.below(4);
                format!("UPDATE t FORCE INDEX ({key}) SET b = {b} WHERE {} ORDER BY id", self.rows(rng))
            }
            15..=17 => format!("UPDATE t SET v = {} WHERE {} ORDER BY id LIMIT 2", self.value(rng), self.rows(rng)),
            18..=19 => format!("DELETE t FROM t FORCE INDEX ({key}) WHERE {}", self.rows(rng)),
            20 => format!("DELETE FROM t WHERE {}", self.rows(rng)),
            21..=22 => (*rng.one_of(&["BEGIN", "COMMIT", "ROLLBACK"])).to_owned(),
            23 => "ALTER TABLE t FORCE".to_owned(),
            24..=27 => {
                let of_b = *rng.one_of(&["", "", " AND x.b <= y.b"]);
                format!("SELECT COUNT(*) FROM t x STRAIGHT_JOIN t y FORCE INDEX ({key}) ON x.v = y.v{of_b}")
            }
            _ => {
                let lock = *rng.one_of(&["", "", " FOR UPDATE"]);
                let sql = format!("SELECT id, b FROM t FORCE INDEX ({key}) WHERE {} ORDER BY id{lock}", self.rows(rng));
                return Step::Say(Statement { session: 0, sql, ordered: true });
            }
        };
        Step::say(0, sql)
    }

    fn insert(&mut self, rng: &mut Rng) -> String {
        let mut rows = Vec::new();
        for _ in 0..1 + rng.below(5) {
            rows.push(format!("({}, {}, {})", self.next_id, self.value(rng), rng.below(4)));
            self.next_id += 1;
        }
        let ignore = *rng.one_of(&["", " IGNORE"]);
        format!("INSERT{ignore} INTO t (id, v, b) VALUES {}", rows.join(", "))
    }

    /// Zero bytes, and maybe others before or behind them: so many that the key comes near the
    /// limit, now and then few.
    fn value(&self, rng: &mut Rng) -> String {
        if rng.chance(8) {
            return format!("REPEAT('\\0', {})", rng.below(4));
        }
        let bytes = self.form.most - rng.below(BELOW);
        let fewest = bytes.saturating_sub(self.form.longest);
        let zeros = if rng.chance(30) { fewest + 3 } else { bytes / 2 }.min(bytes / 2);
        let others = bytes - 2 * zeros;
        match rng.below(3) {
            0 if others > 0 => format!("CONCAT(REPEAT('q', {others}), REPEAT('\\0', {zeros}))"),
            _ if others > 0 => format!("CONCAT(REPEAT('\\0', {zeros}), REPEAT('q', {others}))"),
            _ => format!("REPEAT('\\0', {zeros})"),
        }
    }

    /// A condition on some of the rows.
    fn rows(&self, rng: &mut Rng) -> String {
        let value = self.value(rng);
        let of_b = match rng.below(4) {
            0 => format!(" AND b {} {}", rng.one_of(&["=", ">=", "<"]), rng.below(4)),
            _ => String::new(),
        };
        match rng.below(8) {
            0..=4 => format!("v = {value}{of_b}"),
            5 => format!("v BETWEEN {value} AND {}{of_b}", self.value(rng)),
            _ => format!("v {} {value}{of_b}", rng.one_of(&["<", "<=", ">", ">="])),
        }
    }
}
