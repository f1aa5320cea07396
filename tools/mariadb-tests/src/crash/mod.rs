//! The crash test: a server under load is killed (SIGKILL) and comes up again, round after round.
//!
//! The load is a bank. [`WORKERS`] sessions move money between accounts. Each movement is one
//! transaction, which records it in a ledger that refers to the accounts, and on a slip, whose
//! parts refer to the slip and follow when it gets its number and when it is deleted. One more
//! session does the same in XA transactions. Another one creates, alters, truncates, renames and
//! drops tables that refer to each other. Another one adds indexes to a table of many rows and
//! drops them, another one does that to the accounts, and another one changes their columns. What
//! the server has told a session before the kill has to hold after it:
//!
//! * every acknowledged movement is in the ledger, beside it at most the one that was under way,
//!   and no half of one: each account has the balance of the ledger;
//! * the slips of the last movements exist, each with its parts, and there are no other parts;
//!   nothing refers to a table that does not exist;
//! * a prepared XA transaction is there to be committed;
//! * the binary log has exactly the movements of the ledger (except for an XA PREPARE under way);
//! * every table can be used, and `CHECK TABLE` finds nothing.
//!
//! Before all that, the server is killed when it has made a table with its rows, and nothing else
//! has had the log written since.
//!
//! Under sysbench's load ([`beside`]) a replica shows the content of the binary log, and `holdfast
//! check` checks the files as the kill left them. There is no XA session then: a prepare that only
//! the binary log has would stop the replica.

pub mod bank;
mod beside;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use self::bank::{PARTS, PORT, SLIPS, execute, movement, tables, xa_movement};
use self::beside::Beside;
use holdfast_server::Cache;
use holdfast_server::Server;

/// Sessions that move money; the XA session comes behind them.
const WORKERS: usize = 4;
/// Acknowledged movements of a round; then the server is killed.
const MOVEMENTS: usize = 150;
/// How long a round may take until then.
const PATIENCE: Duration = Duration::from_secs(120);

/// Small, so that pages are evicted and checkpoints made all the time; everything durable.
const OPTIONS: [&str; 8] = [
    "--holdfast-buffer-pool-size=5M",
    "--holdfast-log-file-size=4M",
    "--holdfast-flush-log-at-trx-commit=1",
    "--log-bin=bin",
    "--binlog-format=ROW",
    "--sync-binlog=1",
    "--server-id=1",
    "--max-binlog-size=64K",
];

/// What a session was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Prepared,
    Committed,
}

/// A line that a session's client printed: whose, what, which movement.
type Line = (usize, Told, u64);

/// Runs `rounds` rounds, each with a kill. With `sysbench`, its `oltp_read_write` runs beside the
/// bank, a replica follows, and there is no XA session.
pub fn run(cache: &Cache, rounds: u32, sysbench: bool) -> anyhow::Result<()> {
    let server = Server::new(cache, "crash").bound_to_us();
    let mut options: Vec<String> = OPTIONS.iter().map(|o| (*o).to_string()).collect();
    if sysbench {
        options.push("--max-binlog-size=16M".into());
    }
    let beside = sysbench.then(|| Beside::new(cache, &server)).transpose()?;
    server.up(PORT, true, &options)?;
    let result = kill_again_and_again(&server, &options, rounds, beside.as_ref());
    if result.is_err() {
        let replica = beside.as_ref().map(Beside::log_tail).unwrap_or_default();
        println!("log of the server:\n{}\n{replica}", server.log_tail());
    }
    beside.as_ref().map_or(Ok(()), Beside::end)?;
    result.and_then(|()| server.down())
}

fn kill_again_and_again(
    server: &Server<'_>,
    options: &[String],
    rounds: u32,
    beside: Option<&Beside<'_>>,
) -> anyhow::Result<()> {
    made_with_rows(server, options)?;
    execute(server, &tables("HOLDFAST"))?;
    beside.map_or(Ok(()), Beside::start)?;
    let mut told = vec![Session::default(); if beside.is_some() { WORKERS } else { WORKERS + 1 }];
    for round in 0..rounds {
        round_of_load(server, round, &mut told, beside)?;
        server.up(PORT, false, options).context("the server does not come up again")?;
        audit(server, &mut told, beside).with_context(|| format!("after kill {}", round + 1))?;
        let movements = told.iter().map(|t| t.committed).sum::<u64>();
        println!("kill {} of {rounds}: {movements} movements, all there", round + 1);
    }
    Ok(())
}

