//! Operations a second on a machine that is not at hand.
//!
//! A closed queueing network. Each core does one operation after the other: work of its own, and
//! between pieces of it the visits to lines that all cores share. A line is a station that serves
//! one core at a time, first come first served. What a visit takes depends on where the line is:
//!
//! - A write by the core that has the line alone takes [`Machine::own_ns`].
//! - Any other write takes as long as the line travels from the core that wrote it last, and no
//!   other core gets the line meanwhile.
//! - A read of what has changed since the core's last visit takes as long as the line travels. It
//!   waits for a write under way. Reads do not wait for each other.
//!
//! Lines that move but that all cores do not share (rows, pages, new places of a ring) add their
//! travel to the core's own work.
//!
//! Left out: preemption, the bandwidth of the network of cores, hyper-threads, clock frequencies
//! that fall with the cores in use. So the model gives bounds that a machine may miss, and the
//! first line that ends the growth.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::{Context, bail, ensure};

use crate::lines::{Profile, Shared};

/// How far cores are from each other. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Cores that share a last-level cache.
    pub cluster: usize,
    /// Cores of a socket.
    pub socket: usize,
    /// A line that the core has.
    pub own_ns: f64,
    /// A line that another core of the cluster, of the socket, of another socket has.
    pub cluster_ns: f64,
    pub socket_ns: f64,
    pub far_ns: f64,
}

impl Machine {
    fn travel(&self, from: usize, to: usize) -> f64 {
        match (from / self.cluster == to / self.cluster, from / self.socket == to / self.socket) {
            _ if from == to => self.own_ns,
            (true, _) => self.cluster_ns,
            (_, true) => self.socket_ns,
            _ => self.far_ns,
        }
    }

    /// How long a line travels on average from the first of `cores` to another one.
    fn mean_travel(&self, cores: usize) -> f64 {
        let others = (1..cores).map(|to| self.travel(0, to)).sum::<f64>();
        if cores > 1 { others / (cores - 1) as f64 } else { self.own_ns }
    }
}

/// One visit of an operation to a line that all cores share.
#[derive(Clone, Copy, Debug)]
struct Visit {
    line: usize,
    writes: bool,
}

/// What the cores do.
#[derive(Clone, Debug)]
pub struct Work {
    /// Work of a core's own, per operation.
    local_ns: f64,
    visits: Vec<Visit>,
    /// Moves, per operation, of lines that all cores do not share.
    other_moves: f64,
    /// What the shared lines are.
    pub names: Vec<String>,
}

/// A line that all threads use, and that moves in a quarter of all operations at least, is shared
/// by all. If there are many of its kind, each operation goes on to the next: no core queues.
fn all_queue(shared: &Shared, threads: u64) -> bool {
    shared.threads >= threads as f64 && shared.copies <= 2 && shared.moves >= 0.25 && shared.writes >= 0.25
}

impl Work {
    /// Derives what a core does in one operation from its trace. `alone_ns`: the time that one
    /// thread needs for the operation.
    #[must_use]
    pub fn new(profile: &Profile, alone_ns: f64, machine: &Machine) -> Work {
        let (common, others): (Vec<_>, Vec<_>) =
            profile.shared.iter().partition(|shared| all_queue(shared, profile.threads));
        let mut left: Vec<(usize, usize)> = common
            .iter()
            .map(|shared| {
                let writes = shared.writes.round().max(1.0) as usize;
                (writes, (shared.visits.round() as usize).saturating_sub(writes))
            })
            .collect();
        let mut visits = Vec::new();
        // An operation visits the lines in turns, and reads and writes each of them in turns.
        while left.iter().any(|&(writes, reads)| writes + reads > 0) {
            for (line, (writes, reads)) in left.iter_mut().enumerate() {
                for (left, writes) in [(reads, false), (writes, true)] {
                    if *left > 0 {
                        *left -= 1;
                        visits.push(Visit { line, writes });
                    }
                }
            }
        }
        let local_ns = (alone_ns - visits.len() as f64 * machine.own_ns).max(0.0);
        let other_moves = others.iter().map(|shared| shared.moves).sum();
        let names = common.iter().map(|shared| shared.sites.first().cloned().unwrap_or_default()).collect();
        Work { local_ns, visits, other_moves, names }
    }
}

/// What a simulated machine does.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Operations a second, of all cores.
    pub per_second: f64,
    /// The share of the time in which each shared line is on its way.
    pub busy: Vec<f64>,
}

