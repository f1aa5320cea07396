//! What InnoDB may have forgotten: by a crash, when a table was opened anew, or when a statement
//! failed.

use super::answer::{Answer, Outcome};
use super::script::{Statement, is_of_name, names};

/// What opens a table anew, so that its partitions are asked for the number of the next row.
const REOPENS: [&str; 3] = ["ALTER TABLE", "RENAME", "OPTIMIZE"];

/// What makes as many rows of fewer.
const SUMS_UP: [&str; 8] = ["CHECKSUM TABLE ", " LIMIT ", "COUNT(", "MIN(", "MAX(", "SUM(", "AVG(", "GROUP_CONCAT("];

/// What has happened so far in a scenario that InnoDB may forget, and whether it had to keep it.
#[derive(Debug, Default)]
pub struct Forgotten {
    has_numbers: bool,
    has_partitions: bool,
    /// A number was assigned in a table with partitions: its row may lie in another one now.
    number_moves: bool,
    crashed: bool,
    temporary: Vec<String>,
    /// Temporary tables of which changes were undone.
    undone: Vec<String>,
    has_virtual: bool,
    /// Tables that were opened again, with the age that their definition has.
    opened_again: Vec<String>,
}

impl Forgotten {
    /// A statement was carried out, or a part of it, or was undone.
    pub fn ended(&mut self, sql: &str, success: bool) {
        self.temporary.extend(temporary(sql));
        if let Some((_, to)) = renamed(sql).filter(|(from, _)| success && self.temporary.iter().any(|it| it == from)) {
            self.temporary.push(to.to_owned());
        }
        let rolls_back = ["ROLLBACK", "XA ROLLBACK"].iter().any(|verb| sql.starts_with(verb));
        self.undone
            .extend(self.temporary.iter().filter(|table| rolls_back || (!success && names(sql, table))).cloned());
        if ["CREATE TABLE", "ALTER TABLE"].iter().any(|verb| sql.starts_with(verb)) {
            self.has_numbers |= sql.contains("AUTO_INCREMENT");
            self.has_partitions |= sql.contains("PARTITION BY");
            self.has_virtual |= sql.contains(" AS (");
        }
        if success && self.has_virtual && sql.starts_with("ALTER TABLE") && sql.contains(" DROP KEY ") {
            self.opened_again.extend(sql.split(' ').nth(2).map(String::from));
        }
        self.number_moves |= self.has_numbers && self.has_partitions && assigns_number(sql);
    }

    pub fn killed(&mut self) {
        self.crashed = true;
    }

    /// True if there may be a table with AUTO_INCREMENT.
    pub fn counts(&self) -> bool {
        self.has_numbers
    }

    /// True if the statement opens tables anew, of which one may have a number of AUTO_INCREMENT
    /// that an UPDATE has taken to another partition.
    pub fn may_lose_number(&self, sql: &str) -> bool {
        self.number_moves && REOPENS.iter().any(|verb| sql.starts_with(verb))
    }

    /// True if it may be rows of a temporary table: InnoDB answers as if there were fewer, after
    /// changes of it were undone.
    pub fn rows(&self, sql: &str, ours: &Answer, theirs: &Answer) -> bool {
        let fewer = match (&ours.outcome, &theirs.outcome) {
            (Outcome::Rows(ours), Outcome::Rows(theirs)) => {
                theirs.len() < ours.len() || (ours != theirs && SUMS_UP.iter().any(|words| sql.contains(words)))
            }
            (Outcome::Done(ours, text), Outcome::Done(theirs, other)) => {
                // A row that is not there is not in the way of a new one.
                let has_room = sql.starts_with("INSERT") && theirs > ours;
                theirs < ours || has_room || (theirs == ours && matched(other) < matched(text))
            }
            (Outcome::Refused(1062, _), Outcome::Done(..)) => true,
            // A later row of the statement has a key that is there.
            (Outcome::Refused(1062, first), Outcome::Refused(1062, later)) => first != later,
            _ => false,
        };
        fewer && self.undone.iter().any(|table| names(sql, table))
    }

    /// True if it may be when a table of the statement was created.
    pub fn age(&self, sql: &str) -> bool {
        self.opened_again.iter().any(|table| names(sql, table))
    }

    /// True if it may be the row of a sequence: the statement reads it, after a crash.
    pub fn sequence(&self, statement: &Statement) -> bool {
        self.crashed && statement.sql.starts_with("SELECT * FROM s")
    }
}

