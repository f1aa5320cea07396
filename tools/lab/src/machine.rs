//! Provenance: the machine that an experiment ran on.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// The facts about a machine by which a reader judges a figure.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Kernel release.
    pub kernel: String,
    /// File system of the data directory, for runs on a real disk.
    pub file_system: Option<String>,
    /// Version of the lab.
    pub holdfast: &'static str,
    /// The commit that the lab was built from, if it was built in a repository.
    pub commit: Option<&'static str>,
    /// True if the lab was built with optimisation.
    pub optimised: bool,
}

impl Machine {
    /// Returns this machine, and the file system of `dir`.
    pub fn this(dir: Option<&Path>) -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: field(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: crate::pin::cores_given(),
            memory_mib: field(&meminfo, "MemTotal")
                .and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok())
                .map_or(0, |kib| kib / 1024),
            kernel: if kernel.is_empty() {
                std::env::consts::OS.to_owned()
            } else {
                format!("Linux {}", kernel.trim())
            },
            file_system: dir.and_then(file_system_of),
            holdfast: env!("CARGO_PKG_VERSION"),
            commit: option_env!("HOLDFAST_COMMIT"),
            optimised: !cfg!(debug_assertions),
        }
    }
}

/// The value of `name : value` in a `/proc` listing.
pub(crate) fn field(listing: &str, name: &str) -> Option<String> {
    listing.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Type of the file system that holds `dir`: that of the longest mount point which is a prefix of
/// it.
fn file_system_of(dir: &Path) -> Option<String> {
    let dir = fs::canonicalize(dir).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = |line: &str| {
        let mut fields = line.split(' ');
        let (point, kind) = (fields.nth(1)?.to_owned(), fields.next()?.to_owned());
        dir.starts_with(&point).then_some((point.len(), kind))
    };
    mounts.lines().filter_map(mount).max().map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::this(Some(Path::new("/")));
        assert!(machine.cores >= 1 && !machine.cpu.is_empty() && !machine.kernel.is_empty());
        assert_eq!(field("a : 1\nmodel name\t: X Y\n", "model name").as_deref(), Some("X Y"));
    }
}
