//! Runs a program as if a folder were on a modelled spinning disk: the program's reads, writes and
//! syncs of files in that folder wait as long as the arm of [`holdfast_testkit::spindle`] would
//! have needed.
//!
//! # How
//! The program runs under a seccomp filter that hands its `pread`, `pwrite`, `fsync` and their
//! relatives to a supervisor, a thread of the process that started it. All other calls are
//! unchanged. The supervisor looks up the file of a call, holds the call back until the modelled
//! arm is done with it, and lets the kernel carry it out. It needs no special rights, and it works
//! for every program, whatever library or language makes the calls. `read` and `write` are not held
//! back, since programs make them of sockets and pipes all the time, and few databases of their
//! data; nor are memory-mapped files. The asynchronous interfaces
//! (`io_uring`, `libaio`) fail as on a kernel without them, so that the program uses the other
//! calls. If the supervisor is killed, the program is killed too: its calls would get no answer.
//!
//! | module | content |
//! |---|---|
//! | `disk` | what is modelled |
//! | `seccomp` | the filter, its notifications, the end of the program with this process |
//! | `supervisor` | how long each call waits |

#![deny(unsafe_code)]

mod disk;
#[allow(unsafe_code)]
mod seccomp;
mod supervisor;

use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use disk::Disk;
pub use supervisor::Traffic;

/// Runs `command` until it ends, with a folder on the modelled disk. Returns its exit status and
/// its traffic.
///
/// # Errors
/// If this system does not let programs be supervised, the program cannot be started, or the cores
/// of the disk are not available.
pub fn run(command: &mut Command, disk: &Disk<'_>) -> Result<(ExitStatus, Traffic)> {
    let name = disk.folder.display();
    let folder = &disk.folder.canonicalize().with_context(|| format!("there is no folder {name}"))?;
    // A filter is for the thread that installs it and for the processes that it starts. This thread
    // must not be supervised.
    let given = sched_getaffinity(None).context("the cores of this process are not known")?;
    place(disk.cpus)?;
    let mut starter = |listener: std::sync::mpsc::Sender<seccomp::Listener>| -> Result<ExitStatus> {
        // A thread begins on the cores of the thread that starts it.
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
            // The starting thread reports why there is none.
            Err(_) => Traffic::default(),
        };
        let status = child.join().map_err(|_| anyhow::anyhow!("the thread of the program panicked"))??;
        Ok((status, traffic))
    });
    sched_setaffinity(None, &given)?;
    result
}

/// Binds the calling thread to `cpus`, if any are named.
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
    use std::path::Path;

    use holdfast_testkit::DiskModel;

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
