//! Processes of this program that are the same each time: what the scheduler does follows from
//! addresses, too.

use std::process::Command;

/// Settings of the C library's allocator for a run, which lives for a moment: memory comes from
/// one place in large pieces, and goes back when the process ends.
const ALLOCATOR: &str = "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1000000000:\
    glibc.malloc.trim_threshold=4000000000:glibc.malloc.top_pad=67108864";

/// Why such a process does not start.
pub(crate) const NO_SETARCH: &str = "`setarch`, which gives each process the same addresses, does not start";

/// This program, in a process whose addresses are the same each time; arguments are the caller's
/// part.
pub(crate) fn same_process() -> std::io::Result<Command> {
    let mut command = Command::new("setarch");
    command.arg(std::env::consts::ARCH).arg("-R").arg(std::env::current_exe()?).env("GLIBC_TUNABLES", ALLOCATOR);
    Ok(command)
}
