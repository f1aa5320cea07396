//! A few tables with FOREIGN KEYs of all actions, to each other and to themselves. Rows are
//! inserted, deleted and changed, transactions are rolled back, references, indexes and names
//! change.

use std::collections::VecDeque;

use holdfast_workload::rng::Rng;

use super::super::script::{Statement, Step};

const TABLES: u64 = 4;
/// Values of all columns are below that: rows often find others to refer to.
const VALUES: u64 = 12;
const ACTIONS: [&str; 5] = ["", " CASCADE", " CASCADE", " SET NULL", " NO ACTION"];

#[derive(Clone)]
struct Reference {
    name: String,
    table: u64,
}

/// The tables: `t0` and so on, or `u0` where one has the other of its two names.
pub struct Schema {
    other_name: Vec<bool>,
    /// The columns of each beside `id`, which change their names too.
    columns: Vec<[String; 2]>,
    /// True if `a` has a unique index. A row that violates it and a reference is refused for one or
    /// the other, and nothing may depend on which.
    unique: Vec<bool>,
    references: Vec<Reference>,
    names_given: u64,
}

impl Schema {
    /// New tables, and the statements that make them.
    pub fn create(rng: &mut Rng) -> (Schema, VecDeque<Step>) {
        let columns = (0..TABLES).map(|_| ["a".into(), "b".into()]).collect();
        let unique: Vec<bool> = (0..TABLES).map(|_| rng.below(3) == 0).collect();
        let other_name = vec![false; TABLES as usize];
        let mut schema = Schema { other_name, columns, unique, references: Vec::new(), names_given: 0 };
        let mut story = VecDeque::new();
        for table in 0..TABLES {
            let unique = if schema.unique[table as usize] { "UNIQUE " } else { "" };
            let keys = format!("{unique}KEY ka (a), KEY kab (a, b), KEY kb (b)");
            let create = format!("CREATE TABLE t{table} (id INT PRIMARY KEY, a INT, b INT, {keys})");
            story.push_back(Step::say(0, create));
        }
        for _ in 0..3 + rng.below(4) {
            story.push_back(Step::say(0, schema.add_reference(rng)));
        }
        (schema, story)
    }

    fn name(&self, table: u64) -> String {
        format!("{}{table}", if self.other_name[table as usize] { 'u' } else { 't' })
    }

