//! Runs a program as if a folder lay on a modelled spinning disk: the program's reads, writes and
//! syncs of files in that folder are made to wait as long as the arm of [`holdfast_io::spindle`]
//! would have needed.
//!
//! # How
//! The program runs under a seccomp filter that hands its `pread`, `pwrite`, `fsync` and their
//! relatives to a supervisor, a thread of the process that started it; everything else runs as
//! ever. The supervisor looks up which file a call is about, holds the call back until the modelled
//! arm is done with it, and lets the kernel carry it out. It needs no special rights, and it works
//! for every program, whatever library or language makes the calls. Asynchronous interfaces
//! (`io_uring`, `libaio`) are answered with "not there", so that the program takes its other path.
//! If the supervisor is killed, the program is, too: nobody would answer it.
//!
//! | module | what |
//! |---|---|
//! | `seccomp` | the filter, its notifications, and what binds the program to us: all that is unsafe |
//! | `supervisor` | which call waits how long |

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod seccomp;
mod supervisor;

use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};
use holdfast_io::DiskModel;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use supervisor::Traffic;

/// What lies on the modelled disk, and what it is like.
#[derive(Clone, Copy, Debug)]
pub struct Disk<'a> {
    /// The folder whose files are on it.
    pub folder: &'a Path,
    /// How fast it is.
    pub model: DiskModel,
    /// It is as fast as the disk below it while this file does not exist.
    pub switch: Option<&'a Path>,
    /// Cores on which the disk is modelled; empty for those of the program. A disk does not use up
    /// its computer's cores.
    pub cpus: &'a [usize],
}

/// Runs `command` until it ends, with a folder on the modelled disk. Returns how it ended and what
/// it did to the disk.
///
/// # Errors
/// If this system does not let programs be supervised, the program cannot be started, or the cores
/// of the disk cannot be had.
pub fn run(command: &mut Command, disk: &Disk<'_>) -> Result<(ExitStatus, Traffic)> {
    let name = disk.folder.display();
    let folder = &disk.folder.canonicalize().with_context(|| format!("there is no folder {name}"))?;
    // A filter is for the thread that installs it and for what that starts: this one is not to be
    // supervised itself.
    let given = sched_getaffinity(None).context("the cores of this process are not known")?;
    place(disk.cpus)?;
    let mut starter = |listener: std::sync::mpsc::Sender<seccomp::Listener>| -> Result<ExitStatus> {
        // A thread begins on the cores of the one that starts it.
        sched_setaffinity(None, &given)?;
        let _ = listener.send(seccomp::install().context("this system does not let a program be supervised")?);
        seccomp::bind(command);
        let mut child = command.spawn().context("the program could not be started")?;
        Ok(child.wait()?)
    };
    let result = std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let child = scope.spawn(move || starter(sender));
        let traffic = match receiver.recv() {
            Ok(listener) => supervisor::serve(&listener, &Disk { folder, ..*disk })?,
            // The starter says why there is none.
            Err(_) => Traffic::default(),
        };
        let status = child.join().map_err(|_| anyhow::anyhow!("the thread of the program panicked"))??;
        Ok((status, traffic))
    });
    sched_setaffinity(None, &given)?;
    result
}

/// Puts the calling thread on `cpus`, if any are named.
fn place(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        anyhow::ensure!(cpu < CpuSet::MAX_CPU, "there is no core {cpu}");
        set.set(cpu);
    }
    if cpus.is_empty() {
        return Ok(());
    }
    sched_setaffinity(None, &set).with_context(|| format!("a disk cannot be modelled on the cores {cpus:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_that_are_not_there_are_an_error_before_anything_is_started() {
        let model = DiskModel { seek: std::time::Duration::ZERO, bytes_per_second: 1 };
        let disk = |cpus| Disk { folder: Path::new("."), model, switch: None, cpus };
        let error = |cpus| run(&mut Command::new("/nowhere/program"), &disk(cpus)).unwrap_err().to_string();
        assert_eq!(error(&[CpuSet::MAX_CPU]), format!("there is no core {}", CpuSet::MAX_CPU));
        assert_eq!(
            error(&[CpuSet::MAX_CPU - 1]),
            format!("a disk cannot be modelled on the cores [{}]", CpuSet::MAX_CPU - 1)
        );
    }
}
