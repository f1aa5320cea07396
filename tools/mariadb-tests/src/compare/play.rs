//! A scenario on both engines at once, step by step, until it ends or the engines differ.

mod deadlocks;
mod waits;

use std::cell::Cell;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use holdfast_server::Server;

use self::deadlocks::Deadlocks;
pub use self::deadlocks::ONLY_HERE;
use super::super::pairs::Engine;
use super::altered::{self, Altered, Kept};
use super::answer::Answer;
use super::by_plan;
use super::differences;
use super::evidence;
use super::judge::{Class, Difference, is_refused_there, judge};
use super::lock_waits;
use super::meaning::Meanings;
use super::orphans;
use super::plans;
use super::script::{Statement, Step, schema};
use super::sessions::{DEADLOCK, Side, Stand};

/// Where steps come from.
pub trait Source {
    /// How many sessions speak.
    fn sessions(&self) -> usize;

    /// The next step; a statement is of one of the sessions that are `free`, or is passed over.
    fn next(&mut self, free: &[usize]) -> Option<Step>;

    /// How the statement of a session ended that was said last.
    fn told(&mut self, _session: usize, _success: bool) {}
}

/// How a scenario ends.
pub enum Ending {
    /// All the same.
    Same,
    /// From here on the engines may differ, and why.
    Parted(&'static str),
    Differs(Box<Difference>),
}

impl Ending {
    /// The server is gone.
    fn lost(question: &str, ours: &str) -> Ending {
        let theirs = "(not asked)\n".into();
        Ending::Differs(Box::new(Difference {
            class: Class::Lost,
            question: question.into(),
            ours: ours.into(),
            theirs,
        }))
    }
}

/// The server, and how to start it again.
pub struct Stage<'s, 'c> {
    pub server: &'s Server<'c>,
    up: &'s dyn Fn(bool) -> anyhow::Result<()>,
    /// True if the server was found gone: the next scenario begins with a fresh one.
    is_lost: Cell<bool>,
    /// True if a deadlock that only this engine has is a difference.
    judges_deadlocks: bool,
}

impl<'s, 'c> Stage<'s, 'c> {
    /// A server that runs, and what starts it, with fresh data or with its own.
    pub fn new(server: &'s Server<'c>, up: &'s dyn Fn(bool) -> anyhow::Result<()>) -> Stage<'s, 'c> {
        Stage { server, up, is_lost: Cell::new(false), judges_deadlocks: false }
    }

    /// With deadlocks that only this engine has as differences, if `judges` says so.
    pub fn with_deadlocks(self, judges: bool) -> Stage<'s, 'c> {
        Stage { judges_deadlocks: judges, ..self }
    }

    /// True if the scenario that was played last has found the server gone.
    pub fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    fn socket(&self) -> PathBuf {
        self.server.socket_path()
    }

    fn sides(&self, sessions: usize, fresh: bool) -> anyhow::Result<[Side; 2]> {
        let open = |engine| Side::open(&self.socket(), engine, sessions, fresh);
        Ok([open(Engine::Holdfast)?, open(Engine::InnoDb)?])
    }

    /// Plays it in fresh schemas. Gives the steps that were carried out, too.
    pub fn play(&self, source: &mut dyn Source) -> anyhow::Result<(Vec<Step>, Ending)> {
        let sessions = source.sessions();
        if self.is_lost.replace(false) {
            (self.up)(true)?;
        }
        let sides = match self.sides(sessions, true) {
            Ok(sides) => sides,
            Err(error) => {
                self.is_lost.set(true);
                return Ok((Vec::new(), Ending::lost("", &format!("before the scenario begins: {error:#}\n"))));
            }
        };
        let mut play = Play {
            stage: self,
            sides,
            sessions,
            said: vec![None; sessions],
            meanings: Meanings::new(sessions),
            ran_together: false,
            before_alter: None,
            altered: Altered::default(),
            deadlocks: Deadlocks::default(),
            steps: Vec::new(),
        };
        let ending = play.run(source)?;
        self.is_lost.set(matches!(&ending, Ending::Differs(difference) if difference.class == Class::Lost));
        Ok((play.steps, ending))
    }
}

struct Play<'p, 's, 'c> {
    stage: &'p Stage<'s, 'c>,
    sides: [Side; 2],
    sessions: usize,
    /// What each session has said last.
    said: Vec<Option<Statement>>,
    meanings: Meanings,
    /// Two statements ran at the same time: nothing says which of them came first.
    ran_together: bool,
    /// What there was before the ALTER TABLE that a session is at, while others at most have ended
    /// transactions.
    before_alter: Option<Kept>,
    altered: Altered,
    /// The deadlocks among the statements that were under way last.
    deadlocks: Deadlocks,
    steps: Vec<Step>,
}

