//! The table of a round, in one of several forms, and its rows as the server shows them.

use std::collections::BTreeMap;

use anyhow::Context;
use holdfast_workload::rng::Rng;

use super::engine::Engine;
use super::history::{Key, Row, State, Step, Token};

/// Rows have keys below that.
pub const KEYS: u64 = 14;
/// Values of the column `b`, which has two indexes, one of which covers what most reads ask for.
pub const B_VALUES: u64 = 12;
/// Values of the column `u`, which has an index that is unique, but in tables with partitions.
pub const U_VALUES: u64 = KEYS;

/// A row before its trail is read.
pub type Fields = (u64, u64, Option<u64>, u64, Option<String>);

/// The statements that make the table, and its rows.
pub fn create(rng: &mut Rng, engine: Engine) -> (Vec<String>, BTreeMap<Key, Option<State>>) {
    let (unique, partitions) = match rng.below(3) {
        0 => ("", " PARTITION BY HASH (id) PARTITIONS 3"),
        _ => ("UNIQUE ", ""),
    };
    let mut statements = vec![
        "DROP DATABASE IF EXISTS isolation".into(),
        "CREATE DATABASE isolation".into(),
        "USE isolation".into(),
        format!(
            "CREATE TABLE r (id INT PRIMARY KEY, b INT NOT NULL, u INT, tok BIGINT NOT NULL, trail TEXT NOT NULL, \
             KEY kb (b), KEY kbt (b, tok, u), {unique}KEY ku (u)) CHARSET=latin1 ENGINE={}{partitions}",
            engine.name()
        ),
    ];
    let mut before = BTreeMap::new();
    for key in 0..KEYS {
        let u = (key % 3 == 0).then_some(key);
        let state = (rng.below(4) != 0).then(|| State { b: rng.below(B_VALUES), u });
        before.insert(key, state);
        let Some(State { b, u }) = state else { continue };
        let (u, trail) = u.map_or(("NULL".into(), "-".into()), |u| (u.to_string(), u.to_string()));
        statements.push(format!("INSERT INTO r VALUES ({key}, {b}, {u}, 0, '0:{b}:{trail}')"));
    }
    (statements, before)
}

/// The row in the columns that a statement asked for.
///
/// # Errors
/// If its trail is no trail.
pub fn row((key, b, u, tok, trail): Fields) -> anyhow::Result<Row> {
    let trail = trail.map(|trail| trail.split(' ').map(step).collect::<Option<Vec<_>>>().context(trail.clone()));
    let trail = trail.transpose().with_context(|| format!("the trail of the row {key} cannot be read"))?;
    Ok(Row { key, last: Step { token: Token(tok), state: State { b, u } }, trail })
}

fn step(text: &str) -> Option<Step> {
    let mut parts = text.split(':');
    let token = Token(parts.next()?.parse().ok()?);
    let b = parts.next()?.parse().ok()?;
    let u = parts.next()?;
    let u = if u == "-" { None } else { Some(u.parse().ok()?) };
    parts.next().is_none().then_some(Step { token, state: State { b, u } })
}
