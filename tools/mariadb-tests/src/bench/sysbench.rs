//! Running sysbench against the private server, pinned, one slice at a time.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use holdfast_server::Server;

use super::plan::Plan;
use crate::pairs::{Engine, processor_time, settle};

/// The schema with an engine's tables.
pub fn schema(engine: Engine) -> &'static str {
    match engine {
        Engine::Holdfast => "bench_holdfast",
        Engine::InnoDb => "bench_innodb",
    }
}

/// What was done in a slice.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Transactions a second.
    pub rate: f64,
    /// Processor time of the server for each, in microseconds.
    pub server_us: f64,
}

/// sysbench, its tables and the server.
pub struct Sysbench<'a> {
    server: &'a Server<'a>,
    plan: &'a Plan,
    server_pid: u32,
}

impl<'a> Sysbench<'a> {
    pub fn new(server: &'a Server<'a>, plan: &'a Plan, server_pid: u32) -> Sysbench<'a> {
        Sysbench { server, plan, server_pid }
    }

    /// Creates and fills the tables of an engine.
    pub fn prepare(&self, engine: Engine) -> anyhow::Result<()> {
        let threads = format!("--threads={}", self.plan.tables.0);
        let storage = format!("--mysql-storage-engine={}", engine.name());
        self.run(self.command(engine, "oltp_common").arg(storage).arg(threads).arg("prepare")).map(drop)
    }

    /// Runs `workload` for a while, from a server that is idle.
    pub fn slice(&self, engine: Engine, workload: &str, threads: usize, time: Duration) -> anyhow::Result<Slice> {
        settle(self.server_pid, self.plan.patience)?;
        let before = processor_time(self.server_pid)?;
        let mut command = self.command(engine, workload);
        command.arg(format!("--threads={threads}")).arg(format!("--time={}", time.as_secs()));
        // Of duplicate keys and deadlocks that are the workload's, not errors of the server.
        command.arg("--mysql-ignore-errors=1062,1213,1020,1205");
        let output = self.run(command.arg("run"))?;
        let (transactions, rate) = transactions(&output).with_context(|| format!("sysbench said:\n{output}"))?;
        let used = processor_time(self.server_pid)? - before;
        Ok(Slice { rate, server_us: used.as_secs_f64() * 1e6 / transactions.max(1) as f64 })
    }

    fn command(&self, engine: Engine, script: &str) -> Command {
        let mut command = self.server.sysbench_command();
        command.arg(script).arg("--db-driver=mysql").arg(format!("--mysql-db={}", schema(engine)));
        let (tables, rows) = self.plan.tables;
        command.arg(format!("--tables={tables}")).arg(format!("--table-size={rows}"));
        command.args(self.plan.rows_are.map(|kind| format!("--rand-type={kind}")));
        command
    }

    fn run(&self, command: &mut Command) -> anyhow::Result<String> {
        let child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("sysbench could not be started")?;
        pin(child.id(), &self.plan.client_cores)?;
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("sysbench failed:\n{text}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(text)
    }
}

/// Binds all threads of a process, and those to come, to processors, which are listed as `taskset`
/// takes them.
pub fn pin(pid: u32, processors: &str) -> anyhow::Result<()> {
    let output = Command::new("taskset").args(["-a", "-c", "-p", processors, &pid.to_string()]).output();
    let output = output.context("taskset is missing")?;
    if !output.status.success() {
        bail!("process {pid} could not be pinned: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Number and rate in sysbench's `transactions:   12345  (4115.00 per sec.)`.
fn transactions(output: &str) -> Option<(u64, f64)> {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("transactions:"))?;
    let (number, rate) = line.split_once('(')?;
    Some((number.trim().parse().ok()?, rate.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rate_is_found_in_what_sysbench_prints() {
        let output =
            "SQL statistics:\n    transactions:                        12345  (4115.25 per sec.)\n    queries: 5\n";
        assert_eq!(super::transactions(output), Some((12345, 4115.25)));
        assert_eq!(super::transactions("FATAL: nothing"), None);
    }
}
