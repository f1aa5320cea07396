//! What statements of a session stand for: the one that `EXECUTE` or `SET STATEMENT` carries out,
//! and the state that the ones before it have led to.

use std::collections::BTreeMap;

use super::answer::{Answer, Outcome};
use super::forgotten::Forgotten;
use super::script::{Statement, going_on_at_end, is_read_by_handler, target_of, wanted_by_handler};
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
    /// Its isolation level, if it was set.
    level: String,
    /// That of its next transaction alone, if it was set.
    next_level: Option<String>,
    has_begun: bool,
    /// Its transaction has begun with a snapshot that SERIALIZABLE has no use for.
    has_idle_snapshot: bool,
    without_autocommit: bool,
    /// What its transaction has carried out.
    done: Vec<String>,
    /// Changes of rows that were there may have been rolled back, and the transaction goes on.
    is_partly_undone: bool,
    /// Rows of which its transaction was told that they have the key of a new one: table and key.
    refusing: Vec<(String, String)>,
    /// Its HANDLER has found less than it was to read, after so many changes.
    missed_after: Option<u64>,
    /// Its HANDLER has found nothing by FIRST or LAST in an index, and since then rows at most have
    /// changed: how a read begins that goes on from there, and finds nothing either.
    goes_on_at_end: Option<String>,
    /// Indexes that others have added since its transaction began.
    younger_keys: Vec<String>,
    /// Whether its statement had other plans on the two engines when it began to wait.
    waits_by_other_plans: Option<bool>,
}

