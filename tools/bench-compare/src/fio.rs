//! `fio` as the yardstick of the disk: synchronous random reads past the page cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

pub struct Fio {
    file: PathBuf,
    bytes: u64,
}

impl Fio {
    /// Lays out a file of `bytes` in `dir`. `None` when there is no fio.
    pub fn new(dir: &Path, bytes: u64) -> anyhow::Result<Option<Fio>> {
        if Command::new("fio").arg("--version").output().is_err() {
            return Ok(None);
        }
        let fio = Fio { file: dir.join("fio.dat"), bytes };
        fio.start(&["--rw=write", "--bs=1M", "--numjobs=1"])?;
        Ok(Some(fio))
    }

    /// Random reads of 16 KiB per second with `readers` synchronous readers.
    pub fn reads_per_second(&self, readers: usize, millis: u64) -> anyhow::Result<f64> {
        let readers = format!("--numjobs={readers}");
        let runtime = format!("--runtime={millis}ms");
        self.start(&["--rw=randread", "--bs=16k", &readers, "--time_based", &runtime, "--norandommap"])
    }

    fn start(&self, args: &[&str]) -> anyhow::Result<f64> {
        let output = Command::new("fio")
            .args(["--name=read", "--ioengine=psync", "--direct=1", "--thread", "--group_reporting"])
            .args(["--output-format=json", &format!("--size={}", self.bytes)])
            .arg(format!("--filename={}", self.file.display()))
            .args(args)
            .output()
            .context("could not start fio")?;
        if !output.status.success() {
            bail!("fio failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).context("fio's report is not JSON")?;
        report["jobs"][0]["read"]["iops"].as_f64().context("fio's report has no iops")
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}