/// A table that is made with its rows has them from when the statement is acknowledged.
fn made_with_rows(server: &Server<'_>, options: &[String]) -> anyhow::Result<()> {
    execute(
        server,
        "CREATE DATABASE made; USE made; CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=HOLDFAST SELECT seq id, seq a FROM seq_1_to_1000",
    )?;
    server.kill()?;
    server.up(PORT, false, options).context("the server does not come up again")?;
    let rows =
        execute(server, "SELECT COUNT(*), COUNT(DISTINCT a) FROM made.t; CHECK TABLE made.t; DROP DATABASE made")?;
    ensure!(rows.starts_with("1000\t1000\n"), "of 1000 rows with which a table was made, after a kill:\n{rows}");
    Ok(())
}

/// How far a session is known to have come.
#[derive(Clone, Copy, Default)]
struct Session {
    prepared: u64,
    committed: u64,
}

/// Puts load on the server and kills it.
fn round_of_load(
    server: &Server<'_>,
    round: u32,
    told: &mut [Session],
    beside: Option<&Beside<'_>>,
) -> anyhow::Result<()> {
    let sysbench = beside.map(Beside::load).transpose()?;
    let (lines, heard) = channel();
    let mut clients = Vec::new();
    for (session, at) in told.iter().enumerate() {
        let first = at.committed + 1;
        let script = move |n: u64| {
            if session < WORKERS { movement(session, first + n) } else { xa_movement(session, first + n) }
        };
        clients.push(Client::start(server, session, script, lines.clone())?);
    }
    execute(server, "DROP DATABASE IF EXISTS defs; CREATE DATABASE defs")?;
    clients.push(Client::start(server, usize::MAX, move |n| definitions(round, n), lines.clone())?);
    clients.push(Client::start(server, usize::MAX, indexes, lines.clone())?);
    clients.push(Client::start(server, usize::MAX, indexes_of_accounts, lines.clone())?);
    clients.push(Client::start(server, usize::MAX, columns_of_accounts, lines.clone())?);
    drop(lines);
    let listened = listen(&heard, told);
    server.kill()?;
    let errors: Vec<String> = clients.into_iter().flat_map(Client::end).collect();
    if let Some(mut sysbench) = sysbench {
        sysbench.wait()?;
    }
    beside.map_or(Ok(()), Beside::check_files)?;
    // What was acknowledged before the kill may still lie in a pipe.
    for line in heard.try_iter() {
        note(told, line);
    }
    listened?;
    ensure!(errors.is_empty(), "a client's load ended before the kill:\n{}", errors.join("\n"));
    Ok(())
}

/// Waits for so many movements that the round is over.
fn listen(heard: &Receiver<Line>, told: &mut [Session]) -> anyhow::Result<()> {
    let begun = Instant::now();
    for _ in 0..MOVEMENTS {
        let left = PATIENCE.checked_sub(begun.elapsed()).context("the server is too slow, or stands still")?;
        let line = heard.recv_timeout(left).context("the clients have nothing more to say")?;
        note(told, line);
    }
    Ok(())
}

fn note(told: &mut [Session], (session, what, n): Line) {
    match what {
        Told::Prepared => told[session].prepared = n,
        Told::Committed => told[session].committed = n,
    }
}

