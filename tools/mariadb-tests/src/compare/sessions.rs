//! The sessions of one engine. A statement is carried out by a thread of its session, so that one
//! can wait for a lock while others go on.
//!
//! Whether a statement waits is not guessed from the time that it takes: the server is asked which
//! sessions wait. InnoDB answers that from a copy which may be a tenth of a second old, so that a
//! look counts only if the one before it was longer ago than that.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

use super::super::pairs::Engine;
use super::answer::{Answer, Outcome, ask};
use super::script::{for_engine, preamble, schema};

/// Statements that end within that time are not asked about.
const SHORT: Duration = Duration::from_millis(30);
/// Longer than the copy lives from which InnoDB lists the sessions that wait.
const BETWEEN_LOOKS: Duration = Duration::from_millis(115);
/// A statement that neither ends nor waits hangs.
const LONGEST: Duration = Duration::from_secs(60);
/// How long a statement of InnoDB that was killed may go on before others are ended for it.
const DEAF: Duration = Duration::from_secs(5);

/// No answer is on its way for longer once the server takes a statement for ended.
const LATE: Duration = Duration::from_secs(10);

/// The server's error for the victim of a deadlock.
pub const DEADLOCK: u16 = 1213;

/// A connection with a thread that waits for its answers.
struct Session {
    statements: Sender<String>,
    answers: Receiver<Answer>,
    /// By which the server knows it.
    id: u32,
    pending: bool,
}

/// The sessions of an engine.
pub struct Side {
    pub engine: Engine,
    sessions: Vec<Session>,
    watcher: Conn,
    looked: Instant,
}

/// A lock of this engine that a session has.
#[derive(Debug)]
pub struct Lock {
    pub mode: String,
    pub table: String,
    pub index: String,
    /// The key of a row, in hexadecimal digits.
    pub data: String,
}

/// How a statement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    Answered(Answer),
    Waits,
    /// It neither waits nor ends.
    Hangs,
}

impl Stand {
    fn answer(&self) -> Option<&Answer> {
        match self {
            Stand::Answered(answer) => Some(answer),
            Stand::Waits | Stand::Hangs => None,
        }
    }

    /// True if its connection is gone.
    pub fn is_lost(&self) -> bool {
        self.answer().is_some_and(Answer::is_lost)
    }

    /// True if it is the victim of a deadlock.
    pub fn is_victim(&self) -> bool {
        self.answer().is_some_and(|answer| answer.code() == DEADLOCK)
    }
}

impl std::fmt::Display for Stand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stand::Answered(answer) => answer.fmt(f),
            Stand::Waits => writeln!(f, "waits for a lock"),
            Stand::Hangs => writeln!(f, "neither ends nor waits"),
        }
    }
}

/// A new connection.
pub fn connect(socket: &Path) -> anyhow::Result<Conn> {
    let options = OptsBuilder::new().socket(Some(socket.to_string_lossy())).user(Some("root"));
    Conn::new(options).context("the server takes no connection")
}

impl Side {
    /// So many sessions, in the engine's own schema, which is empty if it is to be `fresh`.
    pub fn open(socket: &Path, engine: Engine, sessions: usize, fresh: bool) -> anyhow::Result<Side> {
        let mut watcher = connect(socket)?;
        let schema = schema(engine);
        if fresh {
            watcher.query_drop("SET foreign_key_checks = 0, lock_wait_timeout = 30")?;
            end_prepared(&mut watcher, &schema)?;
            watcher.query_drop(format!("DROP DATABASE IF EXISTS {schema}"))?;
            watcher.query_drop(format!("CREATE DATABASE {schema}"))?;
        }
        let sessions = (0..sessions).map(|_| Session::open(socket, engine, &schema)).collect::<Result<_, _>>()?;
        Ok(Side { engine, sessions, watcher, looked: Instant::now() })
    }

    pub fn is_pending(&self, session: usize) -> bool {
        self.sessions[session].pending
    }