    fn column<'a>(&'a self, table: u64, rng: &mut Rng) -> &'a str {
        match rng.below(3) {
            0 => "id",
            n => &self.columns[table as usize][n as usize - 1],
        }
    }

    /// What shows whether a table is the same, by an index.
    fn question(&self, table: u64) -> Step {
        let (name, [_, b]) = (self.name(table), &self.columns[table as usize]);
        let sql = format!("SELECT id FROM {name} FORCE INDEX (kb) WHERE {b} >= 0 ORDER BY {b}, id");
        Step::Say(Statement { session: 0, sql, ordered: true })
    }

    /// What refers to what.
    fn references(&self) -> String {
        "SELECT CONSTRAINT_NAME, TABLE_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME \
         FROM information_schema.KEY_COLUMN_USAGE WHERE CONSTRAINT_SCHEMA = DATABASE()"
            .into()
    }

    /// What comes next.
    pub fn step(&mut self, rng: &mut Rng) -> Step {
        let table = rng.below(TABLES);
        let sql = match rng.below(110) {
            0..=34 => self.insert(table, rng),
            35..=54 => self.update(table, rng),
            55..=74 => self.delete(table, rng),
            75..=78 => "BEGIN".into(),
            79..=80 => "COMMIT".into(),
            81..=83 => "ROLLBACK".into(),
            84..=86 => self.add_reference(rng),
            87..=88 => self.drop_reference(rng),
            89..=90 => self.rename_table(table),
            91..=92 => self.rename_column(table, rng),
            93 => format!("ALTER TABLE {} FORCE, ALGORITHM=COPY", self.name(table)),
            94..=95 => format!("TRUNCATE {}", self.name(table)),
            96 => {
                let column = &self.columns[table as usize][0];
                format!("ALTER TABLE {} DROP KEY ka, ADD KEY ka ({column})", self.name(table))
            }
            97 => format!("ALTER TABLE {} DROP KEY kab", self.name(table)),
            98..=99 => self.replace(table, rng),
            100 => self.references(),
            101 => {
                let key = ["KEY ka", "KEY kb", "PRIMARY KEY"][rng.below(3) as usize];
                format!("ALTER TABLE {} DROP {key}, ALGORITHM=COPY", self.name(table))
            }
            102 => {
                let [a, b] = &self.columns[table as usize];
                let keys = format!("ADD KEY IF NOT EXISTS ka ({a}), ADD KEY IF NOT EXISTS kb ({b})");
                format!("ALTER TABLE {} {keys}", self.name(table))
            }
            _ => return self.question(table),
        };
        Step::say(0, sql)
    }

    fn value(&self, rng: &mut Rng) -> String {
        if rng.below(6) == 0 { "NULL".into() } else { rng.below(VALUES).to_string() }
    }

    fn row(&self, rng: &mut Rng) -> String {
        format!("({}, {}, {})", rng.below(VALUES), self.value(rng), self.value(rng))
    }

    fn insert(&self, table: u64, rng: &mut Rng) -> String {
        let ignore = self.ignore(table, rng);
        let rows: Vec<_> = (0..1 + rng.below(4)).map(|_| self.row(rng)).collect();
        let [a, b] = &self.columns[table as usize];
        let update = match rng.below(4) {
            0 if !self.unique[table as usize] => {
                format!(" ON DUPLICATE KEY UPDATE {} = {}", [a, b][rng.below(2) as usize], self.value(rng))
            }
            _ => String::new(),
        };
        format!("INSERT{ignore} INTO {} VALUES {}{update}", self.name(table), rows.join(", "))
    }

    fn ignore(&self, table: u64, rng: &mut Rng) -> &'static str {
        if rng.below(3) == 0 && !self.unique[table as usize] { " IGNORE" } else { "" }
    }

    fn replace(&self, table: u64, rng: &mut Rng) -> String {
        let verb = if self.unique[table as usize] { "INSERT" } else { "REPLACE" };
        format!("{verb} INTO {} VALUES {}", self.name(table), self.row(rng))
    }

    fn some_rows(&self, table: u64, rng: &mut Rng) -> String {
        let column = self.column(table, rng);
        match rng.below(3) {
            0 => format!(" WHERE {column} > {} ORDER BY id", rng.below(VALUES)),
            _ => format!(" WHERE {column} = {} ORDER BY id", rng.below(VALUES)),
        }
    }

    fn update(&self, table: u64, rng: &mut Rng) -> String {
        let column = self.column(table, rng);
        let value = match rng.below(3) {
            0 if column != "id" => format!("{column} + 1"),
            _ if column == "id" => rng.below(VALUES).to_string(),
            _ => self.value(rng),
        };
        let ignore = self.ignore(table, rng);
        format!("UPDATE{ignore} {} SET {column} = {value}{}", self.name(table), self.some_rows(table, rng))
    }

    fn delete(&self, table: u64, rng: &mut Rng) -> String {
        let ignore = self.ignore(table, rng);
        format!("DELETE{ignore} FROM {}{}", self.name(table), self.some_rows(table, rng))
    }

    fn add_reference(&mut self, rng: &mut Rng) -> String {
        let (child, parent) = (rng.below(TABLES), rng.below(TABLES));
        let (columns, others, nullable) = if child == parent {
            // InnoDB does not let a row refer to itself but under its primary key.
            (self.columns[child as usize][rng.below(2) as usize].clone(), "id".to_owned(), true)
        } else if rng.below(5) == 0 {
            let both = |table: u64| self.columns[table as usize].join(", ");
            (both(child), both(parent), true)
        } else {
            let column = self.column(child, rng);
            (column.to_owned(), self.column(parent, rng).to_owned(), column != "id")
        };
        let action = |rng: &mut Rng, when: &str| match ACTIONS[rng.below(ACTIONS.len() as u64) as usize] {
            " SET NULL" if !nullable => String::new(),
            // InnoDB keeps a row that refers to itself for itself.
            "" | " NO ACTION" if when == "DELETE" && child == parent => " ON DELETE CASCADE".into(),
            "" => String::new(),
            action => format!(" ON {when}{action}"),
        };
        let actions = action(rng, "DELETE") + &action(rng, "UPDATE");
        let name = format!("r{}", self.names_given);
        self.names_given += 1;
        self.references.push(Reference { name: name.clone(), table: child });
        let (child, parent) = (self.name(child), self.name(parent));
        format!(
            "ALTER TABLE {child} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) REFERENCES {parent} ({others}){actions}"
        )
    }

    /// One that could not be added cannot be dropped either.
    fn drop_reference(&mut self, rng: &mut Rng) -> String {
        let at = rng.below(self.references.len() as u64) as usize;
        let Reference { name, table } = self.references[at].clone();
        format!("ALTER TABLE {} DROP FOREIGN KEY IF EXISTS {name}", self.name(table))
    }

    fn rename_table(&mut self, table: u64) -> String {
        let from = self.name(table);
        self.other_name[table as usize] ^= true;
        format!("RENAME TABLE {from} TO {}", self.name(table))
    }

    fn rename_column(&mut self, table: u64, rng: &mut Rng) -> String {
        let which = rng.below(2) as usize;
        let to = match self.columns[table as usize][which].as_str() {
            "a" => "aa",
            "aa" => "a",
            "b" => "bb",
            _ => "b",
        };
        let from = std::mem::replace(&mut self.columns[table as usize][which], to.into());
        format!("ALTER TABLE {} RENAME COLUMN {from} TO {to}", self.name(table))
    }
}
