//! Conditions on rows.

use holdfast_workload::rng::Rng;

use super::dice::Dice;
use super::kinds::Kind;
use super::schema::{Column, Table};

/// ` WHERE ...`, or nothing. `alias` has its dot.
pub fn filter(table: &Table, alias: &str, rng: &mut Rng) -> String {
    if rng.chance(12) { String::new() } else { format!(" WHERE {}", condition(table, alias, rng)) }
}

/// A condition on a row of the table.
pub fn condition(table: &Table, alias: &str, rng: &mut Rng) -> String {
    let simple = |rng: &mut Rng| of_column(table.column(rng), alias, rng);
    match rng.below(10) {
        0..=5 => simple(rng),
        6..=7 => format!("{} AND {}", simple(rng), simple(rng)),
        8 => format!("({} OR {})", simple(rng), simple(rng)),
        _ => format!("({} OR {}) AND {}", simple(rng), simple(rng), simple(rng)),
    }
}

/// A condition on one column.
pub fn of_column(column: &Column, alias: &str, rng: &mut Rng) -> String {
    let name = format!("{alias}{}", column.name);
    let value = |rng: &mut Rng| column.kind.literal(rng);
    match rng.below(20) {
        0..=5 => format!("{name} = {}", value(rng)),
        6..=9 => format!("{name} {} {}", rng.one_of(&["<", "<=", ">", ">=", "<>"]), value(rng)),
        10..=11 => format!("{name} BETWEEN {} AND {}", value(rng), value(rng)),
        12..=13 => format!("{name} IN ({}, {}, {})", value(rng), value(rng), value(rng)),
        14 => format!("{name} NOT IN ({}, {})", value(rng), value(rng)),
        15 => format!("{name} IS NULL"),
        16 => format!("{name} IS NOT NULL"),
        17 => format!("{name} <=> {}", if rng.chance(50) { "NULL".into() } else { value(rng) }),
        _ => match column.kind {
            Kind::Char(..) | Kind::VarChar(..) | Kind::Text(..) => {
                format!("{name} LIKE '{}'", rng.one_of(&["a%", "c%", "ch%", "%a", "_b%", "A_", "ss%", "ä%", "%"]))
            }
            _ => format!("NOT ({name} > {})", value(rng)),
        },
    }
}

/// What says that rows of two tables belong together: columns that compare without a conversion.
pub fn link(left: &Table, left_alias: &str, right: &Table, right_alias: &str, rng: &mut Rng) -> String {
    let mut pairs = Vec::new();
    for a in &left.columns {
        for b in right.columns.iter().filter(|b| b.kind.class() == a.kind.class()) {
            pairs.push(format!("{left_alias}{} = {right_alias}{}", a.name, b.name));
        }
    }
    if pairs.is_empty() { "1 = 1".into() } else { rng.one_of(&pairs).clone() }
}
