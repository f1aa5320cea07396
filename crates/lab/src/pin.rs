//! Threads on cores.
//!
//! OLTP and dump share a machine in the experiments, not a core: with two or more cores each gets its own, and
//! whatever works in the background (read-ahead, cleaner) runs beside the dump, which causes that work. Where the
//! system has no affinity, or a single core, nothing is pinned; the settings of a run say which it was.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores for the parts of an experiment.
#[derive(Clone, Debug)]
pub struct Cores {
    allowed: Vec<usize>,
}

/// What a thread does, for its place.
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
    #[must_use]
    pub fn new(pin: bool) -> Cores {
        let allowed = match sched_getaffinity(None) {
            Ok(set) if pin => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
            _ => Vec::new(),
        };
        Cores { allowed }
    }

    /// Whether threads are pinned.
    #[must_use]
    pub fn pins(&self) -> bool {
        self.allowed.len() >= 2
    }

    /// The cores on which `role` runs; empty for all.
    fn of(&self, role: Role) -> Vec<usize> {
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

    /// Puts the calling thread, and those that it will start, in its place.
    pub fn pin(&self, role: Role) {
        let cores = self.of(role);
        if cores.is_empty() {
            return;
        }
        let mut set = CpuSet::new();
        cores.iter().for_each(|&cpu| set.set(cpu));
        // Affinity is an improvement of the measurement, not a condition of it.
        let _ = sched_setaffinity(None, &set);
    }
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
}