/// The temporary table that the statement creates.
fn temporary(sql: &str) -> Option<String> {
    let (_, rest) = sql.split_once(" TEMPORARY TABLE ").filter(|(verb, _)| verb.starts_with("CREATE"))?;
    let rest = rest.strip_prefix("IF NOT EXISTS ").unwrap_or(rest);
    rest.split(|c: char| !is_of_name(c)).next().map(str::to_owned)
}

/// The old and the new name of a table that gets another one.
fn renamed(sql: &str) -> Option<(&str, &str)> {
    let (from, to) = match sql.strip_prefix("ALTER TABLE ") {
        Some(rest) => rest.split_once(" RENAME TO ").or_else(|| rest.split_once(" RENAME "))?,
        None => sql.strip_prefix("RENAME TABLE ")?.split_once(" TO ")?,
    };
    let is_name = |name: &str| name.chars().all(is_of_name);
    (is_name(from) && is_name(to)).then_some((from, to))
}

/// How many rows an UPDATE has found.
fn matched(info: &str) -> Option<u64> {
    info.strip_prefix("Rows matched: ")?.split(' ').next()?.parse().ok()
}

/// True if the statement gives rows that are there another `id`.
fn assigns_number(sql: &str) -> bool {
    let assigned = match sql.split_once(" ON DUPLICATE KEY UPDATE ") {
        Some((_, assigned)) => Some(assigned),
        None => sql.split_once(" SET ").filter(|_| sql.starts_with("UPDATE")).map(|(_, assigned)| assigned),
    };
    let assigned = assigned.and_then(|assigned| assigned.split(" WHERE ").next()).unwrap_or_default();
    assigned.split(", ").any(|one| one.starts_with("id = ") || one.contains(".id = "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "CREATE TABLE t1 (id INT AUTO_INCREMENT, c1 INT, PRIMARY KEY (id))";

    fn forgets(definition: &str, change: &str, then: &str) -> bool {
        let mut forgotten = Forgotten::default();
        for sql in [definition, change] {
            forgotten.ended(sql, true);
        }
        forgotten.may_lose_number(then)
    }

    #[test]
    fn a_number_is_forgotten_that_was_assigned_among_partitions_before_the_table_is_opened_anew() {
        let parted = format!("{COUNTS} PARTITION BY KEY (id) PARTITIONS 4");
        let rename = "RENAME TABLE t1 TO t2";
        assert!(forgets(&parted, "UPDATE t1 SET c1 = 1, id = 24 WHERE id = 9", rename));
        assert!(forgets(&parted, "INSERT INTO t1 VALUES (9, 1) ON DUPLICATE KEY UPDATE id = id + 15", rename));
        assert!(!forgets(&parted, "UPDATE t1 SET c1 = 1 WHERE id = 9", rename));
        assert!(!forgets(&parted, "INSERT INTO t1 VALUES (9, 1)", rename));
        assert!(!forgets(&parted, "UPDATE t1 SET id = 24", "SELECT * FROM t1"));
        assert!(!forgets(COUNTS, "UPDATE t1 SET id = 24", rename));
    }

    #[test]
    fn rows_of_a_temporary_table_are_forgotten_when_changes_are_undone() {
        let done = |rows| Answer { outcome: Outcome::Done(rows, String::new()), warnings: Vec::new() };
        let forgets_after = |table: &str, (last, success): (&str, bool), sql: &str, ours, theirs| {
            let mut forgotten = Forgotten::default();
            forgotten.ended(&format!("CREATE {table} (id INT, PRIMARY KEY (id))"), true);
            forgotten.ended(last, success);
            forgotten.rows(sql, &done(ours), &done(theirs))
        };
        let forgets = |table: &str, success, sql: &str, ours, theirs| {
            forgets_after(table, ("UPDATE t5 SET id = id + 1", success), sql, ours, theirs)
        };
        let (temporary, change) = ("TEMPORARY TABLE t5", "UPDATE t5 SET c1 = 1");
        assert!(forgets(temporary, false, change, 4, 3));
        assert!(forgets_after(temporary, ("ROLLBACK TO SAVEPOINT s1", true), change, 4, 3));
        assert!(!forgets_after(temporary, ("COMMIT", true), change, 4, 3));
        assert!(!forgets(temporary, false, change, 3, 4), "it has more");
        assert!(forgets(temporary, false, "INSERT IGNORE INTO t5 VALUES (1), (2)", 1, 2));
        assert!(!forgets(temporary, true, change, 4, 3), "the statement has not failed");
        assert!(!forgets(temporary, false, "UPDATE t6 SET c1 = 1", 4, 3), "another table");
        assert!(!forgets("TABLE t5", false, change, 4, 3), "not a temporary one");
        let count = |n: &str| Answer { outcome: Outcome::Rows(vec![vec![n.into()]]), warnings: Vec::new() };
        let counts = |sql: &str| {
            let mut forgotten = Forgotten::default();
            forgotten.ended("CREATE TEMPORARY TABLE t5 (id INT, PRIMARY KEY (id))", true);
            forgotten.ended("REPLACE t5 VALUES (1), (DEFAULT)", false);
            forgotten.rows(sql, &count("2"), &count("1"))
        };
        assert!(counts("SELECT COUNT(*) FROM t5"));
        assert!(counts("SELECT id FROM t5 ORDER BY id LIMIT 1"));
        assert!(!counts("SELECT id FROM t5"), "as many rows are other rows");
        let refused = |key: &str| Answer { outcome: Outcome::Refused(1062, key.into()), warnings: Vec::new() };
        let mut forgotten = Forgotten::default();
        forgotten.ended("CREATE TEMPORARY TABLE t5 (id INT, PRIMARY KEY (id))", true);
        assert!(!forgotten.rows(change, &refused("first"), &refused("later")), "nothing was undone");
        forgotten.ended("ROLLBACK", true);
        assert!(forgotten.rows(change, &refused("first"), &refused("later")));
        assert!(!forgotten.rows(change, &refused("first"), &refused("first")));
    }

    #[test]
    fn a_row_of_a_temporary_table_that_is_forgotten_is_not_matched() {
        let mut forgotten = Forgotten::default();
        forgotten.ended("CREATE TEMPORARY TABLE t5 (id INT, PRIMARY KEY (id))", true);
        forgotten.ended("ROLLBACK", true);
        let matches = |rows| Answer {
            outcome: Outcome::Done(1, format!("Rows matched: {rows}  Changed: 1  Warnings: 0")),
            warnings: Vec::new(),
        };
        let change = "UPDATE t5 SET c1 = 1";
        assert!(forgotten.rows(change, &matches(10), &matches(9)));
        assert!(!forgotten.rows(change, &matches(9), &matches(10)), "it has more");
        assert!(!forgotten.rows(change, &matches(9), &matches(9)), "it has as many");
    }

    #[test]
    fn a_temporary_table_is_the_same_by_its_new_name() {
        let done = |rows| Answer { outcome: Outcome::Done(rows, String::new()), warnings: Vec::new() };
        let forgets = |rename: &str| {
            let mut forgotten = Forgotten::default();
            for sql in ["CREATE TEMPORARY TABLE t1 (id INT, PRIMARY KEY (id))", rename, "ROLLBACK"] {
                forgotten.ended(sql, true);
            }
            forgotten.rows("UPDATE t5 SET c1 = 1", &done(4), &done(3))
        };
        assert!(forgets("ALTER TABLE t1 RENAME TO t5"));
        assert!(!forgets("ALTER TABLE t1 RENAME COLUMN c1 TO t5"));
        assert!(!forgets("ALTER TABLE t2 RENAME TO t5"));
    }

    #[test]
    fn the_age_of_a_table_is_forgotten_that_loses_an_index_of_a_virtual_column() {
        let forgets = |column: &str, alter: &str| {
            let mut forgotten = Forgotten::default();
            forgotten.ended(&format!("CREATE TABLE t1 (id INT{column}, KEY k5 (id))"), true);
            forgotten.ended(alter, true);
            forgotten.age("UPDATE t1 SET c3 = 'aa'")
        };
        assert!(forgets(" AS (3)", "ALTER TABLE t1 DROP KEY k5"));
        assert!(!forgets("", "ALTER TABLE t1 DROP KEY k5"), "no column is virtual");
        assert!(!forgets(" AS (3)", "ALTER TABLE t2 DROP KEY k5"), "another table");
        assert!(!forgets(" AS (3)", "ALTER TABLE t1 ADD KEY k6 (id)"));
    }

    #[test]
    fn the_row_of_a_sequence_is_forgotten_by_a_crash() {
        let read = Statement { session: 0, sql: "SELECT * FROM s5".into(), ordered: false };
        let mut forgotten = Forgotten::default();
        assert!(!forgotten.sequence(&read));
        forgotten.killed();
        assert!(forgotten.sequence(&read));
        assert!(!forgotten.sequence(&Statement { sql: "SELECT * FROM t5".into(), ..read }));
    }
}
