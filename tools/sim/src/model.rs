//! What the database should hold.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use holdfast::{Database, TableDefinition};

/// The rows of a table.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// All tables by name.
pub type World = BTreeMap<String, Rows>;

/// The type of every table here.
pub type Table = TableDefinition<&'static [u8], &'static [u8]>;

/// What `db` really holds.
pub fn read(db: &Database) -> anyhow::Result<World> {
    let txn = db.begin_read()?;
    let mut world = World::new();
    for name in txn.list_tables() {
        let table = txn.open_table(&Table::named(&*name))?;
        let mut rows = Rows::new();
        for row in table.iter()? {
            let (key, value) = row?;
            ensure!(rows.insert(key, value).is_none(), "table {name} yields a key twice");
        }
        let backwards = table.iter()?.rev().count();
        ensure!(backwards == rows.len(), "table {name}: {} rows forwards, {backwards} backwards", rows.len());
        world.insert(name, rows);
    }
    Ok(world)
}

/// Fails unless `db` holds exactly one of `allowed`; returns which.
pub fn check(db: &Database, allowed: &[World]) -> anyhow::Result<World> {
    let found = read(db).context("reading everything back")?;
    if allowed.contains(&found) {
        return Ok(found);
    }
    let differences: Vec<String> = allowed.iter().map(|world| difference(world, &found)).collect();
    anyhow::bail!("the database holds none of the {} allowed states: {}", allowed.len(), differences.join("; or "))
}

/// The first difference, in words.
fn difference(expected: &World, found: &World) -> String {
    let names = |world: &World| world.keys().cloned().collect::<Vec<_>>().join(",");
    if names(expected) != names(found) {
        return format!("tables {} expected, {} found", names(expected), names(found));
    }
    for (name, rows) in expected {
        let there = &found[name];
        let keys: std::collections::BTreeSet<_> = rows.keys().chain(there.keys()).collect();
        for key in keys {
            if rows.get(key) != there.get(key) {
                let show = |value: Option<&Vec<u8>>| match value {
                    None => "no row".to_string(),
                    Some(value) => format!("{} bytes {:?}..", value.len(), &value[..value.len().min(8)]),
                };
                let (want, have) = (show(rows.get(key)), show(there.get(key)));
                return format!("table {name}, key {:?}: {want} expected, {have} found", String::from_utf8_lossy(key));
            }
        }
    }
    "no difference".to_string()
}
