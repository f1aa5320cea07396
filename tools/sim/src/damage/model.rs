//! What a database was promised to hold, and all that it ever held.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// Keys and values.
pub type Rows = BTreeMap<String, String>;

/// One table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    /// Its file.
    pub file: String,
    /// True if its entries are made by its user, as a server makes them.
    pub raw: bool,
    /// The committed rows.
    pub rows: Rows,
    /// All rows that ever were there, also of transactions that did not commit, as hashes.
    pub existed: BTreeSet<u64>,
    /// Keys that an unfinished or prepared transaction has locked.
    pub locked: BTreeSet<String>,
    /// What the prepared transaction makes of rows: a new value, or nothing.
    pub prepared: BTreeMap<String, Option<String>>,
}

impl Table {
    /// Puts a row, committed.
    pub fn put(&mut self, key: String, value: String) {
        self.existed.insert(hash(&key, &value));
        self.rows.insert(key, value);
    }

    /// Notes a row that a transaction has put and not committed.
    pub fn note(&mut self, key: &str, value: &str) {
        self.existed.insert(hash(key, value));
        self.locked.insert(key.to_owned());
    }

    /// The prepared transaction has ended.
    pub fn end_prepared(&mut self, committed: bool) {
        self.locked.clear();
        for (key, value) in std::mem::take(&mut self.prepared).into_iter().filter(|_| committed) {
            match value {
                Some(value) => drop(self.rows.insert(key, value)),
                None => drop(self.rows.remove(&key)),
            }
        }
    }

    /// True if there ever was such a row.
    pub fn has_existed(&self, key: &str, value: &str) -> bool {
        self.existed.contains(&hash(key, value))
    }
}

fn hash(key: &str, value: &str) -> u64 {
    // The standard library's hasher without a seed: the same in every process of one build.
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    (key, value).hash(&mut hasher);
    hasher.finish()
}

/// Tables by name.
pub type Tables = BTreeMap<String, Table>;

/// Version `version` of a row: tag and bucket are what the indexes are over.
#[must_use]
pub fn value(no: u64, version: u64, len: usize) -> String {
    let body: String = format!("{no}.{version};").chars().cycle().take(len).collect();
    format!("tag{no}.{version} bucket{} {body}", (no + version) % 5)
}

/// A word of a value: 0 the tag, 1 the bucket.
#[must_use]
pub fn word(value: &str, n: usize) -> &str {
    value.split(' ').nth(n).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_was_replaced_has_existed() {
        let mut table = Table::default();
        table.put("k".into(), value(1, 1, 3));
        table.put("k".into(), value(1, 2, 3));
        table.note("l", "x");
        assert!(table.has_existed("k", &value(1, 1, 3)) && table.has_existed("l", "x"));
        assert!(!table.has_existed("k", "x") && !table.rows.contains_key("l"));
        assert_eq!((word(&value(7, 1, 0), 0), word(&value(7, 1, 0), 1)), ("tag7.1", "bucket3"));
    }
}
