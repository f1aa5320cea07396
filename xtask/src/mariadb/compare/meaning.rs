//! What statements of a session stand for: the one that `EXECUTE` or `SET STATEMENT` carries out,
//! and the state that the ones before it have led to.

use std::collections::BTreeMap;

use super::script::Statement;
use super::tokens::tokens;

/// How far a transaction of XA has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xa {
    Active,
    Ended,
    Prepared,
}

/// What is known of a session.
#[derive(Clone, Debug, Default)]
struct Spoken {
    /// The texts of prepared statements.
    prepared: BTreeMap<String, String>,
    /// The name of its transaction of XA, in quotes.
    xa: Option<(String, Xa)>,
    reads_uncommitted: bool,
    has_begun: bool,
    without_autocommit: bool,
    /// What its transaction has carried out.
    done: Vec<String>,
    /// A part of its transaction was rolled back.
    is_partly_undone: bool,
}

/// What commits by the way.
const DEFINES: [&str; 6] = ["CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "OPTIMIZE"];

impl Spoken {
    /// Its transaction has ended.
    fn is_over(&mut self) {
        self.has_begun = false;
        self.is_partly_undone = false;
        self.done.clear();
    }
}

/// What is known of all sessions.
pub struct Meanings {
    sessions: Vec<Spoken>,
}

impl Meanings {
    pub fn new(sessions: usize) -> Meanings {
        Meanings { sessions: vec![Spoken::default(); sessions] }
    }

    /// The statement that a statement carries out: itself, if it stands for no other one.
    pub fn of(&self, statement: &Statement) -> Statement {
        Statement { sql: self.carried_out(statement.session, &statement.sql), ..statement.clone() }
    }

    fn carried_out(&self, session: usize, sql: &str) -> String {
        if let Some((_, inner)) = sql.strip_prefix("SET STATEMENT ").and_then(|rest| rest.split_once(" FOR ")) {
            return self.carried_out(session, inner);
        }
        let Some(rest) = sql.strip_prefix("EXECUTE ") else { return sql.to_owned() };
        let (what, values) = rest.split_once(" USING ").unwrap_or((rest, ""));
        let text = match what.strip_prefix("IMMEDIATE ") {
            Some(text) => Some(unquoted(text)),
            None => self.sessions[session].prepared.get(what).cloned(),
        };
        text.map_or(sql.to_owned(), |text| filled_in(&text, values))
    }

    /// A statement was said.
    pub fn said(&mut self, statement: &Statement) {
        let sql = self.of(statement).sql;
        self.sessions[statement.session].done.push(sql);
    }

    /// A statement has ended.
    pub fn ended(&mut self, statement: &Statement, success: bool) {
        if success {
            self.succeeded(statement);
        }
        let defines = DEFINES.iter().any(|verb| statement.sql.starts_with(verb));
        let spoken = &mut self.sessions[statement.session];
        let is_long = spoken.has_begun || spoken.without_autocommit || spoken.xa.is_some();
        if defines || !is_long {
            spoken.is_over();
        } else if !success {
            spoken.is_partly_undone = true;
        }
    }

    fn succeeded(&mut self, statement: &Statement) {
        let spoken = &mut self.sessions[statement.session];
        let words: Vec<&str> = statement.sql.splitn(4, ' ').collect();
        match words[..] {
            ["PREPARE", name, "FROM", text] => drop(spoken.prepared.insert(name.into(), unquoted(text))),
            ["XA", "START", name] => spoken.xa = Some((name.into(), Xa::Active)),
            ["XA", "END", name] => spoken.xa = Some((name.into(), Xa::Ended)),
            ["XA", "PREPARE", name] => spoken.xa = Some((name.into(), Xa::Prepared)),
            ["XA", "COMMIT" | "ROLLBACK", ..] => {
                spoken.xa = None;
                spoken.is_over();
            }
            ["ROLLBACK", "TO", _] => spoken.is_partly_undone = true,
            ["COMMIT" | "ROLLBACK"] => spoken.is_over(),
            ["BEGIN"] | ["START", "TRANSACTION", ..] => {
                spoken.is_over();
                spoken.has_begun = true;
            }
            ["SET", "autocommit", "=", value] => spoken.without_autocommit = value == "0",
            ["SET", "SESSION", "TRANSACTION", level] => {
                spoken.reads_uncommitted = level.ends_with("READ UNCOMMITTED");
            }
            _ => {}
        }
    }

    /// The server was killed. What was prepared as a transaction of XA is still there.
    pub fn killed(&mut self) {
        for spoken in &mut self.sessions {
            let xa = spoken.xa.take().filter(|(_, state)| *state == Xa::Prepared);
            *spoken = Spoken { xa, ..Spoken::default() };
        }
    }

    /// What the transactions that are not over have carried out.
    pub fn in_transactions(&self) -> impl Iterator<Item = &String> {
        self.sessions.iter().flat_map(|spoken| &spoken.done)
    }

    /// Whether a statement of another session's transaction was rolled back, or more of it.
    pub fn others_are_partly_undone(&self, session: usize) -> bool {
        self.sessions.iter().enumerate().any(|(other, spoken)| other != session && spoken.is_partly_undone)
    }

    pub fn reads_uncommitted(&self, session: usize) -> bool {
        self.sessions[session].reads_uncommitted
    }

    /// What ends a transaction of the session, whatever kind it is of.
    pub fn ending(&self, session: usize) -> Vec<String> {
        let Some((name, state)) = &self.sessions[session].xa else { return vec!["COMMIT".into()] };
        match state {
            Xa::Active => vec![format!("XA END {name}"), format!("XA ROLLBACK {name}")],
            Xa::Ended => vec![format!("XA ROLLBACK {name}")],
            Xa::Prepared => vec![format!("XA COMMIT {name}")],
        }
    }
}

/// The text as a literal.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// What a literal of [`quoted`] says.
fn unquoted(literal: &str) -> String {
    let inner = literal.trim().trim_start_matches('\'');
    inner.strip_suffix('\'').unwrap_or(inner).replace("''", "'").replace("\\\\", "\\")
}

/// The text with values in place of its marks.
fn filled_in(text: &str, values: &str) -> String {
    let mut values = values.split(", ");
    tokens(text)
        .into_iter()
        .map(|token| match token.trim() {
            "?" => token.replace('?', values.next().unwrap_or("NULL")),
            _ => token.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(sql: &str) -> Statement {
        Statement { session: 0, sql: sql.into(), ordered: false }
    }

    #[test]
    fn a_prepared_statement_means_its_text_with_the_values() {
        let mut meanings = Meanings::new(1);
        let text = "INSERT INTO t (a, b) VALUES (?, 'x''\\\\?'), (?, NULL)";
        meanings.succeeded(&say(&format!("PREPARE p FROM {}", quoted(text))));
        let meant = meanings.of(&say("EXECUTE p USING 1, 23")).sql;
        assert_eq!(meant, "INSERT INTO t (a, b) VALUES (1, 'x''\\\\?'), (23, NULL)");
        let at_once = format!("SET STATEMENT sql_mode = '' FOR EXECUTE IMMEDIATE {} USING 1, 23", quoted(text));
        assert_eq!(meanings.of(&say(&at_once)).sql, meant);
        assert_eq!(meanings.of(&say("EXECUTE q")).sql, "EXECUTE q");
    }

    #[test]
    fn a_transaction_of_xa_ends_as_its_state_asks_for() {
        let mut meanings = Meanings::new(1);
        assert_eq!(meanings.ending(0), ["COMMIT"]);
        meanings.succeeded(&say("XA START 'x'"));
        assert_eq!(meanings.ending(0), ["XA END 'x'", "XA ROLLBACK 'x'"]);
        meanings.succeeded(&say("XA END 'x'"));
        meanings.succeeded(&say("XA PREPARE 'x'"));
        meanings.killed();
        assert_eq!(meanings.ending(0), ["XA COMMIT 'x'"]);
        meanings.succeeded(&say("XA COMMIT 'x'"));
        assert_eq!(meanings.ending(0), ["COMMIT"]);
    }
}
