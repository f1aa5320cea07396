//! What the system says of processes: whether one runs, how one ended, what one took.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;

/// What the system says of a process behind its name: its state first.
fn stat_of(pid: &str) -> Option<String> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok()?;
    // The name stands in parentheses.
    stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_owned())
}

/// What a process has used of the processors so far.
///
/// # Errors
/// If there is no such process.
pub fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = stat_of(&pid.to_string()).context("the server is gone")?;
    let mut ticks = stat.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    let mut next = || ticks.next().flatten().context("/proc/PID/stat has no times");
    // A tick is a hundredth of a second, on every Linux that Debian has.
    Ok(Duration::from_millis(10 * (next()? + next()?)))
}

/// How `child` has ended; `None` if it runs for longer than `limit`.
pub(crate) fn ended_within(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || begun.elapsed() > limit {
            return Ok(status);
        }
        sleep(Duration::from_millis(20));
    }
}

/// True if a process with this id exists and has not ended.
pub(crate) fn runs(pid: &str) -> bool {
    stat_of(pid).is_some_and(|stat| !has_ended(&stat))
}

/// True if a process has ended that has not been waited for. Its first thread is a zombie already
/// while others still end, and until they have it has its files, and their locks.
fn has_ended(stat: &str) -> bool {
    let threads = stat.split_whitespace().nth(17);
    stat.starts_with('Z') && threads.is_none_or(|threads| threads.parse::<u32>().is_ok_and(|threads| threads <= 1))
}

/// How the process has ended, which is known of one that this process has started and not waited
/// for.
pub(crate) fn end_of(pid: &str) -> String {
    let Some(stat) = stat_of(pid) else { return format!("process {pid} is gone") };
    if !stat.starts_with('Z') {
        return format!("process {pid} runs");
    }
    // As wait(2) gives it.
    let status: i32 = stat.split_whitespace().last().and_then(|field| field.parse().ok()).unwrap_or(0);
    format!("process {pid} has ended: {}", ExitStatus::from_raw(status))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_has_ended_when_its_last_thread_has() {
        let stat = |state: char, threads: u32| format!("{state} 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 {threads} 0 99");
        assert!(has_ended(&stat('Z', 1)));
        assert!(!has_ended(&stat('Z', 9)), "others have its files");
        assert!(!has_ended(&stat('S', 1)));
    }

    #[test]
    fn it_is_known_how_a_process_has_ended_that_was_not_waited_for() {
        for (script, end) in [("kill -SEGV $$", "signal: 11"), ("exit 3", "exit status: 3")] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let pid = child.id().to_string();
            while runs(&pid) {
                sleep(Duration::from_millis(1));
            }
            let said = end_of(&pid);
            assert!(said.contains(&format!("process {pid} has ended")) && said.contains(end), "{said}");
            child.wait().unwrap();
            assert_eq!(end_of(&pid), format!("process {pid} is gone"));
        }
        let us = std::process::id().to_string();
        assert_eq!(end_of(&us), format!("process {us} runs"));
    }
}
