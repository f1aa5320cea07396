//! Statements that change rows.

use holdfast_workload::rng::Rng;

use super::super::script::names;
use super::conditions::{condition, filter, link};
use super::dice::Dice;
use super::schema::{Column, Schema, Table};

/// One of them, on tables that the session sees.
pub fn change(schema: &Schema, session: usize, rng: &mut Rng) -> Option<String> {
    let table = schema.table(session, rng)?;
    Some(match rng.below(100) {
        0..=39 => insert(table, rng),
        40..=47 => insert_selected(table, schema.table(session, rng)?, rng),
        48..=72 => update(table, rng),
        73..=89 => delete(table, rng),
        90..=95 => update_joined(table, schema.table(session, rng)?, rng),
        _ => delete_joined(table, schema.table(session, rng)?, rng),
    })
}

/// Rows for a table, some of which it may refuse.
pub fn insert(table: &Table, rng: &mut Rng) -> String {
    let columns: Vec<&Column> =
        table.columns.iter().filter(|column| column.generated.is_none() && !rng.chance(12)).collect();
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    let rows: Vec<_> = (0..1 + rng.below(6)).map(|_| row(&columns, rng)).collect();
    let (verb, tail) = match rng.below(10) {
        0..=4 => ("INSERT", String::new()),
        5..=6 => ("INSERT IGNORE", String::new()),
        7 => ("REPLACE", String::new()),
        _ => ("INSERT", on_duplicate(table, rng)),
    };
    let returning = if tail.is_empty() && rng.chance(4) { " RETURNING *" } else { "" };
    format!("{verb} INTO {} ({}) VALUES {}{tail}{returning}", table.name, names.join(", "), rows.join(", "))
}

fn row(columns: &[&Column], rng: &mut Rng) -> String {
    let value = |column: &&Column, rng: &mut Rng| match rng.below(40) {
        0 => "DEFAULT".into(),
        1..=15 if column.counts => "NULL".into(),
        _ => column.value(rng),
    };
    let values: Vec<_> = columns.iter().map(|column| value(column, rng)).collect();
    format!("({})", values.join(", "))
}

/// A column that is changed; one that counts goes on behind its changed numbers, too.
fn changed<'t>(table: &'t Table, rng: &mut Rng) -> &'t Column {
    let counts = table.columns.iter().find(|column| column.counts);
    counts.filter(|_| rng.chance(25)).unwrap_or_else(|| table.writable(rng))
}

fn on_duplicate(table: &Table, rng: &mut Rng) -> String {
    let column = changed(table, rng);
    let value = if rng.chance(40) { format!("VALUES({})", column.name) } else { new_value(column, rng) };
    format!(" ON DUPLICATE KEY UPDATE {} = {value}", column.name)
}

fn new_value(column: &Column, rng: &mut Rng) -> String {
    let name = &column.name;
    match rng.below(10) {
        0..=3 if column.counts => format!("{name} + {}", 1 + rng.below(40)),
        4..=6 if column.counts => rng.below(100).to_string(),
        0..=2 if column.kind.is_int() => format!("{name} + {}", 1 + rng.below(3)),
        3 => name.clone(),
        4 => "DEFAULT".into(),
        _ => column.value(rng),
    }
}

fn assignments(table: &Table, alias: &str, rng: &mut Rng) -> String {
    let sets: Vec<_> = (0..1 + rng.below(2))
        .map(|_| {
            let column = changed(table, rng);
            let value = match new_value(column, rng) {
                own if own.starts_with(&column.name) => format!("{alias}{own}"),
                value => value,
            };
            format!("{alias}{} = {value}", column.name)
        })
        .collect();
    sets.join(", ")
}

/// Rows of one table, or of the same one, into another. Which row comes first must not matter, or
/// be said.
fn insert_selected(into: &Table, from: &Table, rng: &mut Rng) -> String {
    let mut pairs = Vec::new();
    for column in into.columns.iter().filter(|column| column.generated.is_none()) {
        let same: Vec<_> = from.columns.iter().filter(|other| other.kind.class() == column.kind.class()).collect();
        if !same.is_empty() {
            pairs.push((column.name.clone(), rng.one_of(&same).name.clone()));
        }
    }
    let Some(order) = from.total_order("", rng).filter(|_| !pairs.is_empty()) else { return insert(into, rng) };
    let (names, others): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let verb = rng.one_of(&["INSERT", "INSERT IGNORE", "REPLACE"]);
    let filter = filter(from, "", rng);
    let limit = if rng.chance(40) { format!(" LIMIT {}", 1 + rng.below(5)) } else { String::new() };
    let (into, from) = (&into.name, &from.name);
    format!("{verb} INTO {into} ({}) SELECT {} FROM {from}{filter}{order}{limit}", names.join(", "), others.join(", "))
}

fn order_and_limit(table: &Table, rng: &mut Rng) -> String {
    match table.total_order("", rng) {
        Some(order) if rng.chance(80) => {
            let limit = if rng.chance(25) { format!(" LIMIT {}", 1 + rng.below(4)) } else { String::new() };
            // InnoDB merges the partitions' rows by virtual columns that it has not computed.
            let by_virtual = |column: &Column| column.is_virtual() && names(&order, &column.name);
            if table.partitioned && table.columns.iter().any(by_virtual) {
                return String::new();
            }
            format!("{order}{limit}")
        }
        _ => String::new(),
    }
}

fn update(table: &Table, rng: &mut Rng) -> String {
    let order = order_and_limit(table, rng);
    let ignore = if !order.is_empty() && rng.chance(20) { " IGNORE" } else { "" };
    let hint = table.hint(rng);
    let sets = assignments(table, "", rng);
    format!("UPDATE{ignore} {}{hint} SET {sets}{}{order}", table.name, filter(table, "", rng))
}

fn delete(table: &Table, rng: &mut Rng) -> String {
    let filter = if rng.chance(90) { format!(" WHERE {}", condition(table, "", rng)) } else { String::new() };
    let order = order_and_limit(table, rng);
    let returning = if rng.chance(4) && order.is_empty() { " RETURNING 1" } else { "" };
    format!("DELETE FROM {}{filter}{order}{returning}", table.name)
}

fn update_joined(left: &Table, right: &Table, rng: &mut Rng) -> String {
    let link = link(left, "a.", right, "b.", rng);
    let sets = assignments(left, "a.", rng);
    let condition = condition(right, "b.", rng);
    format!("UPDATE {} a JOIN {} b ON {link} SET {sets} WHERE {condition}", left.name, right.name)
}

fn delete_joined(left: &Table, right: &Table, rng: &mut Rng) -> String {
    let link = link(left, "a.", right, "b.", rng);
    let condition = condition(right, "b.", rng);
    let both = if left.name != right.name && rng.chance(30) { ", b" } else { "" };
    format!("DELETE a{both} FROM {} a JOIN {} b ON {link} WHERE {condition}", left.name, right.name)
}
