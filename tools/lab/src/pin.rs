//! Binds threads to cores.
//!
//! OLTP and dump share a machine in the experiments, not a core. With two or more cores each gets
//! its own, and background threads (read-ahead, cleaner) run beside the dump, which causes their
//! work. If the system has no affinity, or the machine a single core, nothing is pinned. The
//! settings of a run record which it was.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of this process when it began. The lab's own threads are pinned later, so their cores
/// are not those of the process.
struct Given {
    cpus: Vec<usize>,
    parallelism: usize,
}

fn given() -> &'static Given {
    static GIVEN: OnceLock<Given> = OnceLock::new();
    GIVEN.get_or_init(|| Given {
        cpus: match sched_getaffinity(None) {
            Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
            Err(_) => Vec::new(),
        },
        parallelism: std::thread::available_parallelism().map_or(1, usize::from),
    })
}

/// Cores that this process may use, before anything is pinned.
pub fn cores_given() -> usize {
    given().parallelism
}

/// The numbers of these cores; none if the system has no affinity.
pub(crate) fn cpus_given() -> &'static [usize] {
    &given().cpus
}

/// Cores for the parts of an experiment; by default nothing is pinned.
#[derive(Clone, Debug, Default)]
pub struct Cores {
    allowed: Vec<usize>,
}

/// The work of a thread, by which its cores are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// OLTP session `n`.
    Oltp(usize),
    /// The dump.
    Dump,
    /// The engine's own threads, and the lab's.
    Background,
    /// A server.
    Server,
    /// A server's clients, the lab among them.
    Clients,
}

impl Cores {
    /// The cores of this process; none if `pin` is false.
    pub fn new(pin: bool) -> Cores {
        // Read in any case: a thread of another experiment may be pinned next.
        let given = given();
        Cores { allowed: if pin { given.cpus.clone() } else { Vec::new() } }
    }

    /// True if threads are pinned.
    pub fn pins(&self) -> bool {
        self.allowed.len() >= 2
    }

    /// The cores on which `role` runs; empty for all.
    pub(crate) fn of(&self, role: Role) -> Vec<usize> {
        let n = self.allowed.len();
        if n < 2 {
            return Vec::new();
        }
        match role {
            Role::Oltp(session) => vec![self.allowed[session % (n - 1)]],
            Role::Dump => vec![self.allowed[n - 1]],
            Role::Background => self.allowed[1..].to_vec(),
            Role::Server => self.allowed[..n / 2].to_vec(),
            Role::Clients => self.allowed[n / 2..].to_vec(),
        }
    }

    /// Binds the calling thread, and those that it will start, to the cores of `role`.
    pub fn pin(&self, role: Role) {
        let cores = self.of(role);
        if cores.is_empty() {
            return;
        }
        let mut set = CpuSet::new();
        cores.iter().for_each(|&cpu| set.set(cpu));
        // The measurement is better with affinity, but does not need it.
        let _ = sched_setaffinity(None, &set);
    }
}

/// Gives the calling thread, and those that it will start, all cores of the process again.
pub fn unpin() {
    let mut set = CpuSet::new();
    given().cpus.iter().for_each(|&cpu| set.set(cpu));
    // As in `Cores::pin`.
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oltp_has_a_core_that_the_others_leave_alone() {
        let cores = Cores { allowed: vec![2, 3, 7] };
        assert_eq!(cores.of(Role::Oltp(0)), [2]);
        assert_eq!(cores.of(Role::Oltp(1)), [3]);
        assert_eq!(cores.of(Role::Dump), [7]);
        assert_eq!(cores.of(Role::Background), [3, 7]);
        assert_eq!((cores.of(Role::Server), cores.of(Role::Clients)), (vec![2], vec![3, 7]));
        let one = Cores { allowed: vec![0] };
        assert!(!one.pins() && one.of(Role::Dump).is_empty());
        assert!(!Cores::new(false).pins());
    }

    #[test]
    fn a_pinned_thread_still_knows_the_machine() {
        let before = Cores::new(true);
        let cores = cores_given();
        std::thread::spawn(move || {
            before.pin(Role::Server);
            assert_eq!(cores_given(), cores);
            assert_eq!(Cores::new(true).allowed, before.allowed);
            unpin();
            assert_eq!(std::thread::available_parallelism().map_or(1, usize::from), cores);
        })
        .join()
        .unwrap();
    }
}
