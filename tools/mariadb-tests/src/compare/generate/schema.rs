//! What the generators know of the tables: enough to say statements about them that make sense.

use holdfast_workload::rng::Rng;

use super::dice::Dice;
use super::kinds::Kind;

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub null: bool,
    /// As it stands in the definition, with `DEFAULT` before it.
    pub default: String,
    /// The expression, and whether it is stored.
    pub generated: Option<(String, bool)>,
    pub counts: bool,
}

impl Column {
    /// As it stands in a definition, behind its name.
    pub fn definition(&self) -> String {
        let kind = self.kind.sql();
        if let Some((expression, stored)) = &self.generated {
            return format!("{kind} AS ({expression}) {}", if *stored { "STORED" } else { "VIRTUAL" });
        }
        let null = if self.null { "" } else { " NOT NULL" };
        // Else it would have a default that changes.
        let null = if self.null && matches!(self.kind, Kind::Timestamp(_)) { " NULL" } else { null };
        let counts = if self.counts { " AUTO_INCREMENT" } else { "" };
        format!("{kind}{null}{}{counts}", self.default)
    }

    /// True if rows are without it.
    pub fn is_virtual(&self) -> bool {
        matches!(self.generated, Some((_, false)))
    }

    /// A value of it, or NULL where that may be (and now and then where not).
    pub fn value(&self, rng: &mut Rng) -> String {
        let percent = if self.null { 15 } else { 1 };
        if rng.chance(percent) { "NULL".into() } else { self.kind.literal(rng) }
    }
}

/// A column in a key.
#[derive(Clone, Debug)]
pub struct Part {
    pub column: String,
    pub prefix: Option<u64>,
    pub descending: bool,
}

impl Part {
    fn sql(&self) -> String {
        let prefix = self.prefix.map_or(String::new(), |n| format!("({n})"));
        format!("{}{prefix}{}", self.column, if self.descending { " DESC" } else { "" })
    }
}

/// The parts of a key, in parentheses.
pub fn parts(parts: &[Part]) -> String {
    format!("({})", parts.iter().map(Part::sql).collect::<Vec<_>>().join(", "))
}

/// An index beside the primary key.
#[derive(Clone, Debug)]
pub struct Key {
    pub name: String,
    pub unique: bool,
    pub parts: Vec<Part>,
}

impl Key {
    /// As it stands in a definition.
    pub fn sql(&self) -> String {
        format!("{}KEY {} {}", if self.unique { "UNIQUE " } else { "" }, self.name, parts(&self.parts))
    }
}

/// A partition.
#[derive(Clone, Debug)]
pub struct Partition {
    pub name: String,
    /// Behind its name in a definition.
    pub values: String,
}

impl Partition {
    /// As it stands in a definition.
    pub fn sql(&self) -> String {
        format!("PARTITION {} {}", self.name, self.values)
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    pub primary: Vec<Part>,
    pub keys: Vec<Key>,
    /// Behind the parentheses of the definition.
    pub tail: String,
    /// Its partitions, if they have names.
    pub partitions: Vec<Partition>,
    pub partitioned: bool,
    pub versioned: bool,
    /// The only session that sees it.
    pub temporary: Option<usize>,
    /// The FOREIGN KEYs in it, as they stand in the definition.
    pub references: Vec<String>,
}

impl Table {
    /// A column that can be written to.
    pub fn writable(&self, rng: &mut Rng) -> &Column {
        let writable: Vec<_> = self.columns.iter().filter(|column| column.generated.is_none()).collect();
        writable[rng.below(writable.len() as u64) as usize]
    }

    /// Any column, more often one of those that are in an index.
    pub fn column(&self, rng: &mut Rng) -> &Column {
        if !self.keys.is_empty() && rng.chance(60) {
            let key = rng.one_of(&self.keys);
            let part = rng.one_of(&key.parts).column.clone();
            if let Some(column) = self.named(&part) {
                return column;
            }
        }
        rng.one_of(&self.columns)
    }

    pub fn named(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// True if CHECKSUM TABLE knows all of it: it takes generated columns into the sum without
    /// reading them.
    pub fn is_summed(&self) -> bool {
        self.columns.iter().all(|column| column.generated.is_none())
    }

    /// Columns whose values no two rows have in common, if there are such.
    pub fn identity(&self) -> Option<Vec<String>> {
        let exact = |part: &Part| {
            part.prefix.is_none() && self.named(&part.column).is_some_and(|column| column.kind.is_exact())
        };
        if self.primary.is_empty() || !self.primary.iter().all(exact) || self.versioned {
            return None;
        }
        Some(self.primary.iter().map(|part| part.column.clone()).collect())
    }

    /// ` ORDER BY` something and what no two rows have in common.
    pub fn total_order(&self, alias: &str, rng: &mut Rng) -> Option<String> {
        let identity = self.identity()?;
        let mut by = Vec::new();
        if rng.chance(60) {
            by.push(self.column(rng).name.clone());
        }
        by.extend(identity);
        let by: Vec<_> =
            by.iter().map(|column| format!("{alias}{column}{}", if rng.chance(30) { " DESC" } else { "" })).collect();
        Some(format!(" ORDER BY {}", by.join(", ")))
    }

    /// The names and parts of all indexes.
    pub fn indexes(&self) -> Vec<(&str, &[Part])> {
        let mut all: Vec<_> = self.keys.iter().map(|key| (key.name.as_str(), key.parts.as_slice())).collect();
        if !self.primary.is_empty() {
            all.push(("PRIMARY", &self.primary));
        }
        all
    }

    /// A hint which index to take, or none.
    pub fn hint(&self, rng: &mut Rng) -> String {
        let names: Vec<&str> = self.indexes().into_iter().map(|(name, _)| name).collect();
        if names.is_empty() || rng.chance(60) {
            return String::new();
        }
        format!(" {} INDEX ({})", rng.one_of(&["FORCE", "FORCE", "IGNORE"]), rng.one_of(&names))
    }
}

/// All that is there.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub tables: Vec<Table>,
    pub sequences: Vec<String>,
    /// How many names have been given.
    pub names: u64,
}

impl Schema {
    pub fn new_name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// A table that the session sees.
    pub fn table(&self, session: usize, rng: &mut Rng) -> Option<&Table> {
        let seen: Vec<_> = self.tables.iter().filter(|t| t.temporary.is_none_or(|owner| owner == session)).collect();
        if seen.is_empty() { None } else { Some(seen[rng.below(seen.len() as u64) as usize]) }
    }

    pub fn table_mut(&mut self, name: &str) -> Option<&mut Table> {
        self.tables.iter_mut().find(|table| table.name == name)
    }
}
