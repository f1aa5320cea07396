//! Tables behind what the server stores for them: triggers, views, routines with cursors and
//! handlers. Their statements are also said under LOCK TABLES and for a portion of a period, and
//! tables come from other tables.
//!
//! A statement of several rows says in which order it comes to them, since triggers see the order.

use std::collections::VecDeque;

use holdfast_workload::rng::Rng;

use super::super::script::{Statement, Step};
use super::dice::Dice;

/// Values of numbers are below that.
const VALUES: u64 = 9;

/// What the columns of `t0` and `t1` are, beside `id` and `a`.
const TAILS: [&str; 6] = [
    "b INT, c VARCHAR(20)",
    "b INT CHECK (b < 8), c VARCHAR(300) DEFAULT CONCAT('d', a)",
    "b INT INVISIBLE DEFAULT 3, c VARCHAR(3000) COMPRESSED",
    "b INT AS (a + 1) VIRTUAL, c BLOB COMPRESSED",
    "b INT AS (a DIV 2) STORED, c CHAR(5) NOT NULL DEFAULT ''",
    "b INT DEFAULT (id + 1), c TEXT, p POINT DEFAULT POINT(1, 2)",
];
const KEYS: [&str; 5] = [", KEY (a)", ", KEY (a, b)", ", KEY (b), KEY (c(3))", ", UNIQUE (a)", ""];

const EVENTS: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// The tables `t0` and `t1`, what is written down by triggers and routines in `l`, and `q` with a
/// period. What has other names is made from them.
pub struct Stored {
    /// Whether the columns `b` of the tables take a value.
    takes_b: [bool; 2],
    /// True if a table has AUTO_INCREMENT: after a crash the engines count on from other numbers.
    pub counts: bool,
}

impl Stored {
    /// New tables, and the statements that make them.
    pub fn create(rng: &mut Rng) -> (Stored, VecDeque<Step>) {
        let mut story = VecDeque::new();
        let (mut takes_b, mut counts) = ([true; 2], false);
        for (table, takes_b) in takes_b.iter_mut().enumerate() {
            let tail = *rng.one_of(&TAILS);
            *takes_b = !tail.contains(" AS (");
            let numbers = if rng.chance(30) && !tail.contains("(id") { " AUTO_INCREMENT" } else { "" };
            counts |= !numbers.is_empty();
            let key = *rng.one_of(&KEYS);
            story.push_back(Step::say(
                0,
                format!("CREATE TABLE t{table} (id INT{numbers} PRIMARY KEY, a INT, {tail}{key})"),
            ));
        }
        story.push_back(Step::say(0, "CREATE TABLE l (what VARCHAR(20), x INT, KEY (x))"));
        let overlaps = *rng.one_of(&[", UNIQUE (id, p WITHOUT OVERLAPS)", ", KEY (s)", ", PRIMARY KEY (id, s, e)"]);
        story.push_back(Step::say(
            0,
            format!("CREATE TABLE q (id INT, s DATE, e DATE, x INT, PERIOD FOR p (s, e){overlaps})"),
        ));
        (Stored { takes_b, counts }, story)
    }

    /// What comes next.
    pub fn step(&self, rng: &mut Rng) -> VecDeque<Step> {
        let sql = match rng.below(100) {
            0..=7 => trigger(rng),
            8..=9 => {
                format!(
                    "DROP TRIGGER IF EXISTS {}",
                    trigger_name(rng.below(2), rng.below(2), rng.one_of::<&str>(&EVENTS))
                )
            }
            10..=13 => view(rng),
            14..=17 => routine(rng),
            18..=23 => (*rng.one_of(&CALLS)).to_owned(),
            24..=27 => return self.locked(rng),
            28..=31 => table_from_others(rng),
            32..=41 => of_period(rng),
            42..=47 => (*rng.one_of(&TRANSACTIONS)).to_owned(),
            48..=56 => return VecDeque::from([question(rng)]),
            _ => self.change(rng),
        };
        VecDeque::from([Step::say(0, sql)])
    }

