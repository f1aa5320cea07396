//! Scenarios as lists of steps, and as text that can be pasted into a client.

use std::fmt::Write;

use super::super::pairs::Engine;

/// What a session says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub session: usize,
    pub sql: String,
    /// True if its rows have an order.
    pub ordered: bool,
}

/// One step of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Say(Statement),
    /// The server is killed and comes up again.
    Kill,
}

impl Step {
    /// A statement whose rows, if it gives any, have no order.
    pub fn say(session: usize, sql: impl Into<String>) -> Step {
        Step::Say(Statement { session, sql: sql.into(), ordered: false })
    }

    pub fn session(&self) -> Option<usize> {
        match self {
            Step::Say(statement) => Some(statement.session),
            Step::Kill => None,
        }
    }
}

/// What every session says first.
pub fn preamble(engine: Engine) -> String {
    format!(
        "SET default_storage_engine = {}, timestamp = 1700000000, time_zone = '+00:00', innodb_lock_wait_timeout = 20, \
         holdfast_lock_wait_timeout = 20, lock_wait_timeout = 20",
        engine.name()
    )
}

/// Stands for the name of the engine's schema: names of XA are those of the whole server.
pub const SCHEMA: &str = "$schema";

/// Stands for the name of the engine.
pub const ENGINE: &str = "$engine";

/// Stands at the end of an ALTER TABLE that this engine has to carry out instantly.
pub const AT_ONCE: &str = "$at_once";

/// The statement as one engine gets it.
pub fn for_engine(sql: &str, engine: Engine) -> String {
    let at_once = if engine == Engine::Holdfast { ", ALGORITHM=INSTANT" } else { "" };
    sql.replace(SCHEMA, &schema(engine)).replace(ENGINE, engine.name()).replace(AT_ONCE, at_once)
}

/// In the names of collations in which texts can be equal whose beginnings are not, as sharp s and
/// `ss` are.
pub const WITH_EXPANSIONS: [&str; 5] = ["unicode", "uca1400", "german2", "danish", "czech_ci"];

/// True if a HANDLER reads.
pub fn is_read_by_handler(sql: &str) -> bool {
    sql.starts_with("HANDLER") && sql.contains(" READ ")
}

/// How a read of a HANDLER begins that goes on behind one by FIRST or LAST in an index.
pub fn going_on_at_end(sql: &str) -> Option<String> {
    let turned = |from: &str, to: &str| sql.split_once(from).map(|(read, _)| format!("{read}{to}"));
    let words: Vec<&str> = sql.split(' ').collect();
    match words[..] {
        ["HANDLER", _, "READ", _, "FIRST", ..] => turned(" FIRST", " NEXT"),
        ["HANDLER", _, "READ", _, "LAST", ..] => turned(" LAST", " PREV"),
        _ => None,
    }
}

/// How many rows a HANDLER is to read, if it reads.
pub fn wanted_by_handler(sql: &str) -> Option<usize> {
    let (_, read) = sql.split_once(" READ ")?;
    Some(read.rsplit_once(" LIMIT ").and_then(|(_, limit)| limit.parse().ok()).unwrap_or(1))
}

/// The table that rows are inserted into.
pub fn target_of(sql: &str) -> Option<String> {
    let (_, rest) = sql.split_once(" INTO ").filter(|(verb, _)| verb.starts_with("INSERT"))?;
    rest.split(' ').next().map(String::from)
}

/// True if the table is named in the statement.
pub fn names(sql: &str, table: &str) -> bool {
    sql.split(|c: char| !is_of_name(c)).any(|word| word == table)
}

/// True if a name without quotes can have the character.
pub fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The schema of an engine.
pub fn schema(engine: Engine) -> String {
    engine.name().to_lowercase()
}

/// The scenario for a client. Where it has several sessions, each statement says which one it
/// belongs to.
pub fn text(steps: &[Step], engine: Engine) -> String {
    let several = steps.iter().filter_map(Step::session).any(|session| session > 0);
    let schema = schema(engine);
    let mut text = format!("DROP DATABASE IF EXISTS {schema}; CREATE DATABASE {schema}; USE {schema};\n");
    if several {
        text += "-- every session: USE and this SET\n";
    }
    let _ = writeln!(text, "{};", preamble(engine));
    for step in steps {
        match step {
            Step::Say(Statement { session, sql, .. }) => {
                let speaker = if several { format!("/* session {session} */ ") } else { String::new() };
                let sql = for_engine(sql, engine);
                let _ = if sql.contains(';') {
                    writeln!(text, "DELIMITER $$\n{speaker}{sql}$$\nDELIMITER ;")
                } else {
                    writeln!(text, "{speaker}{sql};")
                };
            }
            Step::Kill => text += "-- here the server is killed and comes up again\n",
        }
    }
    text
}
