//! What else the machine did while an experiment ran: the processor time that others took, the time
//! that the host did not give, and how far its cores are from each other. The processor is the
//! cores that this process may use: on another core a program takes nothing from it.
//!
//! The lab's own work is that of its process and of all processes that descend from it: servers and
//! clients. Whatever else was busy is others'.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::ops::Range;

use serde::Serialize;

use crate::pin;

/// The state of the machine over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Conditions {
    /// The share of the processor that other programs took, 0 to 1.
    pub others: f64,
    /// The share that the host gave to other machines, 0 to 1.
    pub stolen: f64,
    /// Nanoseconds until a core sees what another one has written, if there are two.
    pub core_to_core_ns: Option<f64>,
}

/// The share of the processor from which on others disturb a run.
const DISTURBING: f64 = 0.1;
/// Nanoseconds between cores that are far from each other: not in one cluster. What takes longer
/// was no round between two cores at work.
const FAR: Range<f64> = 200.0..5000.0;

impl Conditions {
    /// True if nothing else explains a figure beyond its bar.
    pub fn quiet(&self) -> bool {
        self.others + self.stolen < DISTURBING
    }

    /// A machine that did nothing else.
    pub fn quiet_machine() -> Conditions {
        Conditions::default()
    }

    /// A machine whose processor others had half of the time.
    pub fn busy_machine() -> Conditions {
        Conditions { others: 0.5, ..Conditions::default() }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "others used {:.0} % of the processor", self.others * 100.0)?;
        if self.stolen >= 0.01 {
            write!(f, ", the host took {:.0} %", self.stolen * 100.0)?;
        }
        match self.core_to_core_ns {
            Some(ns) if FAR.contains(&ns) => write!(f, ", its cores are far from each other ({ns:.0} ns)"),
            _ => Ok(()),
        }
    }
}

/// The clock ticks of the machine and of this process with its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    all: u64,
    busy: u64,
    stolen: u64,
    ours: u64,
}

impl Ticks {
    fn now() -> Ticks {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        let ours = of_descendants(std::process::id(), stats.filter_map(|stat| process(&stat)));
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Ticks { ours, ..machine(&stat, pin::cpus_given()) }
    }

    fn between(from: Ticks, to: Ticks) -> Conditions {
        let all = to.all.saturating_sub(from.all).max(1) as f64;
        let others = to.busy.saturating_sub(from.busy).saturating_sub(to.ours.saturating_sub(from.ours));
        let stolen = to.stolen.saturating_sub(from.stolen);
        Conditions { others: others as f64 / all, stolen: stolen as f64 / all, core_to_core_ns: None }
    }
}

/// The ticks of the cores `cpus` in `/proc/stat`; of all if it does not have each of them, as in
/// containers that are shown cores of their own.
fn machine(stat: &str, cpus: &[usize]) -> Ticks {
    let line_of = |cpu: &usize| {
        let name = format!("cpu{cpu}");
        stat.lines().find(|line| line.split_whitespace().next() == Some(name.as_str()))
    };
    let lines: Option<Vec<&str>> = cpus.iter().map(line_of).collect();
    let lines = lines.filter(|lines| !lines.is_empty()).unwrap_or_else(|| stat.lines().take(1).collect());
    lines.into_iter().map(ticks).fold(Ticks::default(), |sum, of| Ticks {
        all: sum.all + of.all,
        busy: sum.busy + of.busy,
        stolen: sum.stolen + of.stolen,
        ours: 0,
    })
}

/// A line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(line: &str) -> Ticks {
    let fields: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, stolen] = fields[..] else { return Ticks::default() };
    let busy = user + nice + system + irq + softirq;
    Ticks { all: busy + idle + iowait + stolen, busy, stolen, ours: 0 }
}

/// A process of `/proc/PID/stat`: its number, its parent's, and its ticks with those of the
/// children that it has waited for.
fn process(stat: &str) -> Option<(u32, u32, u64)> {
    let pid = stat.split(' ').next()?.parse().ok()?;
    // The name in parentheses may contain any character.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|n| n.parse::<u64>().ok()).sum();
    Some((pid, fields.get(1)?.parse().ok()?, ticks))
}