/// Changes of definitions, in folder of their own; what is left of the last round is dropped first.
///
/// The FOREIGN KEY that is added with checks off names no ALGORITHM: a statement that the server
/// completes after a kill stands in the binary log without `foreign_key_checks`, and a replica
/// copies the table then.
fn definitions(round: u32, n: u64) -> String {
    let t = format!("t{round}_{}", n % 3);
    format!(
        "CREATE OR REPLACE TABLE defs.{t} (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(100), KEY (a)) ENGINE=HOLDFAST;
         INSERT INTO defs.{t} (a) SELECT REPEAT('a', seq) FROM seq_1_to_50;
         ALTER TABLE defs.{t} ADD COLUMN b INT DEFAULT 7, ADD KEY (b);
         ALTER TABLE defs.{t} ADD COLUMN c INT DEFAULT 8 FIRST, MODIFY b INT AFTER id, ALGORITHM=INSTANT;
         INSERT INTO defs.{t} (a) VALUES ('y');
         ALTER TABLE defs.{t} DROP COLUMN c, ADD COLUMN c TEXT AFTER id, ALGORITHM=INSTANT;
         TRUNCATE defs.{t};
         INSERT INTO defs.{t} (a) VALUES ('x');
         CREATE TABLE defs.c{n} (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES {t} (id) ON DELETE CASCADE) ENGINE=HOLDFAST;
         ALTER TABLE defs.{t} COMMENT = 'a copy that another table refers to', ALGORITHM=COPY;
         ALTER TABLE defs.c{n} COMMENT = 'a copy that refers to another table', ALGORITHM=COPY;
         ALTER TABLE defs.{t} COMMENT = 'a copy with another name', RENAME TO defs.q{n}, ALGORITHM=COPY;
         RENAME TABLE defs.q{n} TO defs.r{n};
         ALTER TABLE defs.r{n} CHANGE id number INT AUTO_INCREMENT, ALGORITHM=INSTANT;
         INSERT INTO defs.c{n} SELECT number, number FROM defs.r{n};
         DELETE FROM defs.r{n};
         ALTER TABLE defs.c{n} DROP FOREIGN KEY c{n}_ibfk_1;
         SET foreign_key_checks = 0;
         ALTER TABLE defs.c{n} ADD FOREIGN KEY (t) REFERENCES r{n} (number);
         SET foreign_key_checks = 1;
         DROP TABLE defs.c{n}, defs.r{n};\n"
    )
}

/// Indexes that come and go in place; what is left of the last round goes first.
fn indexes(n: u64) -> String {
    format!(
        "ALTER TABLE indexed DROP KEY IF EXISTS k, DROP KEY IF EXISTS u, ALGORITHM=INPLACE;
         UPDATE indexed SET a = a + 1 WHERE id MOD 1000 = {n} MOD 1000;
         ALTER TABLE indexed ADD KEY k (a, name), ADD UNIQUE u (name), ALGORITHM=INPLACE;\n"
    )
}

/// Indexes of a table whose rows change all the time.
fn indexes_of_accounts(_: u64) -> String {
    "ALTER TABLE accounts DROP KEY IF EXISTS n, DROP KEY IF EXISTS bn;
     DO SLEEP(0.05);
     ALTER TABLE accounts ADD KEY n (note), ADD UNIQUE bn (balance, id), ALGORITHM=INPLACE, LOCK=NONE;
     DO SLEEP(0.05);\n"
        .into()
}

/// Columns of the same table that come, go and move; what is left of the last round goes first.
fn columns_of_accounts(n: u64) -> String {
    format!(
        "ALTER TABLE accounts DROP COLUMN IF EXISTS more, MODIFY note VARCHAR(200) FIRST;
         DO SLEEP(0.05);
         ALTER TABLE accounts ADD COLUMN more VARCHAR(20) DEFAULT 'more {n}' AFTER id, MODIFY balance INT NOT NULL FIRST;
         DO SLEEP(0.05);\n"
    )
}

/// A client program that is fed with statements for ever; what it prints goes to a channel.
struct Client {
    child: Child,
    feeder: JoinHandle<()>,
    reader: JoinHandle<()>,
}

impl Client {
    fn start(
        server: &Server<'_>,
        session: usize,
        script: impl Fn(u64) -> String + Send + 'static,
        lines: Sender<Line>,
    ) -> anyhow::Result<Client> {
        let mut child = server
            .client_command()
            .args(["--batch", "--skip-column-names", "--unbuffered", "crash"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("the client has a standard input")?;
        let stdout = child.stdout.take().context("the client has a standard output")?;
        let feeder = std::thread::spawn(move || {
            // It ends when the client does: with the server.
            let _ = (0..).try_for_each(|n| stdin.write_all(script(n).as_bytes()));
        });
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some((what, n)) = parse(&line) {
                    // The channel has no receiver any more once the round is over.
                    let _ = lines.send((session, what, n));
                }
            }
        });
        Ok(Client { child, feeder, reader })
    }

    /// Waits for the end of a client whose server is gone. Returns the errors that have ended its
    /// load before; those of [`MAY_END`] are printed.
    fn end(self) -> Vec<String> {
        let output = self.child.wait_with_output();
        let (_, _) = (self.feeder.join(), self.reader.join());
        let errors = output.map(|o| String::from_utf8_lossy(&o.stderr).into_owned()).unwrap_or_default();
        let (allowed, others) = before_the_kill(&errors).partition::<Vec<_>, _>(|error| is_one_of(error, &MAY_END));
        allowed.iter().for_each(|error| println!("a client: {error}"));
        others
    }
}

