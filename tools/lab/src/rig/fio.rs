//! `fio`, a known measure of disks: as many synchronous readers and writers of pages at random
//! places as there are sessions.
//!
//! It is the machine's own, or that of the cache folder, into which apt unpacks the package of this
//! name if the machine has none.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_server::{Cache, apt};
use serde_json::Value;

use crate::subject::turn::Turn;

/// An installed fio.
#[derive(Clone, Debug)]
pub struct Fio {
    cache: Cache,
    version: String,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The file, all of which is on disk; writes go to it too.
    pub file: &'a Path,
    /// Bytes of a request.
    pub page_bytes: usize,
    /// Share of the requests that write, 0 to 1; whole percents count.
    pub write_share: f64,
    /// Requests under way at any time, each of a thread of its own.
    pub depth: usize,
    /// The duration.
    pub duration: Duration,
}

impl Fio {
    /// Returns the machine's fio, or that of the cache folder.
    pub fn installed() -> Result<Fio> {
        let cache = Cache::of_the_project();
        let output = cache.fio_command().arg("--version").output().context("there is no fio")?;
        ensure!(output.status.success(), "fio does not run: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Fio { cache, version: String::from_utf8_lossy(&output.stdout).trim().to_owned() })
    }

    /// As [`Fio::installed`]; fetches fio by apt if there is none.
    pub fn fetched() -> Result<Fio> {
        apt::fetch_fio(&Cache::of_the_project())?;
        Fio::installed()
    }

    /// Its name and version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Runs a job past the system's cache. A transaction is a request.
    pub fn run(&self, job: &Job<'_>) -> Result<Turn> {
        let mut command = self.cache.fio_command();
        command.arg(format!("--filename={}", job.file.display())).args(job.arguments());
        let output = command.output().context("start fio")?;
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "fio failed: {}", errors.trim());
        let turn = turn(&said).with_context(|| format!("fio said: {}", said.trim()))?;
        Ok(turn.of_pages(job.write_share))
    }
}

impl Job<'_> {
    /// The arguments, except the file.
    pub fn arguments(&self) -> Vec<String> {
        let percent = (self.write_share * 100.0).round();
        let kind = if percent > 0.0 { format!("randrw --rwmixwrite={percent:.0}") } else { "randread".to_owned() };
        let (bytes, depth, runtime) = (self.page_bytes, self.depth, self.duration.as_millis());
        let line = format!(
            "--name=pages --rw={kind} --bs={bytes} --direct=1 --ioengine=psync --numjobs={depth} --thread --norandommap \
             --time_based --runtime={runtime}ms --group_reporting --output-format=json"
        );
        line.split_whitespace().map(str::to_owned).collect()
    }
}

/// The requests and their processor time, from fio's report.
fn turn(report: &str) -> Result<Turn> {
    // Notes may come before the JSON.
    let json = report.find('{').map_or("", |at| &report[at..]);
    let report: Value = serde_json::from_str(json).context("the report is not JSON")?;
    let job = &report["jobs"][0];
    let number = |value: &Value, name: &str| value.as_f64().with_context(|| format!("the report has no {name}"));
    let of_both =
        |name: &str| -> Result<f64> { Ok(number(&job["read"][name], name)? + number(&job["write"][name], name)?) };
    // A share of the time of all its threads together.
    let busy = (number(&job["usr_cpu"], "usr_cpu")? + number(&job["sys_cpu"], "sys_cpu")?) / 100.0;
    let cpu_seconds = busy * number(&job["job_runtime"], "job_runtime")? / 1e3;
    let (transactions, per_second) = (of_both("total_ios")?, of_both("iops")?);
    let seconds = transactions / per_second.max(1e-9);
    Ok(Turn { seconds, transactions, cpu_seconds: Some(cpu_seconds), ..Turn::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of fio 3.33, shortened.
    const REPORT: &str = r#"fio: a note
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "pages",
      "job options" : { "name" : "pages", "rw" : "randrw", "rwmixwrite" : "30", "bs" : "16384", "numjobs" : "4" },
      "read" : { "io_bytes" : 154157056, "iops" : 31259.136213, "runtime" : 301, "total_ios" : 9409 },
      "write" : { "io_bytes" : 68993024, "iops" : 13990.033223, "runtime" : 301, "total_ios" : 4211 },
      "trim" : { "io_bytes" : 0, "iops" : 0.000000, "total_ios" : 0 },
      "job_runtime" : 1200,
      "usr_cpu" : 2.250000,
      "sys_cpu" : 6.833333
    }
  ]
}
"#;

    #[test]
    fn the_report_has_requests_and_processor_time() {
        let turn = turn(REPORT).unwrap();
        assert!((turn.tps() - 45_249.169).abs() < 0.01, "{turn:?}");
        // 9.0833 % of 1.2 s for 13,620 requests.
        assert!((turn.cpu_us().unwrap() - 8.003).abs() < 0.01, "{turn:?}");
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        assert!(turn("fio: failed to open").is_err());
        let error = turn(r#"{"jobs": [{"usr_cpu": 1, "sys_cpu": 1}]}"#).unwrap_err().to_string();
        assert!(error.contains("job_runtime"), "{error}");
    }

    #[test]
    fn a_job_says_what_is_read_and_written() {
        let file = Path::new("f");
        let job = Job { file, page_bytes: 16384, write_share: 0.294, depth: 32, duration: Duration::from_millis(1500) };
        let line = job.arguments().join(" ");
        for part in ["--rw=randrw --rwmixwrite=29", "--bs=16384", "--numjobs=32", "--runtime=1500ms", "--direct=1"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        let line = Job { write_share: 0.0, ..job }.arguments().join(" ");
        assert!(line.contains("--rw=randread") && !line.contains("rwmixwrite"), "{line}");
    }
}