fn of_descendants(root: u32, processes: impl Iterator<Item = (u32, u32, u64)>) -> u64 {
    let all: HashMap<u32, (u32, u64)> = processes.map(|(pid, parent, ticks)| (pid, (parent, ticks))).collect();
    let ours = |pid: &u32| {
        let mut at = *pid;
        while at != root && at > 1 {
            at = all.get(&at).map_or(0, |of| of.0);
        }
        at == root
    };
    all.iter().filter(|(pid, _)| ours(pid)).map(|(_, of)| of.1).sum()
}

/// Watches the machine.
#[derive(Clone, Copy, Debug)]
pub struct Watch(Ticks);

impl Watch {
    /// Begins to watch.
    pub fn start() -> Watch {
        Watch(Ticks::now())
    }

    /// The conditions since then.
    pub fn conditions(&self) -> Conditions {
        // The best of the rounds: in the others one of the cores may have done something else.
        let core_to_core_ns = crate::rig::control::core_to_core().map(|figure| figure.min);
        Conditions { core_to_core_ns, ..Ticks::between(self.0, Ticks::now()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_others_is_what_is_left_of_the_busy_time() {
        let from = Ticks { ours: 10, ..machine("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1\n", &[]) };
        let to = Ticks { ours: 110, ..machine("cpu  200 50 150 1000 10 0 10 90 0 0\n", &[]) };
        let conditions = Ticks::between(from, to);
        assert!((conditions.others - 110.0 / 510.0).abs() < 1e-9 && (conditions.stolen - 90.0 / 510.0).abs() < 1e-9);
        assert!(!conditions.quiet() && Conditions::quiet_machine().quiet());
        assert_eq!(machine("nothing", &[0]), Ticks::default());
    }

    /// Another program that had both cores of a run of two on a machine of 64 took 3 % of the
    /// processor: the machine was quiet, and a single figure beyond its bar failed.
    #[test]
    fn only_the_cores_that_the_run_may_use_count() {
        let stat = |busy: u64| {
            let rest = (2..64).map(|cpu| format!("cpu{cpu} 0 0 0 1000 0 0 0 0 0 0\n")).collect::<String>();
            let ours = [0, 1].map(|cpu| format!("cpu{cpu} {busy} 0 0 {} 0 0 0 0 0 0\n", 1000 - busy)).concat();
            format!("cpu  {} 0 0 {} 0 0 0 0 0 0\n{ours}{rest}intr 7\n", 2 * busy, 64_000 - 2 * busy)
        };
        let others = |cpus: &[usize]| Ticks::between(Ticks::default(), machine(&stat(800), cpus)).others;
        assert!((others(&[0, 1]) - 0.8).abs() < 1e-9, "{}", others(&[0, 1]));
        assert!(others(&[2, 63]).abs() < 1e-9);
        let none: &[usize] = &[];
        for all in [none, &[1, 64]] {
            assert!((others(all) - 0.025).abs() < 1e-9, "without each of the cores all of them count");
        }
    }

    #[test]
    fn a_server_that_the_lab_started_is_not_another_program() {
        let stat = |pid, parent, ticks| format!("{pid} (my) name) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 1 1 1 20 0");
        let list = [stat(7, 1, 100), stat(8, 7, 20), stat(9, 8, 3), stat(5, 1, 5000)];
        assert_eq!(of_descendants(7, list.iter().filter_map(|s| process(s))), 123 + 9);
    }

    #[test]
    fn this_process_is_found() {
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 60 {
            std::hint::spin_loop();
        }
        assert!(Ticks::now().ours > 0 && Ticks::now().all > 0);
    }

    #[test]
    fn cores_that_are_far_from_each_other_are_named() {
        let far = Conditions { core_to_core_ns: Some(400.0), ..Conditions::busy_machine() };
        assert_eq!(far.to_string(), "others used 50 % of the processor, its cores are far from each other (400 ns)");
    }
}