/// The server is gone.
const LOST: [u16; 2] = [2006, 2013];
/// What sessions do to each other: a lock wait timeout, a deadlock.
const MAY_END: [u16; 2] = [1205, 1213];

/// The errors that a client has printed, but for those of the kill.
fn before_the_kill(errors: &str) -> impl Iterator<Item = String> {
    errors.lines().filter(|line| line.starts_with("ERROR") && !is_one_of(line, &LOST)).map(String::from)
}

fn is_one_of(error: &str, codes: &[u16]) -> bool {
    let code = error.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    code.is_some_and(|code: u16| codes.contains(&code))
}

fn parse(line: &str) -> Option<(Told, u64)> {
    let (what, n) = line.split_once(' ')?;
    let what = match what {
        "prepared" => Told::Prepared,
        "committed" => Told::Committed,
        _ => return None,
    };
    Some((what, n.parse().ok()?))
}

/// Everything that has to hold after a restart.
fn audit(server: &Server<'_>, told: &mut [Session], beside: Option<&Beside<'_>>) -> anyhow::Result<()> {
    if let Some(xa) = told.get_mut(WORKERS) {
        end_prepared(server, xa)?;
    }
    let ledger = pairs(&execute(server, "SELECT session, n FROM crash.ledger ORDER BY session, n")?)?;
    for (session, at) in told.iter_mut().enumerate() {
        let there: Vec<u64> = ledger.iter().filter(|(s, _)| *s == session as u64).map(|(_, n)| *n).collect();
        let last = there.len() as u64;
        ensure!(there.iter().copied().eq(1..=last), "session {session}: the ledger has gaps: {there:?}");
        let acknowledged = at.committed;
        ensure!(
            last == acknowledged || last == acknowledged + 1,
            "session {session}: {acknowledged} movements acknowledged, {last} in the ledger"
        );
        at.committed = last;
    }
    let wrong = execute(
        server,
        "SELECT a.id, a.balance FROM crash.accounts a WHERE a.balance <> 1000
           + COALESCE((SELECT SUM(amount) FROM crash.ledger WHERE target = a.id), 0)
           - COALESCE((SELECT SUM(amount) FROM crash.ledger WHERE source = a.id), 0)",
    )?;
    ensure!(wrong.is_empty(), "accounts that the ledger does not explain:\n{wrong}");
    check_slips(server, told)?;
    match beside {
        Some(beside) => beside.compare()?,
        None => compare_with_binary_log(server, &ledger, told[WORKERS])?,
    }
    check_tables(server)
}

/// Slips and their parts are those of the last movements, and references lead to tables.
fn check_slips(server: &Server<'_>, told: &[Session]) -> anyhow::Result<()> {
    let of_session = |(session, at): (usize, &Session)| {
        (at.committed.saturating_sub(SLIPS) + 1..=at.committed).map(move |n| (session as u64, n))
    };
    let kept: BTreeSet<(u64, u64)> = told.iter().enumerate().flat_map(of_session).collect();
    let slips = pairs(&execute(server, "SELECT session, n FROM crash.slips")?)?;
    ensure!(slips == kept, "slips: {slips:?}; those of the last movements: {kept:?}");
    for part in 0..PARTS {
        let parts = pairs(&execute(server, &format!("SELECT session, n FROM crash.parts WHERE part = {part}"))?)?;
        ensure!(parts == slips, "part {part} of slips {parts:?}; there are {slips:?}");
    }
    let lost = execute(
        server,
        "SELECT c.constraint_schema, c.constraint_name FROM information_schema.referential_constraints c
         LEFT JOIN information_schema.tables t
           ON t.table_schema = c.unique_constraint_schema AND t.table_name = c.referenced_table_name
         WHERE t.table_name IS NULL",
    )?;
    ensure!(lost.is_empty(), "references to tables that are not there:\n{lost}");
    Ok(())
}

