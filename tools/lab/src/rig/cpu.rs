//! Processor time. Neighbours on the machine change it less than elapsed time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

fn of(clock: ClockId) -> Duration {
    let t = clock_gettime(clock);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// The processor time of all threads of this process so far.
pub fn process() -> Duration {
    of(ClockId::ProcessCPUTime)
}

/// The processor time of the calling thread so far.
pub fn thread() -> Duration {
    of(ClockId::ThreadCPUTime)
}
