//! Memory cgroups, version 1 or 2, whichever the machine has.

use std::fs;
use std::path::{Path, PathBuf};

/// A cgroup that is removed when dropped.
pub struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// A cgroup whose processes may use `bytes` of memory, page cache included. `Err` says why
    /// there is none.
    pub fn new(name: &str, bytes: u64) -> Result<Cgroup, String> {
        let name = format!("holdfast-compare-{}-{name}", std::process::id());
        let (dir, limit) = if Path::new("/sys/fs/cgroup/memory").is_dir() {
            (Path::new("/sys/fs/cgroup/memory").join(name), "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup").join(name), "memory.max")
        };
        fs::create_dir(&dir).map_err(|e| format!("cannot create {}: {e}", dir.display()))?;
        let cgroup = Cgroup { dir };
        let file = cgroup.dir.join(limit);
        fs::write(&file, bytes.to_string()).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        Ok(cgroup)
    }

    /// True if the kernel has killed a process of the cgroup for what it used.
    pub fn has_killed(&self) -> bool {
        let count = |file: &str| {
            let text = fs::read_to_string(self.dir.join(file)).ok()?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
        };
        // Version 2, version 1.
        ["memory.events", "memory.oom_control"].into_iter().find_map(count).is_some_and(|killed| killed > 0)
    }

    /// Moves the calling process into the cgroup.
    pub fn join_command(&self) -> String {
        format!("echo $$ > {}", self.dir.join("cgroup.procs").display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Busy while a process is still ending; the directory is empty of resources then, and named
        // after our id.
        let _ = fs::remove_dir(&self.dir);
    }
}