    /// Some statements between LOCK TABLES and UNLOCK TABLES.
    fn locked(&self, rng: &mut Rng) -> VecDeque<Step> {
        let modes = ["READ", "WRITE", "WRITE", "READ LOCAL", "WRITE CONCURRENT"];
        let mut locked: Vec<_> =
            ["t0", "t1", "l", "q", "v0", "t0 AS o"].iter().filter(|_| rng.chance(60)).copied().collect();
        if locked.is_empty() {
            locked.push("t0");
        }
        let locked: Vec<_> = locked.iter().map(|table| format!("{table} {}", rng.one_of(&modes))).collect();
        let mut story = VecDeque::from([Step::say(0, format!("LOCK TABLES {}", locked.join(", ")))]);
        for _ in 0..1 + rng.below(6) {
            story.push_back(match rng.below(10) {
                0 => Step::say(0, *rng.one_of(&CALLS)),
                1 => Step::say(0, of_period(rng)),
                2 => {
                    Step::say(0, *rng.one_of(&["TRUNCATE t0", "ALTER TABLE t0 FORCE", "ANALYZE TABLE t1", "ROLLBACK"]))
                }
                3..=4 => question(rng),
                _ => Step::say(0, self.change(rng)),
            });
        }
        story.push_back(Step::say(0, "UNLOCK TABLES"));
        story
    }

    /// A change of rows of a table, or of a view of them.
    fn change(&self, rng: &mut Rng) -> String {
        let table = rng.below(2) as usize;
        let name = if rng.chance(20) { format!("v{table}") } else { format!("t{table}") };
        let value = |rng: &mut Rng| if rng.chance(12) { "NULL".to_owned() } else { rng.below(VALUES).to_string() };
        let (b, also_b) = if self.takes_b[table] && rng.chance(40) { (", b", true) } else { ("", false) };
        let row = |rng: &mut Rng| {
            let b = if also_b { format!(", {}", value(rng)) } else { String::new() };
            format!("({}, {}{b})", rng.below(2 * VALUES), value(rng))
        };
        let returning = if rng.chance(25) { " RETURNING id, a + 1" } else { "" };
        let ignore = if rng.chance(20) { " IGNORE" } else { "" };
        let one = rng.below(VALUES);
        match rng.below(20) {
            0..=5 => {
                let rows: Vec<_> = (0..1 + rng.below(4)).map(|_| row(rng)).collect();
                let update = if rng.chance(30) { " ON DUPLICATE KEY UPDATE a = a + 1, c = VALUES(c)" } else { "" };
                format!("INSERT{ignore} INTO {name} (id, a{b}) VALUES {}{update}{returning}", rows.join(", "))
            }
            6 => format!("REPLACE INTO {name} (id, a{b}) VALUES {}{returning}", row(rng)),
            7 => format!("INSERT{ignore} INTO {name} (id, a) SELECT id + {one}, a FROM t{} ORDER BY id", rng.below(2)),
            8 => format!("INSERT INTO {name} (id, a) SELECT MAX(id) + 1, COUNT(*) FROM t{table}"),
            9..=11 => {
                let set =
                    *rng.one_of(&["a = a + 1", "a = 3", "id = id + 20", "c = 'new'", "a = a - 1, c = REPEAT('y', 90)"]);
                format!("UPDATE{ignore} {name} SET {set} WHERE a >= {one} ORDER BY id")
            }
            12 => format!("UPDATE {name} SET a = (SELECT MAX(x) FROM l) WHERE id = {one}"),
            13 => {
                format!("UPDATE t0 STRAIGHT_JOIN t1 ON t0.id = t1.id SET t0.c = 'both', t1.c = t0.a WHERE t1.a < {one}")
            }
            14..=15 => format!("DELETE{ignore} FROM {name} WHERE a = {one} ORDER BY id"),
            16 => format!("DELETE FROM t{table} WHERE id > {one} ORDER BY id LIMIT 2"),
            17 => format!("DELETE FROM t{table} WHERE id = {one} RETURNING *"),
            18 => format!("DELETE t0, t1 FROM t0 STRAIGHT_JOIN t1 ON t0.id = t1.id WHERE t0.a = {one}"),
            _ => format!("DELETE FROM {}", rng.one_of(&["l", "t0", "t1", "l WHERE x = 3", "q WHERE x = 1"])),
        }
    }
}

const TRANSACTIONS: [&str; 9] = [
    "BEGIN",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT one",
    "ROLLBACK TO one",
    "SET autocommit = 0",
    "SET autocommit = 1",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
];

/// Routines that may be there.
const CALLS: [&str; 8] = [
    "CALL walk(0)",
    "CALL walk(4)",
    "CALL fill(3)",
    "CALL fill(12)",
    "UPDATE t0 SET a = note(a) WHERE id < 6 ORDER BY id",
    "INSERT INTO t1 (id, a) VALUES (note(3), note(4))",
    "SELECT id, note(id) FROM t0 ORDER BY id",
    "DO note(7)",
];

