//! The catalogue of anomalies (Hermitage) as schedules of two or three sessions, at each level, on
//! both engines.
//!
//! A step is given to its session, and the next one follows when every session has answered or
//! waits for a lock: so the schedule is the same each time. The outcome is a table, which is that
//! of `docs/user/isolation.md`; the test compares both.

mod cases;
mod run;

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use self::cases::{CASES, Case};
use self::run::{Answer, Run};
use super::engine::Engine;
use super::level::Level;
use super::session::connect;
use holdfast_server::run::root;

const DOCUMENT: &str = "docs/user/isolation.md";
/// Where the tables stand in the document.
const BEGIN: &str = "<!-- catalogue -->\n";
const END: &str = "<!-- end of the catalogue -->";
const SESSIONS: usize = 3;
/// A session waits if it is found waiting so often, one after the other.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the catalogue, and compares it with the document, or writes it there.
pub fn run(socket: &Path, record: bool) -> anyhow::Result<()> {
    let tables = [Engine::Holdfast, Engine::Innodb].map(|engine| table(socket, engine));
    let [ours, theirs] = tables;
    let text = format!("\n### Holdfast\n\n{}\n### InnoDB\n\n{}\n", ours?, theirs?);
    println!("{text}");
    let path = root().join(DOCUMENT);
    let document = fs::read_to_string(&path).context(DOCUMENT)?;
    let (before, rest) =
        document.split_once(BEGIN).with_context(|| format!("{DOCUMENT} has no place for the catalogue"))?;
    let (stands, after) = rest.split_once(END).with_context(|| format!("{DOCUMENT}: the catalogue has no end"))?;
    if record {
        fs::write(&path, format!("{before}{BEGIN}{text}{END}{after}"))?;
        return Ok(());
    }
    let differs = stands.lines().zip(text.lines()).find(|(stands, is)| stands != is);
    ensure!(stands == text, "{DOCUMENT} says something else than what was seen: {differs:?}");
    println!("the catalogue is as {DOCUMENT} says");
    Ok(())
}

/// The word for the table.
fn verdict(run: &Run, case: &Case) -> String {
    if (case.happened)(run) {
        "**happens**".into()
    } else if let Some(code) = run.error() {
        format!("error {code}")
    } else if run.waited {
        "waits".into()
    } else {
        "no".into()
    }
}

fn table(socket: &Path, engine: Engine) -> anyhow::Result<String> {
    let mut table = String::from(
        "| | READ UNCOMMITTED | READ COMMITTED | REPEATABLE READ | with snapshot isolation | SERIALIZABLE |\n",
    );
    table += "|---|---|---|---|---|---|\n";
    for case in CASES {
        let word = |level| {
            let run = run_case(socket, engine, level, case);
            let run = run.with_context(|| format!("{} on {} at {}", case.name, engine.name(), level.name()))?;
            Ok(verdict(&run, case))
        };
        let verdicts = Level::ALL.into_iter().map(word).collect::<anyhow::Result<Vec<_>>>()?;
        table += &format!("| {}: {} | {} |\n", case.name, case.what, verdicts.join(" | "));
    }
    Ok(table)
}

/// A session in a thread of its own.
struct Player {
    /// Steps for it; it ends when there are no more.
    steps: Sender<(usize, &'static str)>,
    busy: usize,
}

fn run_case(socket: &Path, engine: Engine, level: Level, case: &Case) -> anyhow::Result<Run> {
    let mut admin = connect(socket)?;
    for statement in [
        "DROP DATABASE IF EXISTS isolation".to_owned(),
        "CREATE DATABASE isolation".to_owned(),
        "USE isolation".to_owned(),
        format!("CREATE TABLE t (id INT PRIMARY KEY, value INT, KEY value (value)) ENGINE={}", engine.name()),
        "INSERT INTO t VALUES (1, 10), (2, 20)".to_owned(),
    ] {
        admin.query_drop(statement)?;
    }
    let (answers, heard) = channel();
    let mut run = thread::scope(|scope| {
        let mut players = Vec::new();
        for session in 0..SESSIONS {
            let mut conn = connect(socket)?;
            conn.query_drop(level.sql(engine))?;
            conn.query_drop("USE isolation")?;
            conn.query_drop("START TRANSACTION")?;
            let (steps, told) = channel();
            let answers = answers.clone();
            scope.spawn(move || play(&mut conn, session, &told, &answers));
            players.push(Player { steps, busy: 0 });
        }
        conduct(&mut admin, engine, case, players, &heard)
    })?;
    run.rows = admin.query("SELECT id, value FROM t ORDER BY id")?;
    Ok(run)
}

type Heard = (usize, usize, anyhow::Result<Option<Answer>>);

/// Carries out the steps of a session; those behind an error that ended its transaction are left
/// out.
fn play(conn: &mut Conn, session: usize, steps: &Receiver<(usize, &'static str)>, answers: &Sender<Heard>) {
    let mut ended = false;
    for (step, sql) in steps {
        let answer = if ended { Ok(None) } else { answer(conn, sql).map(Some) };
        ended |= matches!(answer, Ok(Some(Answer::Error(_))));
        if answers.send((session, step, answer)).is_err() {
            return;
        }
    }
}

fn answer(conn: &mut Conn, sql: &str) -> anyhow::Result<Answer> {
    let result = if sql.starts_with("SELECT") {
        conn.query(sql).map(Answer::Rows)
    } else {
        conn.query_drop(sql).map(|()| Answer::Changed(conn.affected_rows()))
    };
    match result {
        Ok(answer) => Ok(answer),
        Err(mysql::Error::MySqlError(error)) => Ok(Answer::Error(error.code)),
        Err(error) => Err(error.into()),
    }
}

/// Gives out the steps, each when the one before has led to an answer or to a wait.
fn conduct(
    admin: &mut Conn,
    engine: Engine,
    case: &Case,
    mut players: Vec<Player>,
    heard: &Receiver<Heard>,
) -> anyhow::Result<Run> {
    let mut run = Run { answers: vec![None; case.script.len()], waited: false, rows: Vec::new() };
    for (step, (session, sql)) in case.script.iter().enumerate() {
        let player = &mut players[session - 1];
        player.steps.send((step, sql))?;
        player.busy += 1;
        settle(admin, engine, &mut players, heard, &mut run, false)?;
    }
    settle(admin, engine, &mut players, heard, &mut run, true)?;
    Ok(run)
}

/// Waits until each session has answered or waits for a lock; or until all have answered.
fn settle(
    admin: &mut Conn,
    engine: Engine,
    players: &mut [Player],
    heard: &Receiver<Heard>,
    run: &mut Run,
    all: bool,
) -> anyhow::Result<()> {
    let (begun, mut seen_waiting) = (Instant::now(), 0);
    while begun.elapsed() < PATIENCE {
        for (session, step, answer) in heard.try_iter() {
            players[session].busy -= 1;
            run.answers[step] = answer?;
            seen_waiting = 0;
        }
        let busy = players.iter().filter(|player| player.busy > 0).count() as u64;
        if busy == 0 {
            return Ok(());
        }
        let query = format!("SHOW GLOBAL STATUS LIKE '{}_row_lock_current_waits'", engine.name());
        let waiting: Option<(String, u64)> = admin.query_first(query)?;
        seen_waiting = if waiting.is_some_and(|(_, waiting)| waiting == busy) { seen_waiting + 1 } else { 0 };
        if seen_waiting >= LOOKS {
            run.waited = true;
            if !all {
                return Ok(());
            }
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    bail!("a session neither answers nor waits for a lock, or is never let go")
}
