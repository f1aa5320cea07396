//! A statement waits for a lock on one engine only.
//!
//! InnoDB locks more than what is read: gaps, the row behind a range, rows that are deleted and
//! not purged yet. A wait for such a lock has no consequence, and that is what is looked at. The
//! other sessions repeat what they have read, where their isolation level promises that it stays,
//! read the rows that have refused new ones of theirs, and end. Then all of them have to have read
//! the same as on InnoDB, the statement that has waited there has to have the answer that it has
//! here without, and the tables have to be the same. A lock that this engine needs and does not
//! take differs in one of these. A statement that InnoDB refuses for such a wait is looked at in
//! the same way.

use super::super::answer::{Answer, Outcome};
use super::super::judge::{Class, Difference, NOWAIT};
use super::super::lock_waits;
use super::super::script::{Statement, schema};
use super::super::sessions::Stand;
use super::deadlocks::Deadlocks;
use super::{Ending, Play};

/// What has become of the wait on InnoDB.
enum Wait {
    Goes,
    /// The statement has its answer.
    Over(Answer),
    /// The scenario ends.
    Ends(Ending),
}

impl Play<'_, '_, '_> {
    /// One engine lets a statement wait, the other does not.
    pub(super) fn stand_apart(
        &mut self,
        statement: &Statement,
        ours: &Stand,
        theirs: &Stand,
    ) -> anyhow::Result<Ending> {
        if ours.is_lost() || theirs.is_lost() {
            return Ok(self.differ(&statement.sql, Class::Lost, &ours.to_string(), &theirs.to_string()));
        }
        if ours.is_victim() && self.deadlocks.is_of_one_session() {
            return Ok(self.differ(&statement.sql, Class::Waits, &ours.to_string(), &theirs.to_string()));
        }
        if ours.is_victim() || theirs.is_victim() {
            return self.part(self.deadlocks.reason());
        }
        if self.ran_together && !matches!(ours, Stand::Hangs) {
            return self.part("two statements ran at the same time");
        }
        if statement.sql.contains("CHECKSUM TABLE ")
            && matches!((ours, theirs), (Stand::Hangs, Stand::Hangs))
            && self.sides.iter_mut().all(|side| side.gets_no_answer(statement.session))
        {
            return self.part("the server gives a CHECKSUM TABLE that is a deadlock's victim no answer");
        }
        if matches!(ours, Stand::Hangs) || matches!(theirs, Stand::Hangs) {
            return Ok(self.differ(&statement.sql, Class::Hangs, &ours.to_string(), &theirs.to_string()));
        }
        if let Some(reason) = lock_waits::of_definitions(&self.meanings.of(statement).sql) {
            return self.part(reason);
        }
        if self.waits_behind_definition(statement.session, ours) {
            return self.part("a statement comes after a change of a definition that waits: for other things there");
        }
        let meant = self.meanings.of(statement);
        match ours {
            Stand::Answered(answer) => match lock_waits::of_waits_there(&meant, &self.meanings, &mut self.sides[1]) {
                Some(reason) => self.part(reason),
                None => self.waits_there(statement, answer),
            },
            _ => match lock_waits::of_waits(&meant, &self.meanings, &mut self.sides) {
                Some(reason) => self.part(reason),
                None => Ok(self.differ(&statement.sql, Class::Waits, &ours.to_string(), &theirs.to_string())),
            },
        }
    }

    /// True if a statement waits for the definition of a table, and another session waits on both
    /// engines to change one: for rows before it asks for the table, or with what it has asked for.
    fn waits_behind_definition(&mut self, session: usize, ours: &Stand) -> bool {
        let defines = |play: &Self, other: usize| {
            let said = play.said[other].as_ref().filter(|_| other != session);
            said.is_some_and(|said| lock_waits::of_definitions(&play.meanings.of(said).sql).is_some())
                && play.sides.iter().all(|side| side.is_pending(other))
        };
        let side = usize::from(matches!(ours, Stand::Answered(_)));
        (0..self.sessions).any(|other| defines(self, other)) && self.sides[side].waits_for_definition(session)
    }

    /// Only InnoDB refuses a statement because it would have to wait. It says it again without
    /// NOWAIT, and what comes of the wait is looked at.
    pub(super) fn refused_there(&mut self, statement: &Statement, ours: &Answer) -> anyhow::Result<Ending> {
        if self.free().len() < self.sessions {
            return self.part("InnoDB lets another statement wait, and a third session waits");
        }
        let waiter = Statement { sql: self.meanings.of(statement).sql.replace(NOWAIT, ""), ..statement.clone() };
        self.sides[1].say(waiter.session, &waiter.sql);
        match self.sides[1].settle()?.as_slice() {
            [(_, Stand::Waits)] => self.waits_there(&waiter, ours),
            _ => Ok(self.differ(&statement.sql, Class::Codes(ours.code(), 1205), &ours.to_string(), "does not wait\n")),
        }
    }

    /// Only InnoDB lets a statement wait: whether that has consequences.
    fn waits_there(&mut self, waiter: &Statement, ours: &Answer) -> anyhow::Result<Ending> {
        if self.meanings.others_are_partly_undone(waiter.session) {
            return self
                .part("a rollback to a savepoint gives up the locks of rows that were locked and changed since");
        }
        let others = self.free();
        if others.len() + 1 < self.sessions {
            return self.part("InnoDB lets another statement wait, and a third session waits");
        }
        let ending = self.without_waiter(waiter, ours, &others)?;
        Ok(match ending {
            Ending::Differs(difference) => Ending::Differs(Box::new(Difference {
                class: Class::Waits,
                question: waiter.sql.clone(),
                ours: format!("{ours}then `{}`\n{}", difference.question, difference.ours),
                theirs: format!("waits for a lock\nthen `{}`\n{}", difference.question, difference.theirs),
            })),
            Ending::Same => self.part("InnoDB lets a statement wait for a lock without consequence")?,
            parted @ Ending::Parted(_) => parted,
        })
    }

    /// The other sessions repeat what they have read, and end; the waiter goes on.
    fn without_waiter(&mut self, waiter: &Statement, ours: &Answer, others: &[usize]) -> anyhow::Result<Ending> {
        for &session in others {
            for sql in self.meanings.kept_reads(session).into_iter().chain(self.refusing_rows(session)) {
                match self.says(session, &sql, waiter)? {
                    Wait::Goes => {}
                    Wait::Over(_) => return self.part(self.deadlocks.reason()),
                    Wait::Ends(ending) => return Ok(ending),
                }
            }
        }
        let mut theirs = None;
        for &session in others {
            for sql in self.meanings.ending(session) {
                match self.says(session, &sql, waiter)? {
                    Wait::Goes => {}
                    Wait::Over(answer) => theirs = Some(answer),
                    Wait::Ends(ending) => return Ok(ending),
                }
            }
        }
        let Some(theirs) = theirs else { return self.part("InnoDB lets a statement wait when no transaction is left") };
        let ending = self.answered(waiter, ours, &theirs)?;
        if !matches!(ending, Ending::Same) {
            return Ok(ending);
        }
        self.meanings.ended(waiter, &theirs);
        for sql in self.meanings.ending(waiter.session) {
            if let Wait::Ends(ending) = self.says(waiter.session, &sql, waiter)? {
                return Ok(ending);
            }
        }
        self.compare_tables()
    }

    /// Reads of the rows that have refused others: they stay until the session's transaction ends.
    fn refusing_rows(&mut self, session: usize) -> Vec<String> {
        let schema = schema(self.sides[1].engine);
        let mut reads = Vec::new();
        for (table, key) in self.meanings.refusing(session).to_vec() {
            let columns = format!(
                "SELECT MIN(s.column_name), MIN(c.data_type) FROM information_schema.statistics s \
                 JOIN information_schema.columns c USING (table_schema, table_name, column_name) \
                 WHERE table_schema = '{schema}' AND table_name = '{table}' AND index_name = 'PRIMARY' HAVING COUNT(*) = 1"
            );
            let Outcome::Rows(rows) = self.sides[1].look(&columns).outcome else { continue };
            // Of others the message may have a part, or it in another form.
            let Some([column, _]) = rows.first().map(Vec::as_slice).filter(|row| row[1].ends_with("int")) else {
                continue;
            };
            // A row of the refused statement itself is gone with it.
            self.sides[1].look("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED");
            let there = self.sides[1].look(&format!("SELECT {column} FROM {schema}.{table} WHERE {column} = {key}"));
            if !there.into_rows().is_empty() {
                reads.push(format!("SELECT {column} FROM {table} WHERE {column} = {key} LOCK IN SHARE MODE"));
            }
        }
        reads
    }

    /// A session says something on both engines, while the waiter may wait on InnoDB.
    fn says(&mut self, session: usize, sql: &str, waiter: &Statement) -> anyhow::Result<Wait> {
        let statement = Statement { session, sql: sql.into(), ordered: false };
        for side in &mut self.sides {
            side.say(session, sql);
        }
        let [mut ours, mut theirs] = match self.settled() {
            Ok(stands) => stands,
            Err(ending) => return Ok(Wait::Ends(ending)),
        };
        self.deadlocks = Deadlocks::of([&ours, &theirs]);
        let of = |stands: &mut Vec<(usize, Stand)>, session| {
            stands.iter().position(|stand| stand.0 == session).map(|at| stands.swap_remove(at).1)
        };
        let ending = match (of(&mut ours, session), of(&mut theirs, session)) {
            (Some(Stand::Answered(ours)), Some(Stand::Answered(theirs))) => {
                let ending = self.answered(&statement, &ours, &theirs)?;
                self.meanings.ended(&statement, &theirs);
                ending
            }
            (Some(Stand::Answered(_)), _) => self.part("two sessions wait for each other on InnoDB")?,
            (ours, theirs) => {
                let shown = |stand: Option<Stand>| stand.map_or_else(String::new, |stand| stand.to_string());
                self.differ(sql, Class::Waits, &shown(ours), &shown(theirs))
            }
        };
        if !matches!(ending, Ending::Same) {
            return Ok(Wait::Ends(ending));
        }
        Ok(match of(&mut theirs, waiter.session) {
            Some(Stand::Answered(answer)) if session != waiter.session => Wait::Over(answer),
            _ => Wait::Goes,
        })
    }
}