    /// Lets a session say something; what comes of it is told by [`Side::settle`].
    pub fn say(&mut self, session: usize, sql: &str) {
        let sql = for_engine(sql, self.engine);
        let session = &mut self.sessions[session];
        session.pending = session.statements.send(sql).is_ok();
    }

    /// Waits until each statement that is on its way has an answer or waits for a lock. Gives the
    /// sessions that were on their way.
    pub fn settle(&mut self) -> anyhow::Result<Vec<(usize, Stand)>> {
        let begun = Instant::now();
        let mut open: Vec<usize> = (0..self.sessions.len()).filter(|&s| self.sessions[s].pending).collect();
        let mut stands = Vec::new();
        let mut patience = SHORT;
        while !open.is_empty() {
            open.retain(|&session| match self.sessions[session].answer_within(patience) {
                Some(answer) => {
                    stands.push((session, Stand::Answered(answer)));
                    false
                }
                None => true,
            });
            if open.is_empty() {
                break;
            }
            let waiting = self.who_waits()?;
            if open.iter().all(|&session| waiting.contains(&self.sessions[session].id)) {
                // A session that was freed just before the look may have answered meanwhile.
                for session in open.clone() {
                    if let Some(answer) = self.sessions[session].answer_within(Duration::ZERO) {
                        stands.push((session, Stand::Answered(answer)));
                        open.retain(|&other| other != session);
                    }
                }
                stands.extend(open.iter().map(|&session| (session, Stand::Waits)));
                break;
            }
            let is_late = begun.elapsed() > LATE && open.iter().all(|&session| self.gets_no_answer(session));
            if is_late || begun.elapsed() > LONGEST {
                stands.extend(open.iter().map(|&session| (session, Stand::Hangs)));
                break;
            }
            patience = Duration::from_millis(2);
        }
        stands.sort_by_key(|(session, _)| *session);
        Ok(stands)
    }

    /// The connections that wait for a lock on rows or on a table's definition.
    fn who_waits(&mut self) -> anyhow::Result<Vec<u32>> {
        sleep(BETWEEN_LOOKS.saturating_sub(self.looked.elapsed()));
        let listing = match self.engine {
            Engine::Holdfast => "HOLDFAST_TRX",
            Engine::InnoDb => "INNODB_TRX",
        };
        let ids = self.watcher.query(format!(
            "SELECT trx_mysql_thread_id FROM information_schema.{listing} WHERE trx_state = 'LOCK WAIT' \
             UNION SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for%lock'"
        ))?;
        self.looked = Instant::now();
        Ok(ids)
    }

    /// True if a session waits for the lock of a row in a table with partitions, as InnoDB sees it.
    pub fn waits_in_partition(&mut self, session: usize) -> bool {
        self.table_waited_for(session).is_some_and(|table| table.contains("/* Partition "))
    }

    /// The table with the row that keeps a session waiting, as the engine calls it.
    pub fn table_waited_for(&mut self, session: usize) -> Option<String> {
        sleep(BETWEEN_LOOKS.saturating_sub(self.looked.elapsed()));
        let id = self.sessions[session].id;
        let engine = self.engine.name();
        let table = self.watcher.query_first(format!(
            "SELECT l.lock_table FROM information_schema.{engine}_TRX t JOIN information_schema.{engine}_LOCKS l \
             ON l.lock_id = t.trx_requested_lock_id WHERE t.trx_mysql_thread_id = {id}"
        ));
        self.looked = Instant::now();
        table.ok().flatten()
    }

    /// The sessions of this engine for whose locks a session of it waits.
    pub fn blocked_by(&mut self, session: usize) -> Vec<usize> {
        let id = self.sessions[session].id;
        let ids: Vec<u32> = self
            .watcher
            .query(format!(
                "SELECT DISTINCT b.trx_mysql_thread_id FROM information_schema.HOLDFAST_LOCK_WAITS w \
                 JOIN information_schema.HOLDFAST_TRX t ON t.trx_id = w.requesting_trx_id \
                 JOIN information_schema.HOLDFAST_TRX b ON b.trx_id = w.blocking_trx_id \
                 WHERE t.trx_mysql_thread_id = {id}"
            ))
            .unwrap_or_default();
        (0..self.sessions.len()).filter(|&other| ids.contains(&self.sessions[other].id)).collect()
    }