/// The binary log has the movements that the ledger has.
fn compare_with_binary_log(server: &Server<'_>, ledger: &BTreeSet<(u64, u64)>, xa: Session) -> anyhow::Result<()> {
    let mut logged = binary_log(server)?;
    // The server writes an XA PREPARE to the binary log before it calls the engines. With InnoDB,
    // too, a crash between the two leaves a prepare in the log that no engine knows of.
    let under_way = (WORKERS as u64, xa.committed + 1);
    if xa.prepared < under_way.1 {
        logged.remove(&under_way);
    }
    ensure!(
        logged == *ledger,
        "only in the binary log: {:?}; only in the engine: {:?}",
        logged.difference(ledger).collect::<Vec<_>>(),
        ledger.difference(&logged).collect::<Vec<_>>()
    );
    Ok(())
}

/// Commits what the XA session had prepared. If that was acknowledged, it has to be there.
fn end_prepared(server: &Server<'_>, at: &mut Session) -> anyhow::Result<()> {
    let listed = execute(server, "XA RECOVER")?;
    let prepared: Vec<&str> = listed.lines().filter_map(|l| l.split('\t').nth(3)).collect();
    ensure!(prepared.len() <= 1, "more than one prepared transaction:\n{listed}");
    for xid in &prepared {
        execute(server, &format!("XA COMMIT '{xid}'"))?;
        let n: u64 = xid.trim_start_matches('m').parse().context("a strange xid")?;
        ensure!(n == at.committed + 1, "prepared: movement {n}, committed before: {}", at.committed);
    }
    if at.prepared > at.committed && prepared.is_empty() {
        // Its commit was under way and done.
        let n = at.prepared;
        let there = execute(server, &format!("SELECT 1 FROM crash.ledger WHERE session = {WORKERS} AND n = {n}"))?;
        ensure!(!there.is_empty(), "the prepared transaction {n} is lost");
    }
    Ok(())
}

/// The movements that the binary logs have.
fn binary_log(server: &Server<'_>) -> anyhow::Result<BTreeSet<(u64, u64)>> {
    let mut files = server.data_files("bin.0")?;
    files.sort();
    let output = server.binlog_command().args(["-v", "--base64-output=decode-rows"]).args(files).output()?;
    ensure!(output.status.success(), "mariadb-binlog: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |line: Option<&str>, column: &str| -> anyhow::Result<u64> {
        let value = line.and_then(|l| l.trim().strip_prefix("###")?.trim().strip_prefix(column));
        value.and_then(|v| v.split_whitespace().next()?.parse().ok()).context("a row of the binary log is cut off")
    };
    let mut found = BTreeSet::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("### INSERT INTO `crash`.`ledger`") {
            lines.next();
            let session = value(lines.next(), "@1=")?;
            found.insert((session, value(lines.next(), "@2=")?));
        }
    }
    Ok(found)
}

fn check_tables(server: &Server<'_>) -> anyhow::Result<()> {
    let tables = execute(
        server,
        "SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables WHERE engine = 'HOLDFAST'",
    )?;
    for table in tables.lines() {
        let report = execute(server, &format!("CHECK TABLE {table} EXTENDED"))?;
        ensure!(report.trim_end().ends_with("status\tOK"), "{report}");
    }
    Ok(())
}

/// Two columns of numbers.
fn pairs(text: &str) -> anyhow::Result<BTreeSet<(u64, u64)>> {
    let pair = |line: &str| {
        let (a, b) = line.split_once('\t')?;
        Some((a.parse().ok()?, b.parse().ok()?))
    };
    text.lines().map(|l| pair(l).with_context(|| format!("not two numbers: {l}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_before_the_kill_is_told_from_those_of_the_kill_and_of_waits() {
        let lost = "ERROR 2013 (HY000) at line 7: Lost connection to server during query";
        let damaged = "ERROR 1034 (HY000) at line 3: Index for table 'accounts' is corrupt";
        let timeout = "ERROR 1205 (HY000) at line 9: Lock wait timeout exceeded";
        let found: Vec<_> = before_the_kill(&format!("{damaged}\n{timeout}\n{lost}\n")).collect();
        assert_eq!(found, [damaged, timeout]);
        assert!(is_one_of(timeout, &MAY_END) && !is_one_of(damaged, &MAY_END));
    }
}
