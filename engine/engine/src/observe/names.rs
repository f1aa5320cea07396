//! Whose an index is, and how locks are called, for people.

use std::fmt::Write as _;
use std::ops::Bound;

use holdfast_base::HashMap;
use holdfast_base::{IndexId, checksum};
use holdfast_txn::{KeyRange, LockKind, Serial, WantedLock};

use crate::instance::Instance;

/// An index by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexName {
    /// As the catalog has it; a server's tables are called `schema/table`.
    pub table: String,
    pub index: String,
    pub space: u32,
}

impl IndexName {
    /// The table's name as SQL writes it.
    pub(crate) fn sql_table(&self) -> String {
        let (schema, table) = split(&self.table);
        match schema {
            Some(schema) => format!("`{schema}`.`{table}`"),
            None => format!("`{table}`"),
        }
    }
}

/// Schema and table of a name in the catalog.
pub(crate) fn split(name: &str) -> (Option<&str>, &str) {
    name.split_once('/').map_or((None, name), |(schema, table)| (Some(schema), table))
}

/// The names of all indexes at one moment.
pub(crate) struct Names(HashMap<IndexId, IndexName>);

impl Names {
    pub(crate) fn of(instance: &Instance) -> Names {
        let mut names = HashMap::default();
        let mut add = |id, table: &str, index: &str, space| {
            names.insert(id, IndexName { table: table.into(), index: index.into(), space });
        };
        add(instance.catalog.index.id(), "SYS_CATALOG", "PRIMARY", instance.system.id().0);
        add(instance.txns.version_tree().index(), "SYS_VERSIONS", "PRIMARY", instance.undo.id().0);
        for table in instance.schema().tables() {
            let space = table.record.space.0;
            for (no, index) in table.store.indexes().into_iter().flatten().enumerate() {
                let name = if no == 0 { "PRIMARY" } else { &table.record.indexes[no - 1].name };
                add(index.id(), &table.name, name, space);
            }
        }
        Names(names)
    }

    pub(crate) fn get(&self, id: IndexId) -> Option<&IndexName> {
        self.0.get(&id)
    }

    /// A lock that transaction `serial` waits for, in the words of InnoDB's monitor.
    pub(crate) fn wanted(&self, serial: Serial, lock: &WantedLock) -> String {
        let intention = if matches!(lock.kind, LockKind::Range(_)) { " insert intention" } else { "" };
        let (mode, place) = (lock.mode, self.place(serial, lock));
        format!("{place} lock mode {mode}{intention} waiting{}", key_line(&lock.kind))
    }

    /// What transaction `serial` holds there, whatever its mode.
    pub(crate) fn held(&self, serial: Serial, lock: &WantedLock) -> String {
        format!("{}{}", self.place(serial, lock), key_line(&lock.kind))
    }

    fn place(&self, serial: Serial, lock: &WantedLock) -> String {
        let what = match lock.kind {
            LockKind::Row(_) => "RECORD LOCKS",
            LockKind::Range(_) => "RANGE LOCKS",
            LockKind::Table => "TABLE LOCK",
        };
        let index = match self.get(lock.index) {
            Some(name) => format!("space id {} index {} of table {}", name.space, name.index, name.sql_table()),
            None => format!("index {}", lock.index),
        };
        format!("{what} {index} trx id {serial}")
    }
}

fn key_line(kind: &LockKind) -> String {
    lock_data(kind).map_or_else(String::new, |data| format!("\n key {data}"))
}

/// Bytes of a key that are shown; of a longer one, its checksum besides.
const SHOWN: usize = 32;

fn hex(key: &[u8]) -> String {
    let mut text = String::new();
    for byte in key.iter().take(SHOWN) {
        let _ = write!(text, "{byte:02x}");
    }
    if key.len() > SHOWN {
        let _ = write!(text, "~{:08x}", checksum(key));
    }
    text
}

fn range(range: &KeyRange) -> String {
    let (from, opens) = match &range.from {
        Bound::Included(key) => (hex(key), '['),
        Bound::Excluded(key) => (hex(key), '('),
        Bound::Unbounded => (String::new(), '('),
    };
    let (to, closes) = match &range.to {
        Bound::Included(key) => (hex(key), ']'),
        Bound::Excluded(key) => (hex(key), ')'),
        Bound::Unbounded => (String::new(), ')'),
    };
    if from == to && opens == '[' { from } else { format!("{opens}{from},{to}{closes}") }
}

/// The key or the range that is locked; nothing for a table.
pub(crate) fn lock_data(kind: &LockKind) -> Option<String> {
    match kind {
        LockKind::Row(key) => Some(hex(key)),
        LockKind::Range(keys) => Some(range(keys)),
        LockKind::Table => None,
    }
}

/// What a lock is called in listings.
pub(crate) fn lock_id(owner: Serial, index: IndexId, kind: &LockKind) -> String {
    let what = match kind {
        LockKind::Row(_) => "row",
        LockKind::Range(_) => "range",
        LockKind::Table => "table",
    };
    match lock_data(kind) {
        Some(data) => format!("{owner}:{index}:{what}:{data}"),
        None => format!("{owner}:{index}:{what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_have_names_of_their_own() {
        let row = LockKind::Row(b"ab".as_slice().into());
        assert_eq!(lock_id(7, IndexId(3), &row), "7:3:row:6162");
        assert_eq!(lock_id(7, IndexId(3), &LockKind::Table), "7:3:table");
        let half_open = LockKind::Range(KeyRange::new(Bound::Excluded(b"a"), Bound::Unbounded));
        assert_eq!(lock_id(7, IndexId(3), &half_open), "7:3:range:(61,)");
        assert_eq!(lock_data(&LockKind::Range(KeyRange::point(b"a"))).unwrap(), "61");
        let long = |last: u8| hex(&[&[0; 100][..], &[last]].concat());
        assert_ne!(long(1), long(2));
    }

    #[test]
    fn a_servers_table_is_written_as_sql() {
        let name = |table: &str| IndexName { table: table.into(), index: "k".into(), space: 1 }.sql_table();
        assert_eq!(name("test/t"), "`test`.`t`");
        assert_eq!(name("t"), "`t`");
    }
}
