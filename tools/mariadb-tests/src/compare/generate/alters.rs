//! A table whose definition changes and changes: columns are added, dropped, moved and renamed and
//! get other types, indexes come and go, rows are changed, transactions rolled back. A change that
//! this engine can make instantly has to be instant.

use std::collections::VecDeque;

use holdfast_workload::rng::Rng;

use super::super::script::{AT_ONCE, ENGINE, Statement, Step};

/// At most so many columns, without those that every table has.
const COLUMNS: usize = 12;

/// What a column can be; of texts, how long they can be.
#[derive(Clone, Copy)]
enum Kind {
    Int,
    BigInt,
    Double,
    Decimal,
    DateTime,
    Enum,
    Bit,
    Char,
    WideChar,
    Binary,
    VarChar(u64),
    Text(&'static str, u64),
}

const KINDS: [Kind; 16] = [
    Kind::Int,
    Kind::Int,
    Kind::BigInt,
    Kind::Double,
    Kind::Decimal,
    Kind::DateTime,
    Kind::Enum,
    Kind::Bit,
    Kind::Char,
    Kind::WideChar,
    Kind::Binary,
    Kind::VarChar(20),
    Kind::VarChar(400),
    Kind::Text("TINYTEXT", 255),
    Kind::Text("TEXT", 4000),
    Kind::Text("LONGBLOB", 9000),
];

/// Columns with defaults by functions of which a value takes a part, or which are none as they are.
const LOOSE: [&str; 15] = [
    "DATE DEFAULT NOW()",
    "DATE NOT NULL DEFAULT CURRENT_TIMESTAMP",
    "TIME DEFAULT CURRENT_TIMESTAMP",
    "DATETIME DEFAULT NOW(3)",
    "TINYINT DEFAULT (YEAR(NOW()))",
    "TINYINT DEFAULT (500 + 500)",
    "SMALLINT UNSIGNED NOT NULL DEFAULT (DAY(NOW()) - 99)",
    "INT DEFAULT (CONCAT(YEAR(NOW()), 'x'))",
    "DOUBLE DEFAULT (CONCAT(YEAR(NOW()), 'x'))",
    "DECIMAL(4,1) DEFAULT (YEAR(NOW()) * 7)",
    "VARCHAR(2) DEFAULT (YEAR(NOW()))",
    "VARCHAR(4) DEFAULT (YEAR(NOW()))",
    "VARCHAR(4) DEFAULT (USER())",
    "CHAR(3) NOT NULL DEFAULT (CONCAT('ab', YEAR(NOW())))",
    "ENUM('p', 'q') DEFAULT (CONCAT('p', YEAR(NOW())))",
];
const MODES: [&str; 4] = ["", "", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES,NO_ZERO_DATE"];

impl Kind {
    fn sql(self) -> String {
        match self {
            Kind::Int => "INT".into(),
            Kind::BigInt => "BIGINT UNSIGNED".into(),
            Kind::Double => "DOUBLE".into(),
            Kind::Decimal => "DECIMAL(12,3)".into(),
            Kind::DateTime => "DATETIME(3)".into(),
            Kind::Enum => "ENUM('p', 'q', 'r')".into(),
            Kind::Bit => "BIT(11)".into(),
            Kind::Char => "CHAR(10)".into(),
            Kind::WideChar => "CHAR(7) CHARACTER SET utf8mb4".into(),
            Kind::Binary => "BINARY(5)".into(),
            Kind::VarChar(n) => format!("VARCHAR({n})"),
            Kind::Text(name, _) => name.into(),
        }
    }

    fn value(self, rng: &mut Rng) -> String {
        let n = rng.below(100);
        match self {
            Kind::Int => format!("{}", n as i64 - 50),
            Kind::BigInt => format!("{}", n * 1_000_000_007),
            Kind::Double => format!("{n}.25"),
            Kind::Decimal => format!("{n}.125"),
            Kind::DateTime => format!("'2026-01-02 03:04:05.{:03}'", n * 7),
            Kind::Enum => ["'p'", "'q'", "'r'"][n as usize % 3].into(),
            Kind::Bit => format!("{}", n * 20),
            Kind::Char => format!("'c{n}'"),
            Kind::WideChar => format!("REPEAT(CHAR(0xC3BC USING utf8mb4), {})", n % 8),
            Kind::Binary => format!("'b{n}'"),
            Kind::VarChar(most) | Kind::Text(_, most) => {
                let length = if n < 70 { rng.below(9) } else { rng.below(most + 1) };
                format!("REPEAT('{}', {length})", char::from(b'a' + (n % 26) as u8))
            }
        }
    }

    /// True if an index can have it as it is.
    fn is_short(self) -> bool {
        !matches!(self, Kind::Text(..))
    }
}

#[derive(Clone)]
struct Column {
    name: String,
    kind: Kind,
    nullable: bool,
    /// It has an index, of its own name.
    indexed: bool,
}

impl Column {
    fn definition(&self) -> String {
        format!("{} {}", self.kind.sql(), if self.nullable { "NULL" } else { "NOT NULL" })
    }

    fn value(&self, rng: &mut Rng) -> String {
        if self.nullable && rng.below(4) == 0 { "NULL".into() } else { self.kind.value(rng) }
    }
}

/// A table `t`: `id`, `computed`, which is virtual and may not be there, and the columns.
pub struct Table {
    columns: Vec<Column>,
    has_computed: bool,
    next_name: u64,
    next_id: u64,
}

impl Table {
    /// A table, and what creates it.
    pub fn create(rng: &mut Rng) -> (Table, VecDeque<Step>) {
        let mut table = Table { columns: Vec::new(), has_computed: false, next_name: 0, next_id: 1 };
        let mut sql = String::from("CREATE TABLE t (id INT NOT NULL");
        for _ in 0..rng.below(6) {
            let column = table.new_column(rng);
            sql += &format!(", {} {}", column.name, column.definition());
            table.columns.push(column);
        }
        sql += [", PRIMARY KEY (id)", ", KEY (id)"][usize::from(rng.below(3) == 0)];
        sql += ")";
        sql += ["", "", " PARTITION BY HASH (id) PARTITIONS 3"][rng.below(3) as usize];
        (table, steps(["SET sql_mode = ''".into(), sql]))
    }

    /// What shows whether two tables have the same: by one of the indexes or columns.
    fn question(&self, rng: &mut Rng) -> Step {
        let ordered = |sql| Step::Say(Statement { session: 0, sql, ordered: true });
        match self.any(rng) {
            Some(Column { name, indexed: true, .. }) => {
                ordered(format!("SELECT {name}, id FROM t FORCE INDEX (i_{name}) ORDER BY {name}, id"))
            }
            Some(Column { name, .. }) => ordered(format!("SELECT id FROM t WHERE {name} IS NULL ORDER BY id")),
            None => ordered("SELECT * FROM t ORDER BY id".into()),
        }
    }

    /// Something that can be done to the table.
    pub fn step(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        match rng.below(25) {
            0..=7 => steps([self.alter(rng)]),
            8..=12 => steps([self.insert(rng)]),
            13..=16 => steps([self.update(rng)]),
            17 => steps([format!("DELETE FROM t WHERE id % 11 = {} OR id + 60 < {}", rng.below(11), self.next_id)]),
            18 => {
                let changes = [self.update(rng), self.update(rng)];
                let rolled_back = ["DELETE FROM t WHERE id % 3 = 0".into(), "ROLLBACK".into()];
                steps(["BEGIN".into()].into_iter().chain(changes).chain(rolled_back))
            }
            19 => steps([self.change_indexes(rng)]),
            20 => self.add_loosely(rng),
            _ => VecDeque::from([self.question(rng)]),
        }
    }

    fn new_name(&mut self) -> String {
        self.next_name += 1;
        format!("c{}", self.next_name)
    }

    fn new_column(&mut self, rng: &mut Rng) -> Column {
        let kind = KINDS[rng.below(KINDS.len() as u64) as usize];
        Column { name: self.new_name(), kind, nullable: rng.below(3) > 0, indexed: false }
    }

    fn insert(&mut self, rng: &mut Rng) -> String {
        let given: Vec<Column> = self.columns.iter().filter(|_| rng.below(4) > 0).cloned().collect();
        let names: String = given.iter().map(|column| format!(", {}", column.name)).collect();
        let mut rows = Vec::new();
        for _ in 0..=rng.below(4) {
            let values: String = given.iter().map(|column| format!(", {}", column.value(rng))).collect();
            rows.push(format!("({}{values})", self.next_id));
            self.next_id += 1;
        }
        format!("INSERT INTO t (id{names}) VALUES {}", rows.join(", "))
    }

    fn update(&self, rng: &mut Rng) -> String {
        let some = rng.below(5);
        match self.any(rng) {
            Some(column) => format!("UPDATE t SET {} = {} WHERE id % 5 = {some}", column.name, column.value(rng)),
            None => format!("UPDATE t SET id = id WHERE id % 5 = {some}"),
        }
    }

    fn any(&self, rng: &mut Rng) -> Option<&Column> {
        (!self.columns.is_empty()).then(|| &self.columns[rng.below(self.columns.len() as u64) as usize])
    }

    /// A column comes whose default does not fit, if the sql_mode lets it, and goes again before
    /// anything has to be instant.
    fn add_loosely(&mut self, rng: &mut Rng) -> VecDeque<Step> {
        let (name, column) = (self.new_name(), LOOSE[rng.below(LOOSE.len() as u64) as usize]);
        let mode = MODES[rng.below(MODES.len() as u64) as usize];
        let place = ["", "", " FIRST", " AFTER id"][rng.below(4) as usize];
        let mut story =
            steps([format!("SET sql_mode = '{mode}'"), format!("ALTER TABLE t ADD {name} {column}{place}")]);
        let sql = format!("SELECT id, {name} FROM t ORDER BY id");
        story.push_back(Step::Say(Statement { session: 0, sql, ordered: true }));
        let (insert, update) = (self.insert(rng), self.update(rng));
        if rng.below(2) == 0 {
            story.push_back(Step::say(0, insert));
        }
        story.push_back(Step::say(0, "SET sql_mode = ''"));
        story.extend(steps([update, format!("ALTER TABLE t DROP COLUMN IF EXISTS {name}")]));
        story
    }

    /// An index comes or goes, with a column that comes, or a column with its index.
    fn change_indexes(&mut self, rng: &mut Rng) -> String {
        let Some(i) = (!self.columns.is_empty()).then(|| rng.below(self.columns.len() as u64) as usize) else {
            return "ALTER TABLE t FORCE".into();
        };
        let column = &mut self.columns[i];
        let name = column.name.clone();
        if column.indexed && rng.below(2) == 0 {
            self.columns.remove(i);
            return format!("ALTER TABLE t DROP KEY i_{name}, DROP {name}");
        }
        if !column.kind.is_short() {
            return format!("ALTER TABLE t ENGINE={ENGINE}");
        }
        column.indexed = !column.indexed;
        let change = if column.indexed { format!("ADD KEY i_{name} ({name})") } else { format!("DROP KEY i_{name}") };
        format!("ALTER TABLE t {change}")
    }

    /// Some changes of columns that can be made at once.
    fn alter(&mut self, rng: &mut Rng) -> String {
        let mut statement =
            Alter { kept: self.columns.clone(), clauses: Vec::new(), done: Vec::new(), gone: Vec::new() };
        for _ in 0..=rng.below(3) {
            statement.add_clause(self, rng);
        }
        if rng.below(8) == 0 {
            let place = statement.place(rng);
            statement.clauses.push(format!("MODIFY id INT NOT NULL{place}"));
        }
        if rng.below(6) == 0 {
            let change = if self.has_computed { "DROP computed" } else { "ADD computed INT AS (id * 2) VIRTUAL" };
            statement.clauses.push(change.into());
            self.has_computed = !self.has_computed;
        }
        if statement.clauses.is_empty() {
            statement.clauses.push("COMMENT = 'nothing'".into());
        }
        let sql = format!("ALTER TABLE t {}{AT_ONCE}", statement.clauses.join(", "));
        self.columns = statement.kept.into_iter().chain(statement.done).collect();
        sql
    }
}

/// Steps of the only session.
fn steps(statements: impl IntoIterator<Item = String>) -> VecDeque<Step> {
    statements.into_iter().map(|sql| Step::say(0, sql)).collect()
}

/// A statement that is being written. It names every column once.
struct Alter {
    /// Columns that it has not named yet.
    kept: Vec<Column>,
    clauses: Vec<String>,
    /// Columns as they will be.
    done: Vec<Column>,
    /// Names that columns had.
    gone: Vec<String>,
}

impl Alter {
    fn add_clause(&mut self, table: &mut Table, rng: &mut Rng) {
        let is_full = self.kept.len() + self.done.len() >= COLUMNS;
        if self.kept.is_empty() || (!is_full && rng.below(3) == 0) {
            return self.add(table, rng);
        }
        let column = self.kept.remove(rng.below(self.kept.len() as u64) as usize);
        let name = column.name.clone();
        match rng.below(8) {
            0..=2 if !column.indexed => {
                self.clauses.push(format!("DROP {name}"));
                self.gone.push(name);
            }
            3 if !column.indexed => self.rename(column, table, rng),
            4 if !column.indexed => self.widen(column, rng),
            _ => {
                let place = self.place(rng);
                self.clauses.push(format!("MODIFY {name} {}{place}", column.definition()));
                self.done.push(column);
            }
        }
    }

    /// Where a column comes to stand. The one before it stays as it is.
    fn place(&mut self, rng: &mut Rng) -> String {
        match rng.below(4) {
            0 => " FIRST".into(),
            1 | 2 if !self.kept.is_empty() => {
                let before = self.kept.remove(rng.below(self.kept.len() as u64) as usize);
                let place = format!(" AFTER {}", before.name);
                self.done.push(before);
                place
            }
            _ => String::new(),
        }
    }

    /// A new column, maybe of a name that another one has had.
    fn add(&mut self, table: &mut Table, rng: &mut Rng) {
        let mut column = table.new_column(rng);
        if let Some(name) = self.gone.pop() {
            column.name = name;
        }
        let default = if rng.below(3) > 0 { format!(" DEFAULT ({})", column.value(rng)) } else { String::new() };
        let default = if default.contains("NULL") { String::new() } else { default };
        let place = self.place(rng);
        self.clauses.push(format!("ADD {} {}{default}{place}", column.name, column.definition()));
        self.done.push(column);
    }

    fn rename(&mut self, mut column: Column, table: &mut Table, rng: &mut Rng) {
        let name = self.gone.pop().unwrap_or_else(|| table.new_name());
        let place = self.place(rng);
        self.clauses.push(format!("CHANGE {} {name} {}{place}", column.name, column.definition()));
        column.name = name;
        self.done.push(column);
    }

    /// It may have longer values, or NULL.
    fn widen(&mut self, mut column: Column, rng: &mut Rng) {
        column.nullable = true;
        if let Kind::VarChar(n) = &mut column.kind {
            *n += rng.below(300);
        }
        let place = self.place(rng);
        self.clauses.push(format!("MODIFY {} {}{place}", column.name, column.definition()));
        self.done.push(column);
    }
}