impl Play<'_, '_, '_> {
    fn run(&mut self, source: &mut dyn Source) -> anyhow::Result<Ending> {
        loop {
            let free = self.free();
            if free.is_empty() {
                return self.part("all sessions wait: locks of rows against locks of definitions");
            }
            let Some(step) = source.next(&free) else { break };
            let ending = self.step(step, source)?;
            if !matches!(ending, Ending::Same) {
                return Ok(ending);
            }
        }
        // The other sessions end, and those that wait go on.
        for _ in 0..2 * self.sessions {
            for session in self.free() {
                for sql in self.meanings.ending(session) {
                    let ending = self.step(Step::say(session, sql), source)?;
                    if !matches!(ending, Ending::Same) {
                        return Ok(ending);
                    }
                }
            }
            if self.free().len() == self.sessions {
                return self.compare_tables();
            }
        }
        self.part("all sessions wait: locks of rows against locks of definitions")
    }

    fn free(&self) -> Vec<usize> {
        (0..self.sessions).filter(|&session| !self.sides.iter().any(|side| side.is_pending(session))).collect()
    }

    fn step(&mut self, step: Step, source: &mut dyn Source) -> anyhow::Result<Ending> {
        match &step {
            Step::Kill => {
                self.steps.push(step);
                self.kill()
            }
            Step::Say(statement) if !self.free().contains(&statement.session) => Ok(Ending::Same),
            Step::Say(statement) => {
                if self.free().len() == self.sessions || !ends_transaction(&statement.sql) {
                    let alters = self.alters(statement) && self.free().len() == self.sessions;
                    self.before_alter = alters.then(|| Kept::of(&mut self.sides, self.meanings.forgotten().counts()));
                }
                for side in &mut self.sides {
                    side.say(statement.session, &statement.sql);
                }
                self.meanings.said(statement);
                self.said[statement.session] = Some(statement.clone());
                self.steps.push(step);
                self.hear(source)
            }
        }
    }

    /// What comes of all that was said and has not ended yet.
    fn hear(&mut self, source: &mut dyn Source) -> anyhow::Result<Ending> {
        let [ours, theirs] = match self.settled() {
            Ok(stands) => stands,
            Err(ending) => return Ok(ending),
        };
        self.deadlocks = Deadlocks::of([&ours, &theirs]);
        self.ran_together |= self.run_together(&ours) || self.run_together(&theirs);
        for ((session, ours), (_, theirs)) in ours.iter().zip(&theirs) {
            let statement = self.said[*session].clone().context("a session answers that was not asked")?;
            match (ours, theirs) {
                (Stand::Answered(ours), Stand::Answered(theirs))
                    if is_refused_there(&self.meanings.of(&statement).sql, ours, theirs) =>
                {
                    return self.refused_there(&statement, ours);
                }
                (Stand::Answered(ours), Stand::Answered(theirs)) => {
                    let ending = self.answered(&statement, ours, theirs)?;
                    if !matches!(ending, Ending::Same) {
                        return Ok(ending);
                    }
                    self.meanings.ended(&statement, theirs);
                    source.told(*session, theirs.is_success());
                    let lost = self.loses_number(&statement);
                    if let Some(reason) = self.has_altered(&statement, ours).or(lost) {
                        return self.part(reason);
                    }
                }
                (Stand::Waits, Stand::Waits) => self.begins_to_wait(&statement),
                (ours, theirs) => return self.stand_apart(&statement, ours, theirs),
            }
        }
        Ok(Ending::Same)
    }

    /// A statement waits for a row on both engines: later its plans may be alike, since the tables
    /// are others. No session may be about to change a definition: EXPLAIN would wait for it.
    fn begins_to_wait(&mut self, statement: &Statement) {
        let session = statement.session;
        let [holdfast, _] = &mut self.sides;
        if self.meanings.waits_already(session)
            || holdfast.blocking_locks(session).is_empty()
            || (0..self.sessions).any(|other| holdfast.waits_for_definition(other))
        {
            return;
        }
        let differ = plans::differ(&self.meanings.of(statement).sql, self.sides.each_mut());
        self.meanings.begins_to_wait(session, differ);
    }

    /// How the statements under way stand; that the server is gone if it does not say.
    fn settled(&mut self) -> Result<[Vec<(usize, Stand)>; 2], Ending> {
        let [ours, theirs] = self.sides.each_mut().map(Side::settle);
        let both = ours.and_then(|ours| Ok([ours, theirs?]));
        both.map_err(|error| Ending::lost(self.last_said().unwrap_or_default(), &format!("{error:#}\n")))
    }

    fn last_said(&self) -> Option<&str> {
        self.steps.iter().rev().find_map(|step| match step {
            Step::Say(statement) => Some(statement.sql.as_str()),
            Step::Kill => None,
        })
    }

    fn alters(&self, statement: &Statement) -> bool {
        self.meanings.of(statement).sql.starts_with("ALTER TABLE")
    }

    /// Whether InnoDB counts on from a lower number behind a statement that opens tables anew.
    fn loses_number(&mut self, statement: &Statement) -> Option<&'static str> {
        let may_lose = self.meanings.forgotten().may_lose_number(&self.meanings.of(statement).sql);
        (may_lose && altered::number_is_lost(&mut self.sides)).then_some(
            "InnoDB forgets a number of AUTO_INCREMENT that an UPDATE has taken to another partition once the table is opened anew",
        )
    }

    /// What an ALTER TABLE has left as it was; whether InnoDB counts on from another number then.
    fn has_altered(&mut self, statement: &Statement, ours: &Answer) -> Option<&'static str> {
        if !self.alters(statement) {
            return None;
        }
        let before = self.before_alter.take()?;
        let after = Kept::of(&mut self.sides, self.meanings.forgotten().counts());
        let sql = self.meanings.of(statement).sql;
        if ours.is_success() {
            self.altered.note(&sql, &before, &after);
        }
        if sql.contains(" EXCHANGE PARTITION ") && before.number_came_with_partition(&after) {
            return Some("a copy gives every partition the next number of the table, a change in place leaves its own");
        }
        before
            .number_is_forgotten(&after)
            .then_some("InnoDB reads the number of the next row again from a table with virtual columns that it alters")
    }

    /// True if two of the statements that have ended ran at the same time: those that one statement
    /// let go, and one that lets others go before it is carried out itself, as all do that commit
    /// first or have to close a HANDLER.
    fn run_together(&self, stands: &[(usize, Stand)]) -> bool {
        let ended = stands.iter().filter(|(_, stand)| matches!(stand, Stand::Answered(_)));
        let ends = |session: usize| self.said[session].as_ref().is_some_and(|said| ends_transaction(&said.sql));
        ended.filter(|(session, _)| !ends(*session)).count() > 1
    }

    fn answered(&mut self, statement: &Statement, ours: &Answer, theirs: &Answer) -> anyhow::Result<Ending> {
        let meant = self.meanings.of(statement);
        let Some((class, shown)) = judge(&meant, ours, theirs) else { return Ok(Ending::Same) };
        // Nothing excuses that; a server that is gone gives both engines the same answer.
        if class == Class::Lost || (ours.code() == DEADLOCK && self.deadlocks.is_of_one_session()) {
            return Ok(self.differ(&statement.sql, class, &shown.0, &shown.1));
        }
        if [ours.code(), theirs.code()].contains(&DEADLOCK) {
            return self.part(self.deadlocks.reason());
        }
        if self.ran_together && class != Class::Table("CHECK TABLE") {
            return self.part("two statements ran at the same time");
        }
        let session = statement.session;
        if self.meanings.reads_uncommitted(session) {
            if self.sides[1].others_have_changes(session) {
                return self.part("READ UNCOMMITTED reads what is committed");
            }
            let [_, innodb] = &mut self.sides;
            if class == Class::Rows && differences::of_level(&meant, ours, innodb).is_some() {
                return Ok(Ending::Same);
            }
            if let Some(reason) = evidence::of_level(&meant.sql, ours, theirs, innodb) {
                return self.part(reason);
            }
        }
        if let Some(reason) = differences::of_handler(&meant, ours, &self.meanings).filter(|_| class == Class::Rows) {
            return self.part(reason);
        }
        if let Some(reason) = differences::of_forgetting(&meant, &class, [ours, theirs], self.meanings.forgotten()) {
            return self.part(reason);
        }
        let codes = [ours.code(), theirs.code()];
        let younger = self.meanings.younger_keys(session);
        if let Some(reason) = by_plan::of_snapshot(&meant.sql, codes, &mut self.sides)
            .or_else(|| by_plan::of_younger_key(&meant.sql, codes, younger, &mut self.sides[0]))
            .or_else(|| altered::of_age(&meant.sql, ours, theirs, &self.altered))
            .or_else(|| altered::of_idle_snapshot(ours, theirs).filter(|_| self.meanings.has_idle_snapshot(session)))
        {
            return self.part(reason);
        }
        if class == Class::Rows
            && let Some(reason) = self.left_out(&meant.sql)
        {
            return self.part(reason);
        }
        if self.meanings.keeps_snapshot_of_handler(session)
            && let Some(reason) = evidence::of_snapshot_by_handler(ours, theirs, &mut self.sides[1])
        {
            return self.part(reason);
        }
        let skips = self.skips(session);
        if let Some(reason) = by_plan::known(&meant.sql, &class, codes, &mut self.sides)
            .or_else(|| by_plan::of_skipped(&meant.sql, &class, &mut self.sides).filter(|_| skips))
        {
            return self.part(reason);
        }
        let of_recomputed = differences::of_recomputed(&class, ours).filter(|_| self.meanings.may_recompute());
        let known = of_recomputed
            .or_else(|| differences::known(&meant.sql, ours, theirs))
            .or_else(|| evidence::of_tables(&meant.sql, ours, theirs, &mut self.sides))
            .or_else(|| by_plan::of_ties(&meant.sql, ours, theirs, &mut self.sides))
            .or_else(|| by_plan::of_repeated(&meant.sql, ours, theirs, &mut self.sides))
            .or_else(|| by_plan::of_server(&meant, [ours, theirs], &self.meanings, &mut self.sides));
        match known {
            Some(known) if known.parts => self.part(known.reason),
            Some(_) => Ok(Ending::Same),
            None => Ok(self.differ(&statement.sql, class, &shown.0, &shown.1)),
        }
    }

    /// Why `SKIP LOCKED` may leave out other rows.
    fn left_out(&mut self, sql: &str) -> Option<&'static str> {
        if !sql.contains("SKIP LOCKED") {
            return None;
        }
        if self.free().len() < self.sessions {
            return Some("InnoDB skips a row that another session waits for, also for the one that has its lock");
        }
        lock_waits::locks_others(sql, &self.meanings, self.sides.each_mut())
    }

    /// True if a session has waited, at a level at which it may pass over what others insert.
    fn skips(&self, session: usize) -> bool {
        let meanings = &self.meanings;
        meanings.waits_already(session) && (meanings.reads_committed(session) || meanings.reads_uncommitted(session))
    }

    fn differ(&mut self, question: &str, class: Class, ours: &str, theirs: &str) -> Ending {
        // The scenario is over in any case.
        let _ = self.sides.iter_mut().try_for_each(Side::give_up);
        Ending::Differs(Box::new(Difference {
            class,
            question: question.into(),
            ours: ours.into(),
            theirs: theirs.into(),
        }))
    }

    /// The engines go different ways, and may; this one's tables have to be sound nevertheless.
    fn part(&mut self, reason: &'static str) -> anyhow::Result<Ending> {
        for side in &mut self.sides {
            side.give_up()?;
        }
        Ok(match self.sides[0].unsound_table() {
            None if reason == ONLY_HERE && self.stage.judges_deadlocks => {
                let question = self.last_said().unwrap_or_default().to_owned();
                self.differ(&question, Class::Deadlock, "a deadlock\n", "none\n")
            }
            None => self.orphan().unwrap_or(Ending::Parted(reason)),
            Some((question, ours)) if ours.is_lost() => Ending::lost(&question, &ours.to_string()),
            Some((question, ours)) => {
                let theirs = format!("(not asked: {reason})\n");
                self.differ(&question, Class::Table("CHECK TABLE"), &ours.to_string(), &theirs)
            }
        })
    }

    /// The difference that this engine has a row without its parent, if it has one.
    fn orphan(&mut self) -> Option<Ending> {
        if self.meanings.are_without_checks() {
            return None;
        }
        let (question, ours) = orphans::find(&mut self.sides)?;
        if ours.is_lost() {
            return Some(Ending::lost(&question, &ours.to_string()));
        }
        Some(self.differ(&question, Class::Table("FOREIGN KEY"), &ours.to_string(), "(every row has its parent)\n"))
    }

    fn kill(&mut self) -> anyhow::Result<Ending> {
        let killed = self.stage.server.kill();
        self.meanings.killed();
        let again = killed.and_then(|()| (self.stage.up)(false));
        match again.and_then(|()| self.stage.sides(self.sessions, false)) {
            Ok(sides) => self.sides = sides,
            Err(error) => return Ok(Ending::lost("", &format!("after a kill: {error:#}\n"))),
        }
        self.compare_tables()
    }

    /// Whether the same tables are there with the same rows, and sound.
    fn compare_tables(&mut self) -> anyhow::Result<Ending> {
        for side in &mut self.sides {
            let use_it = format!("USE {}", schema(side.engine));
            side.look(&use_it);
        }
        let list = "SELECT table_name, table_type, create_options LIKE '%partitioned%' FROM information_schema.tables \
                    WHERE table_schema = DATABASE() ORDER BY table_name";
        let tables = match self.asked(list)? {
            Ok(answer) => answer,
            Err(ending) => return Ok(ending),
        };
        ensure!(tables.is_success(), "the tables cannot be listed: {tables}");
        for table in tables.into_rows() {
            if let Err(ending) = self.compare_table(&table[0], &table[1])? {
                return Ok(ending);
            }
        }
        Ok(self.orphan().unwrap_or(Ending::Same))
    }

    fn compare_table(&mut self, name: &str, kind: &str) -> anyhow::Result<Result<(), Ending>> {
        let all = if kind == "SYSTEM VERSIONED" { " FOR SYSTEM_TIME ALL" } else { "" };
        let definition = match self.asked(&format!("SHOW CREATE TABLE {name}"))? {
            Ok(answer) => answer.to_string(),
            Err(ending) => return Ok(Err(ending)),
        };
        let mut questions = vec![format!("SELECT * FROM {name}{all}")];
        if kind != "SEQUENCE" {
            questions.push(format!("CHECK TABLE {name} EXTENDED"));
        }
        // The server takes the others' generated columns into the sum without reading them.
        if kind == "BASE TABLE" && !definition.contains("GENERATED ALWAYS") && !definition.contains("USING HASH") {
            questions.push(format!("CHECKSUM TABLE {name}"));
        }
        for question in questions {
            if let Err(ending) = self.asked(&question)? {
                return Ok(Err(ending));
            }
        }
        Ok(Ok(()))
    }

    /// Both answer the same, or it is a difference.
    fn asked(&mut self, sql: &str) -> anyhow::Result<Result<Answer, Ending>> {
        let [ours, theirs] = &mut self.sides;
        let (ours, theirs) = (ours.look(sql), theirs.look(sql));
        let statement = Statement { session: 0, sql: sql.into(), ordered: sql.starts_with("CHECK") };
        Ok(match self.answered(&statement, &ours, &theirs)? {
            Ending::Same => Ok(ours),
            ending => Err(ending),
        })
    }
}

/// True if the statement does nothing but end a transaction, or a part of it.
fn ends_transaction(sql: &str) -> bool {
    let is_xa = sql.starts_with("XA COMMIT") || sql.starts_with("XA ROLLBACK");
    is_xa || sql == "COMMIT" || sql.starts_with("ROLLBACK")
}