    /// True if another session has changed rows and not ended its transaction, as InnoDB sees it.
    pub fn others_have_changes(&mut self, session: usize) -> bool {
        sleep(BETWEEN_LOOKS.saturating_sub(self.looked.elapsed()));
        let id = self.sessions[session].id;
        let others = self.watcher.query_first(format!(
            "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0 AND trx_mysql_thread_id <> {id}"
        ));
        self.looked = Instant::now();
        matches!(others, Ok(Some(1u64..)))
    }

    /// True if the server takes the statement of a session for ended, which has no answer.
    pub fn gets_no_answer(&mut self, session: usize) -> bool {
        let id = self.sessions[session].id;
        let ends = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND command = 'Sleep'");
        self.sessions[session].pending && matches!(self.watcher.query_first(ends), Ok(Some(1u64)))
    }

    /// True if a session waits to use a table whose definition others keep or want to change.
    pub fn waits_for_definition(&mut self, session: usize) -> bool {
        let id = self.sessions[session].id;
        let found = self.watcher.query_first::<u32, _>(format!(
            "SELECT id FROM information_schema.processlist WHERE id = {id} AND state = 'Waiting for table metadata lock'"
        ));
        matches!(found, Ok(Some(_)))
    }

    /// True if a session of this engine waits to lock a range because others wait to insert there:
    /// of those that wait for a range, an inserter has a key, a reader has two ends.
    pub fn waits_for_inserters(&mut self, session: usize) -> bool {
        self.range_waited_for(session).is_some_and(|range| range.starts_with(['(', '[']))
    }

    /// True if a session of this engine waits to insert where others read a range.
    pub fn waits_to_insert(&mut self, session: usize) -> bool {
        self.range_waited_for(session).is_some_and(|range| !range.starts_with(['(', '[']))
    }

    /// The range, or the key in one, that a session of this engine waits for.
    fn range_waited_for(&mut self, session: usize) -> Option<String> {
        let id = self.sessions[session].id;
        let found = self.watcher.query_first(format!(
            "SELECT l.lock_data FROM information_schema.HOLDFAST_TRX t JOIN information_schema.HOLDFAST_LOCKS l \
             ON l.lock_id = t.trx_requested_lock_id AND l.lock_type = 'RANGE' AND l.lock_status = 'WAITING' \
             WHERE t.trx_mysql_thread_id = {id}"
        ));
        found.ok().flatten()
    }

    /// The locks for which a session of this engine waits.
    pub fn blocking_locks(&mut self, session: usize) -> Vec<Lock> {
        self.locks_before(session, "= 'GRANTED'")
    }

    /// The same with the requests that came before its own.
    pub fn blocking_requests(&mut self, session: usize) -> Vec<Lock> {
        self.locks_before(session, "IN ('GRANTED', 'WAITING')")
    }

    fn locks_before(&mut self, session: usize, status: &str) -> Vec<Lock> {
        let id = self.sessions[session].id;
        let rows = self.watcher.query(format!(
            "SELECT l.lock_mode, l.lock_table, l.lock_index, l.lock_data FROM information_schema.HOLDFAST_LOCK_WAITS w \
             JOIN information_schema.HOLDFAST_TRX t ON t.trx_id = w.requesting_trx_id \
             JOIN information_schema.HOLDFAST_LOCKS l ON l.lock_id = w.blocking_lock_id AND l.lock_status {status} \
             WHERE t.trx_mysql_thread_id = {id}"
        ));
        let name = |table: String| table.rsplit_once(".`").map_or(String::new(), |(_, name)| name.replace('`', ""));
        let lock = |(mode, table, index, data): (String, String, Option<String>, Option<String>)| Lock {
            mode,
            table: name(table),
            index: index.unwrap_or_default(),
            data: data.unwrap_or_default(),
        };
        rows.map_or(Vec::new(), |rows| rows.into_iter().map(lock).collect())
    }

