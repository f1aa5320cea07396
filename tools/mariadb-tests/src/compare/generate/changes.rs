//! Statements that change definitions, each with what is there if it succeeds.

use holdfast_workload::rng::Rng;

use super::create::{self, Taste};
use super::dice::Dice;
use super::kinds::Kind;
use super::partitions;
use super::schema::{Schema, Table};

/// The statement, and what is there afterwards.
pub type Change = (String, Schema);

/// One for the session.
pub fn change(schema: &Schema, session: usize, taste: Taste, rng: &mut Rng) -> Option<Change> {
    let mut after = schema.clone();
    let name = schema.table(session, rng)?.name.clone();
    let sql = match rng.below(100) {
        0..=7 => {
            let (table, sql) = create::table(&mut after, session, taste, rng);
            after.tables.push(table);
            sql
        }
        8..=10 if after.tables.len() > 2 => {
            after.tables.retain(|table| table.name != name);
            format!("DROP TABLE {name}")
        }
        11..=16 => format!("TRUNCATE TABLE {name}"),
        17..=21 => {
            let to = after.new_name("t");
            let table = after.table_mut(&name)?;
            table.name = to.clone();
            let verb = if table.temporary.is_some() { "ALTER TABLE" } else { "RENAME TABLE" };
            if verb == "ALTER TABLE" {
                format!("ALTER TABLE {name} RENAME TO {to}")
            } else {
                format!("RENAME TABLE {name} TO {to}")
            }
        }
        22..=24 => rng.one_of(&["OPTIMIZE TABLE", "ANALYZE TABLE", "CHECK TABLE"]).to_string() + " " + &name,
        25..=26 => format!("ALTER TABLE {name} FORCE{}", rng.one_of(&["", ", ALGORITHM=COPY"])),
        27..=34 => partitions::change(&mut after, &name, rng)?,
        _ => alter(&mut after, &name, rng)?,
    };
    Some((sql, after))
}

/// One to three clauses.
fn alter(after: &mut Schema, name: &str, rng: &mut Rng) -> Option<String> {
    let mut table = after.table_mut(name)?.clone();
    let mut clauses = Vec::new();
    for _ in 0..1 + rng.below(3) / 2 + rng.below(3) / 2 {
        clauses.extend(clause(after, &mut table, &clauses, rng));
    }
    *after.table_mut(name)? = table;
    if clauses.is_empty() {
        return None;
    }
    let algorithm = *rng.one_of(&["", "", "", "", ", ALGORITHM=COPY", ", ALGORITHM=INPLACE"]);
    Some(format!("ALTER TABLE {name} {}{algorithm}", clauses.join(", ")))
}

fn place(table: &Table, rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => " FIRST".into(),
        1..=2 => format!(" AFTER {}", rng.one_of(&table.columns).name),
        _ => String::new(),
    }
}

/// True if a column stands in an index, or another follows from it.
fn is_used(table: &Table, column: &str) -> bool {
    let in_key = table.keys.iter().flat_map(|key| &key.parts).chain(&table.primary).any(|part| part.column == column);
    let generates = table
        .columns
        .iter()
        .any(|other| other.generated.as_ref().is_some_and(|(expression, _)| expression.contains(column)));
    in_key || generates || table.references.iter().any(|reference| reference.contains(column))
}

fn clause(schema: &mut Schema, table: &mut Table, before: &[String], rng: &mut Rng) -> Option<String> {
    let at = rng.below(table.columns.len() as u64) as usize;
    let name = table.columns[at].name.clone();
    // A statement that names a column twice is about nothing but that.
    if before.iter().any(|clause| clause.contains(&name)) {
        return None;
    }
    match rng.below(20) {
        0..=4 => {
            let column = create::column(schema.new_name("c"), table, rng);
            let sql = format!("ADD COLUMN {} {}{}", column.name, column.definition(), place(table, rng));
            table.columns.push(column);
            Some(sql)
        }
        5..=7 if table.columns.len() > 2 && (!is_used(table, &name) || rng.chance(10)) => {
            table.columns.remove(at);
            for key in &mut table.keys {
                key.parts.retain(|part| part.column != name);
            }
            table.keys.retain(|key| !key.parts.is_empty());
            table.primary.retain(|part| part.column != name);
            Some(format!("DROP COLUMN {name}"))
        }
        8..=10 => modify(table, at, rng),
        11..=12 if !is_used(table, &name) => {
            let to = schema.new_name("c");
            table.columns[at].name = to.clone();
            Some(format!("RENAME COLUMN {name} TO {to}"))
        }
        13..=16 => {
            let key = create::key(schema, table, rng);
            let sql = format!("ADD {}", key.sql());
            table.keys.push(key);
            Some(sql)
        }
        17..=18 if !table.keys.is_empty() => {
            let at = rng.below(table.keys.len() as u64) as usize;
            Some(format!("DROP KEY {}", table.keys.remove(at).name))
        }
        _ if !table.keys.is_empty() => {
            let to = schema.new_name("k");
            let at = rng.below(table.keys.len() as u64) as usize;
            let from = std::mem::replace(&mut table.keys[at].name, to.clone());
            Some(format!("RENAME KEY {from} TO {to}"))
        }
        _ => None,
    }
}

/// Another type, NULL or not, another place.
fn modify(table: &mut Table, at: usize, rng: &mut Rng) -> Option<String> {
    let place = place(table, rng);
    let begins_primary =
        table.primary.iter().any(|part| part.prefix.is_some() && part.column == table.columns[at].name);
    let column = &mut table.columns[at];
    if column.generated.is_some() || place.ends_with(&column.name) {
        return None;
    }
    match &mut column.kind {
        Kind::VarChar(n, _) | Kind::VarBinary(n) => *n += rng.below(300),
        Kind::Int { name, bits, .. } if *bits < 64 && rng.chance(50) => (*name, *bits) = ("BIGINT", 64),
        kind if rng.chance(30) && !begins_primary => {
            *kind = Kind::any(rng);
            column.default.clear();
            column.counts = false;
        }
        _ => {}
    }
    if rng.chance(40) && !column.counts {
        column.null = !column.null;
        if !column.null && column.default.ends_with("NULL") {
            column.default.clear();
        }
    }
    Some(format!("MODIFY {} {}{place}", column.name, column.definition()))
}