fn trigger_name(table: u64, when: u64, event: &str) -> String {
    format!("{}_{}_t{table}", ["before", "after"][when as usize], event.to_lowercase())
}

fn trigger(rng: &mut Rng) -> String {
    let (table, when, event) = (rng.below(2), rng.below(2), *rng.one_of(&EVENTS));
    let (name, other) = (trigger_name(table, when, event), 1 - table);
    let row = if event == "DELETE" { "OLD" } else { "NEW" };
    let mut bodies = vec![
        format!("INSERT INTO l VALUES ('{name}', {row}.a)"),
        format!("INSERT INTO l SELECT '{name}', COUNT(*) FROM t{other} WHERE a = {row}.a"),
        format!("DELETE FROM l WHERE x = {row}.a"),
        format!("UPDATE t{other} SET c = 'by trigger' WHERE id = {row}.id"),
        format!("INSERT IGNORE INTO t{other} (id, a) VALUES ({row}.id + 1, {row}.a)"),
        format!("REPLACE INTO q VALUES ({row}.id, '2020-01-01', '2020-02-01', {row}.a)"),
        format!("IF {row}.a = 7 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'seven'; END IF"),
        format!(
            "IF EXISTS (SELECT * FROM l WHERE x = {row}.a FOR UPDATE) THEN DELETE FROM t{other} WHERE id = {row}.id; END IF"
        ),
    ];
    if event != "DELETE" && when == 0 {
        bodies.push("SET NEW.a = NEW.a + 1".into());
        bodies.push("SET NEW.c = (SELECT MAX(what) FROM l)".into());
    }
    let when = ["BEFORE", "AFTER"][when as usize];
    format!("CREATE OR REPLACE TRIGGER {name} {when} {event} ON t{table} FOR EACH ROW {}", rng.one_of(&bodies))
}

fn view(rng: &mut Rng) -> String {
    let (table, limit) = (rng.below(2), rng.below(VALUES));
    let checked = *rng.one_of(&["", " WITH CASCADED CHECK OPTION", " WITH LOCAL CHECK OPTION"]);
    match rng.below(5) {
        0 => "CREATE OR REPLACE VIEW w AS SELECT t0.id, t1.a, t0.c FROM t0 JOIN t1 ON t0.a = t1.id".into(),
        1 => format!("CREATE OR REPLACE ALGORITHM=TEMPTABLE VIEW w AS SELECT id, a, c FROM t{table} WHERE a > {limit}"),
        _ => format!("CREATE OR REPLACE VIEW v{table} AS SELECT * FROM t{table} WHERE a > {limit}{checked}"),
    }
}

fn routine(rng: &mut Rng) -> String {
    let commits = if rng.chance(25) { " COMMIT;" } else { "" };
    let locks = *rng.one_of(&["", " FOR UPDATE", " LOCK IN SHARE MODE"]);
    let change = *rng.one_of(&[
        "UPDATE t0 SET a = a + 1 WHERE id = i",
        "DELETE FROM t0 WHERE id = i",
        "INSERT INTO t1 (id, a) VALUES (i, i)",
        "UPDATE t0 SET id = id + 30 WHERE id = i",
        "REPLACE INTO t1 (id, a) VALUES (i + 1, i)",
    ]);
    match rng.below(3) {
        0 => format!(
            "CREATE OR REPLACE PROCEDURE walk(IN least INT) BEGIN DECLARE done, turns, i INT DEFAULT 0; \
             DECLARE c CURSOR FOR SELECT id FROM t0 WHERE a >= least ORDER BY id{locks}; \
             DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1; \
             DECLARE CONTINUE HANDLER FOR SQLEXCEPTION INSERT INTO l VALUES ('handler', i); \
             OPEN c; FETCH c INTO i; \
             WHILE done = 0 AND turns < 30 DO {change};{commits} SET done = 0, turns = turns + 1; FETCH c INTO i; END WHILE; CLOSE c; END"
        ),
        1 => format!(
            "CREATE OR REPLACE PROCEDURE fill(IN n INT) BEGIN DECLARE EXIT HANDLER FOR 1062 ROLLBACK; \
             START TRANSACTION; WHILE n > 0 DO INSERT INTO t1 (id, a) VALUES (n * 2, n); SET n = n - 1; \
             IF n = 2 THEN SAVEPOINT deep; END IF; END WHILE;{} COMMIT; END",
            rng.one_of(&["", " ROLLBACK TO deep;"])
        ),
        _ => format!(
            "CREATE OR REPLACE FUNCTION note(x INT) RETURNS INT BEGIN {}; RETURN {}; END",
            rng.one_of(&["INSERT INTO l VALUES ('note', x)", "DELETE FROM l WHERE x = 5", "SET @noted = x"]),
            rng.one_of(&["x + 1", "(SELECT COUNT(*) FROM t1 WHERE a = x)", "(SELECT MAX(x) FROM l)"]),
        ),
    }
}

