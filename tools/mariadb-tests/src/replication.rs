//! Replication: a primary under load, on this engine and then on InnoDB, with a binary log of rows,
//! of statements, and of both, and a replica on this engine whose workers apply its transactions in
//! parallel. At the end every table has the same checksum on both. The binary log does not contain
//! the actions of references: the replica's engine carries them out.
//!
//! The workers are optimistic: they apply transactions that change the same rows at the same time,
//! and the one that is first in the primary's log has to win. The engine tells the server which
//! transaction waits for which. Without that, a worker waits for a lock that only its successor
//! could release, until the lock wait times out.

use std::ops::RangeInclusive;

use anyhow::{Context, ensure};

use super::crash::bank::{BANK, execute, movement, tables};
use holdfast_server::Cache;
use holdfast_server::Server;

const PRIMARY_PORT: u16 = 13336;
const REPLICA_PORT: u16 = 13337;
const SESSIONS: usize = 4;
/// Transactions of each session.
const MOVEMENTS: u64 = 800;
/// That many at a time are handed to a client.
const PIECE: u64 = 100;
/// Seconds that the replica may take for them: less than a lock wait.
const CATCH_UP: u32 = 45;

/// Formats of the binary log.
const FORMATS: [&str; 3] = ["ROW", "STATEMENT", "MIXED"];

const BOTH: [&str; 3] = ["--log-bin=bin", "--holdfast-buffer-pool-size=8M", "--holdfast-lock-wait-timeout=60"];
const PRIMARY: [&str; 1] = ["--server-id=1"];
const REPLICA: [&str; 4] =
    ["--server-id=2", "--log-slave-updates", "--slave-parallel-threads=4", "--slave-parallel-mode=optimistic"];

/// Runs it; stops the servers again.
pub fn run(cache: &Cache) -> anyhow::Result<()> {
    for engine in ["HOLDFAST", "InnoDB"] {
        for format in FORMATS {
            run_from(cache, engine, format)?;
        }
    }
    Ok(())
}

/// Runs it with a primary on `engine`, whose binary log has the given format.
fn run_from(cache: &Cache, engine: &str, format: &str) -> anyhow::Result<()> {
    let [primary, replica] = ["primary", "replica"].map(|name| Server::new(cache, name).bound_to_us());
    let format_option = format!("--binlog-format={format}");
    let options = |own: &[&str]| {
        BOTH.iter().chain(own).chain([&format_option.as_str()]).map(|o| (*o).to_string()).collect::<Vec<_>>()
    };
    primary.up(PRIMARY_PORT, true, &options(&PRIMARY))?;
    replica.up(REPLICA_PORT, true, &options(&REPLICA))?;
    let result = replicate(&primary, engine, &replica).with_context(|| format!("from {engine}, format {format}"));
    if result.is_err() {
        println!("log of the replica:\n{}", replica.log_tail());
    }
    replica.down()?;
    primary.down()?;
    result
}

fn replicate(primary: &Server<'_>, engine: &str, replica: &Server<'_>) -> anyhow::Result<()> {
    execute(primary, REPLICATION_USER)?;
    let connect = format!(
        "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {PRIMARY_PORT}, master_user = 'repl',
           master_password = 'repl', master_use_gtid = slave_pos"
    );
    execute(replica, &connect)?;
    for (server, engine) in [(primary, engine), (replica, "HOLDFAST")] {
        execute(server, &format!("SET sql_log_bin = 0; {}", tables(engine)))?;
    }
    // The first half waits for the replica, so that its workers have enough transactions to
    // conflict.
    load(primary, 1..=MOVEMENTS / 2)?;
    execute(replica, "START SLAVE")?;
    load(primary, MOVEMENTS / 2 + 1..=MOVEMENTS)?;
    catch_up(primary, replica, CATCH_UP)?;
    let theirs = same_on_both(primary, replica, &format!("CHECKSUM TABLE {BANK}; CHECK TABLE {BANK}"))?;
    // Both may be damaged in the same way.
    let sound = theirs.lines().filter(|line| line.ends_with("status\tOK")).count();
    ensure!(sound == BANK.split(", ").count(), "not all tables are sound:\n{theirs}");
    let retried = execute(replica, "SHOW GLOBAL STATUS LIKE 'Slave_retried_transactions'")?;
    let transactions = SESSIONS as u64 * MOVEMENTS;
    let format = execute(primary, "SELECT @@binlog_format")?;
    let (format, retried) = (format.trim(), retried.trim().replace('\t', " "));
    println!("{transactions} transactions replicated from {engine}, format {format}; {retried}");
    println!("{}", theirs.trim());
    Ok(())
}

/// Makes the account that a replica reads the binary log with.
pub(super) const REPLICATION_USER: &str =
    "CREATE USER repl@'%' IDENTIFIED BY 'repl'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'";

/// Waits until the replica has all that the primary has logged by now, for at most so many seconds.
pub(super) fn catch_up(primary: &Server<'_>, replica: &Server<'_>, seconds: u32) -> anyhow::Result<()> {
    let position = execute(primary, "SELECT @@gtid_binlog_pos")?;
    let waited = execute(replica, &format!("SELECT MASTER_GTID_WAIT('{}', {seconds})", position.trim()))?;
    let status = || execute(replica, "SHOW SLAVE STATUS\\G").unwrap_or_default();
    ensure!(waited.trim() == "0", "the replica is not there after {seconds} s:\n{}", status());
    Ok(())
}

/// What both servers answer; an error if that differs.
pub(super) fn same_on_both(primary: &Server<'_>, replica: &Server<'_>, sql: &str) -> anyhow::Result<String> {
    let (ours, theirs) = (execute(primary, sql)?, execute(replica, sql)?);
    ensure!(ours == theirs, "primary:\n{ours}\nreplica:\n{theirs}");
    Ok(theirs)
}

/// All sessions at once.
fn load(primary: &Server<'_>, movements: RangeInclusive<u64>) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let start = |session| {
            let movements = movements.clone();
            scope.spawn(move || load_session(primary, session, movements))
        };
        let sessions: Vec<_> = (0..SESSIONS).map(start).collect();
        sessions.into_iter().try_for_each(|s| s.join().ok().context("a session panicked")?)
    })
}

fn load_session(primary: &Server<'_>, session: usize, movements: RangeInclusive<u64>) -> anyhow::Result<()> {
    for first in movements.step_by(PIECE as usize) {
        let statements: String = (first..first + PIECE).map(|n| movement(session, n)).collect();
        execute(primary, &format!("USE crash;\n{statements}"))?;
    }
    Ok(())
}