struct Station {
    owner: usize,
    free_at: f64,
    /// Counts the writes.
    version: u64,
    /// True if another core has read since the last write.
    read: bool,
    busy: f64,
}

struct Core {
    /// The next visit.
    step: usize,
    /// Of each line, what the core saw last.
    seen: Vec<u64>,
    random: u64,
}

impl Core {
    /// Between 0.8 and 1.2: cores that work in step would not meet as cores do.
    fn jitter(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        0.8 + 0.4 * (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Station {
    /// Core `me` comes at `now` and leaves at the time returned.
    fn visit(&mut self, me: usize, now: f64, writes: bool, seen: &mut u64, machine: &Machine) -> f64 {
        let current = *seen == self.version;
        let start = now.max(self.free_at);
        let left = if writes {
            let alone = self.owner == me && current && !self.read;
            let left =
                start + if alone { machine.own_ns } else { machine.travel(self.owner, me).max(machine.cluster_ns) };
            (self.busy, self.free_at) = (self.busy + left - start, left);
            (self.owner, self.version, self.read) = (me, self.version + 1, false);
            left
        } else if current {
            now + machine.own_ns
        } else {
            self.read = true;
            start + machine.travel(self.owner, me)
        };
        *seen = self.version;
        left
    }
}

/// Runs `cores` cores until they have done `operations` each, on average.
#[must_use]
pub fn simulate(work: &Work, machine: &Machine, cores: usize, operations: usize) -> Outcome {
    let station = || Station { owner: 0, free_at: 0.0, version: 0, read: false, busy: 0.0 };
    let mut stations: Vec<Station> = work.names.iter().map(|_| station()).collect();
    let core = |n: usize| Core { step: 0, seen: vec![0; work.names.len()], random: n as u64 };
    let mut all: Vec<Core> = (0..cores).map(core).collect();
    let pieces = (work.visits.len() + 1) as f64;
    let piece = (work.local_ns + work.other_moves * machine.mean_travel(cores)) / pieces;
    // Whole picoseconds order the events.
    let key = |time: f64, core: usize| Reverse(((time * 1000.0) as u64, core));
    let mut events: BinaryHeap<_> =
        (0..cores).map(|n| key(piece * all[n].jitter() * n as f64 / cores as f64, n)).collect();
    let (mut done, mut end, all_operations) = (0, 0.0, operations * cores);
    while done < all_operations {
        let Some(Reverse((time, n))) = events.pop() else { break };
        let (time, me) = (time as f64 / 1000.0, &mut all[n]);
        end = time;
        let mut left = time;
        match work.visits.get(me.step) {
            Some(visit) => {
                left = stations[visit.line].visit(n, time, visit.writes, &mut me.seen[visit.line], machine);
                me.step += 1;
            }
            None => (me.step, done) = (0, done + 1),
        }
        events.push(key(left + piece * me.jitter(), n));
    }
    let busy = stations.iter().map(|station| station.busy / end).collect();
    Outcome { per_second: done as f64 / end * 1e9, busy }
}

/// What `model` is asked for.
#[derive(clap::Args)]
pub struct Options {
    /// What `lines --json` has written
    profiles: std::path::PathBuf,
    /// What one operation takes with one thread, in nanoseconds, as OPERATION=TIME; repeatable
    #[arg(long = "alone", value_parser = operation_and_time, required = true)]
    alone: Vec<(String, f64)>,
    /// Numbers of cores
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256")]
    cores: Vec<usize>,
    /// Cores that share a last-level cache
    #[arg(long, default_value_t = 8)]
    cluster: usize,
    /// Cores of a socket
    #[arg(long, default_value_t = 128)]
    socket: usize,
    /// How long a line travels within a cluster, within a socket, between sockets, in nanoseconds
    #[arg(long, value_delimiter = ',', default_value = "25,110,200")]
    travel: Vec<f64>,
}

fn operation_and_time(text: &str) -> Result<(String, f64), String> {
    let (operation, time) = text.split_once('=').ok_or("OPERATION=NANOSECONDS is expected")?;
    let time: f64 = time.parse().map_err(|error| format!("{time}: {error}"))?;
    if time > 0.0 && time.is_finite() {
        Ok((operation.to_owned(), time))
    } else {
        Err("a time above 0 is expected".into())
    }
}

/// Operations that each simulated core does.
const OPERATIONS: usize = 400;

/// Prints a table for each operation whose time alone is given.
///
/// # Errors
/// The profiles cannot be read, or have no such operation; a number is 0.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let text = std::fs::read(&options.profiles).with_context(|| options.profiles.display().to_string())?;
    let profiles: Vec<Profile> = serde_json::from_slice(&text)?;
    let Options { cluster, socket, .. } = *options;
    ensure!(cluster > 0 && socket > 0 && !options.cores.contains(&0), "a machine has at least one core");
    let &[cluster_ns, socket_ns, far_ns] = &options.travel[..] else { bail!("--travel takes three times") };
    let machine = Machine { cluster, socket, own_ns: 5.0, cluster_ns, socket_ns, far_ns };
    for (operation, alone_ns) in &options.alone {
        let profile = profiles.iter().find(|profile| profile.operation == *operation);
        let profile = profile.with_context(|| format!("the profiles have no operation {operation}"))?;
        println!("{}", table(&Work::new(profile, *alone_ns, &machine), &machine, options, operation));
    }
    Ok(())
}

fn table(work: &Work, machine: &Machine, options: &Options, operation: &str) -> String {
    let mut text = format!("{operation}\n  cores  operations/s  times of one core  busiest shared line\n");
    let one = simulate(work, machine, 1, OPERATIONS).per_second;
    for &cores in &options.cores {
        let outcome = simulate(work, machine, cores, OPERATIONS);
        let busiest = outcome.busy.iter().zip(&work.names).max_by(|a, b| a.0.total_cmp(b.0));
        let line = busiest.map_or_else(String::new, |(busy, name)| format!("{:>3.0} % {name}", busy * 100.0));
        let per_second = outcome.per_second;
        text += &format!("{cores:>7} {per_second:>13.0} {:>18.1}  {line}\n", per_second / one);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine =
        Machine { cluster: 8, socket: 64, own_ns: 1.0, cluster_ns: 20.0, socket_ns: 100.0, far_ns: 200.0 };

    fn work(local_ns: f64, writes: &[usize]) -> Work {
        let visits = writes.iter().map(|&line| Visit { line, writes: true }).collect();
        let lines = writes.iter().max().map_or(0, |line| line + 1);
        Work { local_ns, visits, other_moves: 0.0, names: vec![String::new(); lines] }
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.05, "{found} instead of {expected}");
    }

    #[test]
    fn work_that_shares_nothing_grows_with_the_cores() {
        let work = work(1000.0, &[]);
        close(simulate(&work, &MACHINE, 1, 1000).per_second, 1e6);
        close(simulate(&work, &MACHINE, 128, 1000).per_second, 128e6);
    }

    #[test]
    fn a_line_that_all_write_serves_one_core_at_a_time() {
        // Within a cluster it travels for 20 ns: at most 50 million a second, whatever the cores.
        let outcome = simulate(&work(10.0, &[0]), &MACHINE, 8, 10_000);
        close(outcome.per_second, 50e6);
        close(outcome.busy[0], 1.0);
        // Two visits of each operation: half as many.
        close(simulate(&work(10.0, &[0, 0]), &MACHINE, 8, 10_000).per_second, 25e6);
    }

    #[test]
    fn a_line_is_slower_between_sockets() {
        let work = work(10.0, &[0]);
        let [one, two] = [64, 128].map(|cores| simulate(&work, &MACHINE, cores, 2000).per_second);
        assert!(two < one, "{two} {one}");
    }

    #[test]
    fn a_core_alone_keeps_its_lines() {
        close(simulate(&work(100.0, &[0, 1]), &MACHINE, 1, 10_000).per_second, 1e9 / 102.0);
    }

    #[test]
    fn reads_of_a_line_that_is_not_written_do_not_queue() {
        let visits = vec![Visit { line: 0, writes: false }];
        let work = Work { local_ns: 100.0, visits, other_moves: 0.0, names: vec![String::new()] };
        close(simulate(&work, &MACHINE, 64, 1000).per_second, 64e9 / 101.0);
    }

    #[test]
    fn a_closed_network_does_what_the_analysis_of_mean_values_says() {
        // One station of 20 ns and 180 ns of own work, 8 cores: with deterministic services near
        // the bound of the station, min(8 / 200, 1 / 20) per ns.
        close(simulate(&work(180.0, &[0]), &MACHINE, 8, 10_000).per_second, 8e9 / 200.0);
    }
}