/// A table that takes definition and rows from others.
fn table_from_others(rng: &mut Rng) -> String {
    let table = rng.below(2);
    let how = *rng.one_of(&["TABLE", "TABLE IF NOT EXISTS", "OR REPLACE TABLE", "OR REPLACE TEMPORARY TABLE"]);
    match rng.below(8) {
        0 => format!("CREATE {how} n LIKE t{table}"),
        1 => format!("CREATE {how} n (KEY (a)) AS SELECT id, a FROM t{table}"),
        2 => format!("CREATE {how} n (id INT PRIMARY KEY) AS SELECT a AS id, c FROM t{table} ORDER BY t{table}.id"),
        3 => format!("CREATE {how} n (a INT UNIQUE) AS SELECT a FROM t{table}"),
        4 => "DROP TABLE IF EXISTS n".into(),
        5 => format!("INSERT INTO n (a) SELECT a FROM t{table}"),
        6 => "DELETE FROM n WHERE a < 4".into(),
        _ => "CREATE OR REPLACE TABLE n AS SELECT * FROM q WHERE x > 2".into(),
    }
}

/// A change of the table with a period.
fn of_period(rng: &mut Rng) -> String {
    let day = |rng: &mut Rng| 1 + rng.below(27);
    let (from, to, id, x) = (day(rng), day(rng), rng.below(4), rng.below(VALUES));
    let portion = format!("FOR PORTION OF p FROM '2020-01-{from:02}' TO '2020-01-{to:02}'");
    match rng.below(7) {
        0..=2 => format!("INSERT INTO q VALUES ({id}, '2020-01-{from:02}', '2020-02-{to:02}', {x})"),
        3 => format!("UPDATE q {portion} SET x = x + 1 WHERE id = {id}"),
        4 => format!("UPDATE q {portion} SET x = {x}, id = id + 1 WHERE x > {x}"),
        5 => format!("DELETE FROM q {portion} WHERE id = {id}"),
        _ => format!("REPLACE INTO q VALUES ({id}, '2020-01-{from:02}', '2020-01-28', {x})"),
    }
}

/// A read, in an order if it says one.
fn question(rng: &mut Rng) -> Step {
    let (table, one) = (rng.below(2), rng.below(VALUES));
    let sql = match rng.below(12) {
        0 => format!("SELECT id, SUM(a) OVER (ORDER BY id ROWS 1 PRECEDING) FROM t{table} ORDER BY id"),
        1 => format!("SELECT a, COUNT(*) FROM t{table} GROUP BY a WITH ROLLUP"),
        2 => "SELECT a FROM t0 INTERSECT SELECT a FROM t1 ORDER BY a".into(),
        3 => "SELECT id FROM t0 EXCEPT ALL SELECT a FROM t1 ORDER BY id".into(),
        4 => format!(
            "WITH RECURSIVE r (n) AS (SELECT {one} UNION SELECT t{table}.a FROM r JOIN t{table} ON t{table}.id = r.n) \
             SELECT n FROM r ORDER BY n"
        ),
        5 => "SELECT STRAIGHT_JOIN t0.id, t1.id FROM t0 JOIN t1 ON t0.a = t1.a ORDER BY t0.id, t1.id".into(),
        6 => format!("SELECT id, a, c FROM v{table} ORDER BY id"),
        7 => "SELECT id, a, c FROM w ORDER BY id, a".into(),
        8 => format!("SELECT GROUP_CONCAT(id ORDER BY id), a FROM t{table} GROUP BY a ORDER BY a"),
        9 => format!("SELECT id, ROW_NUMBER() OVER (PARTITION BY a ORDER BY id) FROM t{table} ORDER BY id DESC"),
        10 => format!("SELECT id, s, e, x FROM q WHERE s <= '2020-01-1{one}' ORDER BY id, s, e, x"),
        _ => format!("SELECT a INTO @taken FROM t{table} WHERE id = {one} FOR UPDATE"),
    };
    let ordered = sql.contains("ORDER BY");
    Step::Say(Statement { session: 0, sql, ordered })
}