    /// Asks beside the sessions.
    pub fn look(&mut self, sql: &str) -> Answer {
        ask(&mut self.watcher, sql)
    }

    /// The first table of which CHECK TABLE says that it is damaged, if there is one, or what says
    /// that the server is gone: the question and its answer.
    pub fn unsound_table(&mut self) -> Option<(String, Answer)> {
        let schema = schema(self.engine);
        let tables = format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}' \
             AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY table_name"
        );
        let listed = self.look(&tables);
        if listed.is_lost() {
            return Some((tables, listed));
        }
        let questions = listed.into_rows().into_iter().map(|row| format!("CHECK TABLE {schema}.`{}` EXTENDED", row[0]));
        questions.map(|question| (self.look(&question), question)).find_map(|(answer, question)| {
            let is_corrupt =
                matches!(&answer.outcome, Outcome::Rows(rows) if rows.iter().flatten().any(|word| word == "Corrupt"));
            (is_corrupt || answer.is_lost()).then_some((question, answer))
        })
    }

    /// Ends what the sessions are at. The scenario is over then: InnoDB's sessions may be gone.
    pub fn give_up(&mut self) -> anyhow::Result<()> {
        for at in 0..self.sessions.len() {
            if self.sessions[at].pending {
                let what = if self.gets_no_answer(at) { "KILL" } else { "KILL QUERY" };
                // It may have ended meanwhile.
                let _ = self.watcher.query_drop(format!("{what} {}", self.sessions[at].id));
            }
        }
        if self.engine == Engine::InnoDb && !self.has_answers_within(DEAF) {
            // A change of partitions that waits for a row is deaf to KILL there, and ends when the
            // transaction that has the row does.
            for session in self.sessions.iter().filter(|session| !session.pending) {
                let _ = self.watcher.query_drop(format!("KILL {}", session.id));
            }
        }
        ensure!(
            self.has_answers_within(LONGEST),
            "a statement on {} does not end, though it was killed",
            self.engine.name()
        );
        Ok(())
    }

    /// True if all sessions have their answers, each within `time`.
    fn has_answers_within(&mut self, time: Duration) -> bool {
        self.sessions.iter_mut().all(|session| !session.pending || session.answer_within(time).is_some())
    }
}

/// Ends the transactions of XA that an earlier scenario has left prepared. Their connections may
/// be about to close.
fn end_prepared(watcher: &mut Conn, schema: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let names: Vec<(u32, u32, u32, String)> = watcher.query("XA RECOVER")?;
        let left: Vec<_> = names.into_iter().map(|name| name.3).filter(|name| name.starts_with(schema)).collect();
        if left.is_empty() {
            return Ok(());
        }
        ensure!(begun.elapsed() < LONGEST, "transactions of XA cannot be ended: {left:?}");
        for name in left {
            // Refused as long as its connection is there.
            let _ = watcher.query_drop(format!("XA ROLLBACK '{name}'"));
        }
        sleep(SHORT);
    }
}

impl Session {
    fn open(socket: &Path, engine: Engine, schema: &str) -> anyhow::Result<Session> {
        let mut connection = connect(socket)?;
        connection.query_drop(format!("USE {schema}"))?;
        connection.query_drop(preamble(engine))?;
        let id = connection.connection_id();
        let (statements, orders) = channel::<String>();
        let (answered, answers) = channel();
        thread::spawn(move || {
            for sql in orders {
                if answered.send(ask(&mut connection, &sql)).is_err() {
                    break;
                }
            }
        });
        Ok(Session { statements, answers, id, pending: false })
    }

    fn answer_within(&mut self, time: Duration) -> Option<Answer> {
        match self.answers.recv_timeout(time) {
            Ok(answer) => {
                self.pending = false;
                Some(answer)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.pending = false;
                Some(Answer { outcome: Outcome::Lost("its thread has ended".into()), warnings: Vec::new() })
            }
        }
    }
}
