//! The load beside the bank under `--sysbench`: `oltp_read_write` on tables of its own, and a
//! replica that is not killed.
//!
//! sysbench does not report which of its transactions were acknowledged; the bank's sessions do.
//! But the replica has the content of the binary log, so equal tables on both show that binary log
//! and engine agree about all of them.

use std::process::{Child, Stdio};

use anyhow::{Context, ensure};

use super::bank::{BANK, PORT, execute};
use crate::replication::{REPLICATION_USER, catch_up, same_on_both};
use holdfast_server::run::{cargo, check};
use holdfast_server::{Cache, Server, apt};

const REPLICA_PORT: u16 = 13327;
const TABLES: u32 = 2;
const ROWS: u32 = 5000;
const THREADS: u32 = 4;
/// Seconds that the replica may take for what was written in a round.
const CATCH_UP: u32 = 120;

const REPLICA: [&str; 4] =
    ["--server-id=2", "--slave-parallel-threads=4", "--holdfast-buffer-pool-size=8M", "--slave-net-timeout=10"];

/// sysbench's tables on the primary, and the replica.
pub struct Beside<'c> {
    primary: &'c Server<'c>,
    replica: Server<'c>,
}

impl<'c> Beside<'c> {
    /// Fetches and builds what that needs.
    pub fn new(cache: &'c Cache, primary: &'c Server<'c>) -> anyhow::Result<Beside<'c>> {
        apt::fetch_sysbench(cache)?;
        check(&mut cargo("build -q --release -p holdfast-cli"))?;
        Ok(Beside { primary, replica: Server::new(cache, "crash-replica").bound_to_us() })
    }

    /// Fills the tables on the primary, which is running, and starts the replica.
    pub fn start(&self) -> anyhow::Result<()> {
        self.replica.up(REPLICA_PORT, true, &REPLICA.map(String::from))?;
        execute(self.primary, &format!("{REPLICATION_USER}; CREATE DATABASE sbtest"))?;
        let mut prepare = self.sysbench();
        let made = prepare.arg("--mysql-storage-engine=HOLDFAST").arg("prepare").stdout(Stdio::null()).status()?;
        ensure!(made.success(), "sysbench could not fill its tables");
        let connect = format!(
            "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {PORT}, master_user = 'repl', master_password = 'repl',
               master_connect_retry = 1, master_use_gtid = slave_pos; START SLAVE"
        );
        execute(&self.replica, &connect).map(drop)
    }

    fn sysbench(&self) -> std::process::Command {
        let mut command = self.primary.sysbench_command();
        command.args(["oltp_read_write", "--db-driver=mysql", "--mysql-db=sbtest", "--rand-type=uniform"]);
        command.arg(format!("--tables={TABLES}")).arg(format!("--table-size={ROWS}"));
        command
    }

    /// Puts sysbench's load on the primary; it ends when the server is killed.
    pub fn load(&self) -> anyhow::Result<Child> {
        let mut command = self.sysbench();
        // Deadlocks and duplicate keys are the workload's, not errors of the server.
        command.args(["--time=0", "--mysql-ignore-errors=1062,1213,1020,1205"]).arg(format!("--threads={THREADS}"));
        command.arg("run").stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context("sysbench could not be started")
    }

    /// `holdfast check` of what the kill left: it recovers in memory and changes nothing.
    pub fn check_files(&self) -> anyhow::Result<()> {
        let mut command = cargo("run -q --release -p holdfast-cli -- check");
        let output = command.arg(self.primary.data_dir().join("#holdfast")).output()?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "holdfast check: {out}{err}");
        Ok(())
    }

    /// The replica catches up, and has the same.
    pub fn compare(&self) -> anyhow::Result<()> {
        catch_up(self.primary, &self.replica, CATCH_UP)?;
        let mut sums = format!("CHECKSUM TABLE {BANK}");
        for n in 1..=TABLES {
            sums += &format!(", sbtest.sbtest{n}");
        }
        same_on_both(self.primary, &self.replica, &sums).map(drop)
    }

    /// Stops the replica.
    pub fn end(&self) -> anyhow::Result<()> {
        self.replica.down()
    }

    /// The last lines of the replica's log.
    pub fn log_tail(&self) -> String {
        self.replica.log_tail()
    }
}