/// What commits by the way.
const DEFINES: [&str; 6] = ["CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "OPTIMIZE"];

/// Settings on which the values of virtual columns depend.
const RECOMPUTE: [&str; 3] = ["div_precision_increment", "NO_ZERO_IN_DATE", "CAST(s AS DATE)"];

/// What leaves a HANDLER where it stands, in a table that stays as it is.
const LEAVES_HANDLERS: [&str; 5] = ["INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT"];

/// What a repeated read answers otherwise, even alone: it counts on, or looks at locks of others.
const UNREPEATABLE: [&str; 5] = ["NEXTVAL", "SETVAL", "LASTVAL", "SKIP LOCKED", "NOWAIT"];

impl Spoken {
    /// True if its transaction goes on behind a statement.
    fn is_long(&self) -> bool {
        self.has_begun || self.without_autocommit || self.xa.is_some()
    }

    /// Its transaction has ended.
    fn is_over(&mut self) {
        self.has_begun = false;
        self.has_idle_snapshot = false;
        self.is_partly_undone = false;
        self.refusing.clear();
        self.done.clear();
        self.younger_keys.clear();
    }
}

/// What is known of all sessions.
pub struct Meanings {
    sessions: Vec<Spoken>,
    /// How many statements of all sessions have ended that do more than read.
    changes: u64,
    /// True if a statement was said without checks of FOREIGN KEYs.
    without_checks: bool,
    /// True if virtual columns may have other values than when their rows were written.
    recomputes: bool,
    forgotten: Forgotten,
}

impl Meanings {
    pub fn new(sessions: usize) -> Meanings {
        Meanings {
            sessions: vec![Spoken::default(); sessions],
            changes: 0,
            without_checks: false,
            recomputes: false,
            forgotten: Forgotten::default(),
        }
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
        self.without_checks |= statement.sql.contains("foreign_key_checks");
        self.recomputes |= RECOMPUTE.iter().any(|words| statement.sql.contains(words));
        let sql = self.of(statement).sql;
        let spoken = &mut self.sessions[statement.session];
        spoken.waits_by_other_plans = None;
        spoken.done.push(sql);
    }

    /// A statement has ended.
    pub fn ended(&mut self, statement: &Statement, answer: &Answer) {
        self.forgotten.ended(&self.of(statement).sql, answer.is_success());
        let success = answer.is_success();
        if success {
            self.succeeded(statement);
        }
        self.has_moved(statement, answer);
        let spoken = &mut self.sessions[statement.session];
        // In a transaction of XA it is refused, and commits nothing.
        let defines = spoken.xa.is_none() && DEFINES.iter().any(|verb| statement.sql.starts_with(verb));
        if defines || !spoken.is_long() {
            spoken.is_over();
            return;
        }
        if let Some(table) = spoken.done.last().and_then(|sql| target_of(sql)) {
            spoken.refusing.extend(refusing_keys(answer).map(|key| (table.clone(), key)));
        }
        if !success {
            spoken.is_partly_undone |= spoken.done.last().is_some_and(|sql| changes_what_is_there(sql));
        }
    }

    /// Where a HANDLER stands, and whether there may be other rows there since.
    fn has_moved(&mut self, statement: &Statement, answer: &Answer) {
        let (session, sql) = (statement.session, &statement.sql);
        if !sql.starts_with("HANDLER") {
            if !LEAVES_HANDLERS.iter().any(|verb| sql.starts_with(verb)) {
                self.sessions.iter_mut().for_each(|spoken| spoken.goes_on_at_end = None);
            }
            self.changes += u64::from(!["SELECT", "SET "].iter().any(|verb| statement.sql.starts_with(verb)));
            return;
        }
        if !matches!(&answer.outcome, Outcome::Rows(rows) if rows.is_empty()) {
            self.sessions[session].goes_on_at_end = None;
        } else if !self.handler_stays_at_end(statement) {
            self.sessions[session].goes_on_at_end = going_on_at_end(sql);
        }
        let found = match &answer.outcome {
            Outcome::Rows(rows) => rows.len(),
            _ => 0,
        };
        let has_missed = wanted_by_handler(&statement.sql).is_some_and(|wanted| found < wanted);
        self.sessions[statement.session].missed_after = has_missed.then_some(self.changes);
    }

    fn succeeded(&mut self, statement: &Statement) {
        for spoken in &mut self.sessions {
            spoken.younger_keys.extend(added_keys(&statement.sql).map(String::from));
        }
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
                let level = spoken.next_level.take().unwrap_or_else(|| spoken.level.clone());
                spoken.has_idle_snapshot =
                    level.ends_with("SERIALIZABLE") && statement.sql.ends_with("WITH CONSISTENT SNAPSHOT");
            }
            ["SET", "autocommit", "=", value] => spoken.without_autocommit = value == "0",
            ["SET", "SESSION", "TRANSACTION", level] => spoken.level = level.into(),
            ["SET", "TRANSACTION", "ISOLATION", level] => spoken.next_level = Some(level.into()),
            ["SET", ..] => {}
            _ => spoken.next_level = None,
        }
    }

    /// The server was killed. What was prepared as a transaction of XA is still there.
    pub fn killed(&mut self) {
        self.forgotten.killed();
        for spoken in &mut self.sessions {
            let xa = spoken.xa.take().filter(|(_, state)| *state == Xa::Prepared);
            *spoken = Spoken { xa, ..Spoken::default() };
        }
    }

    /// True if the statement of a session waits or has waited for a row, on both engines.
    pub fn waits_already(&self, session: usize) -> bool {
        self.sessions[session].waits_by_other_plans.is_some()
    }

    /// The statement of a session begins to wait.
    pub fn begins_to_wait(&mut self, session: usize, by_other_plans: bool) {
        self.sessions[session].waits_by_other_plans = Some(by_other_plans);
    }

    /// True if a statement that waits had other plans on the two engines when it began to.
    pub fn waits_by_other_plans(&self) -> bool {
        self.sessions.iter().any(|spoken| spoken.waits_by_other_plans == Some(true))
    }

    /// What InnoDB may have forgotten.
    pub fn forgotten(&self) -> &Forgotten {
        &self.forgotten
    }

    /// What the transactions that are not over have carried out.
    pub fn in_transactions(&self) -> impl Iterator<Item = &String> {
        self.sessions.iter().flat_map(|spoken| &spoken.done)
    }

    /// What the transaction of a session has carried out.
    pub fn carried_out_by(&self, session: usize) -> &[String] {
        &self.sessions[session].done
    }

    /// True if a statement of another session's transaction was rolled back, or more of it.
    pub fn others_are_partly_undone(&self, session: usize) -> bool {
        self.sessions.iter().enumerate().any(|(other, spoken)| other != session && spoken.is_partly_undone)
    }

    /// Indexes that are younger than the transaction of a session.
    pub fn younger_keys(&self, session: usize) -> &[String] {
        &self.sessions[session].younger_keys
    }

    /// True if there are transactions beside a session's, and all of them are prepared. One whose
    /// statement `is_pending` is not.
    pub fn only_prepared_are_beside(&self, session: usize, is_pending: impl Fn(usize) -> bool) -> bool {
        let is_beside =
            |&(other, spoken): &(usize, &Spoken)| other != session && (spoken.is_long() || is_pending(other));
        let mut beside = self.sessions.iter().enumerate().filter(is_beside).peekable();
        let is_prepared = |(_, spoken): (usize, &Spoken)| matches!(spoken.xa, Some((_, Xa::Prepared)));
        beside.peek().is_some() && beside.all(is_prepared)
    }

    /// True if rows may be without their parents.
    pub fn are_without_checks(&self) -> bool {
        self.without_checks
    }

    /// True if virtual columns may have other values than when their rows were written.
    pub fn may_recompute(&self) -> bool {
        self.recomputes
    }

    /// True if a session is in a transaction that goes on behind a statement.
    pub fn is_in_transaction(&self, session: usize) -> bool {
        self.sessions[session].is_long()
    }

    /// True if the transaction of a session has begun with a snapshot at SERIALIZABLE, where all
    /// its reads lock.
    pub fn has_idle_snapshot(&self, session: usize) -> bool {
        self.sessions[session].has_idle_snapshot
    }

    /// The sessions at READ COMMITTED.
    pub fn reading_committed(&self) -> impl Iterator<Item = usize> {
        (0..self.sessions.len()).filter(move |&session| self.reads_committed(session))
    }

    pub fn reads_committed(&self, session: usize) -> bool {
        self.sessions[session].level.ends_with("READ COMMITTED")
    }

    pub fn reads_uncommitted(&self, session: usize) -> bool {
        self.sessions[session].level.ends_with("READ UNCOMMITTED")
    }

    /// What the transaction of a session has read, if its isolation level promises that it reads
    /// the same again. A snapshot would keep what was read without a lock that SERIALIZABLE asks
    /// for, so that a lock is asked for.
    pub fn kept_reads(&self, session: usize) -> Vec<String> {
        let spoken = &self.sessions[session];
        let repeatable =
            |sql: &&String| sql.starts_with("SELECT") && !UNREPEATABLE.iter().any(|words| sql.contains(words));
        if spoken.level.ends_with("COMMITTED") {
            return Vec::new();
        }
        let is_locked = |sql: &str| sql.contains("FOR UPDATE") || sql.contains("LOCK IN SHARE MODE");
        let locks = spoken.level.ends_with("SERIALIZABLE");
        let again =
            |sql: &String| if locks && !is_locked(sql) { format!("{sql} LOCK IN SHARE MODE") } else { sql.clone() };
        spoken.done.iter().filter(repeatable).map(again).collect()
    }

    /// Rows that have refused new ones of the session's transaction, which keeps them as they are:
    /// their tables and primary keys.
    pub fn refusing(&self, session: usize) -> &[(String, String)] {
        &self.sessions[session].refusing
    }

    /// True if another session has read by a HANDLER, at SERIALIZABLE.
    pub fn others_lock_by_handler(&self, session: usize) -> bool {
        self.sessions.iter().enumerate().any(|(other, spoken)| {
            let reads = |sql: &String| is_read_by_handler(sql);
            other != session && spoken.level.ends_with("SERIALIZABLE") && spoken.done.iter().any(reads)
        })
    }

    /// True if a statement reads by a HANDLER, in a transaction at SERIALIZABLE.
    pub fn locks_by_handler(&self, statement: &Statement) -> bool {
        let spoken = &self.sessions[statement.session];
        is_read_by_handler(&statement.sql) && spoken.level.ends_with("SERIALIZABLE") && spoken.is_long()
    }

    /// True if the session's transaction has read by a HANDLER, and keeps the snapshot that it had.
    pub fn keeps_snapshot_of_handler(&self, session: usize) -> bool {
        let spoken = &self.sessions[session];
        !spoken.level.ends_with("COMMITTED")
            && spoken.is_long()
            && spoken.done.iter().any(|sql| is_read_by_handler(sql))
    }

    /// True if the HANDLER of a session has found less than it was to read, and something was
    /// changed since.
    pub fn handler_stands_beside_changes(&self, session: usize) -> bool {
        self.sessions[session].missed_after.is_some_and(|changes| changes < self.changes)
    }

    /// True if a HANDLER stands at the end of an index that was empty, and the statement goes on
    /// from there without turning round.
    pub fn handler_stays_at_end(&self, statement: &Statement) -> bool {
        let goes_on = self.sessions[statement.session].goes_on_at_end.as_ref();
        goes_on.is_some_and(|goes_on| statement.sql.starts_with(goes_on.as_str()))
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

/// True if the statement may change rows that were there before it.
fn changes_what_is_there(sql: &str) -> bool {
    ["UPDATE", "DELETE", "REPLACE"].iter().any(|verb| sql.starts_with(verb))
        || sql.contains(" ON DUPLICATE KEY UPDATE ")
}

/// The indexes that an ALTER TABLE adds.
fn added_keys(sql: &str) -> impl Iterator<Item = &str> {
    let altered = if sql.starts_with("ALTER TABLE") { sql } else { "" };
    altered.split("ADD ").skip(1).filter_map(|clause| {
        let key = clause.strip_prefix("UNIQUE ").unwrap_or(clause).strip_prefix("KEY ")?;
        key.split(' ').next()
    })
}

/// The primary keys that a statement was told of as being there already.
fn refusing_keys(answer: &Answer) -> impl Iterator<Item = String> {
    let error = match &answer.outcome {
        Outcome::Refused(_, text) => Some(text),
        _ => None,
    };
    let key =
        |text: &String| text.split_once("Duplicate entry '")?.1.strip_suffix("' for key 'PRIMARY'").map(String::from);
    error.into_iter().chain(&answer.warnings).filter_map(key)
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
mod tests;
