//! The settings of a run's databases.

use std::sync::Arc;

use holdfast::{Builder, Database};
use holdfast_testkit::{CrashDisk, FaultDisk};

use super::disk::{RunClock, SlowDisk};
use super::history::Coverage;
use super::plan::Plan;

/// The settings of the run for a database on `faulty`, which lies over `disk`.
pub(super) fn settings(plan: &Plan, disk: &CrashDisk, faulty: &FaultDisk, coverage: &Arc<Coverage>) -> Builder {
    Database::builder()
        .page_size(plan.page_size)
        .cache_size_bytes(plan.cache_bytes)
        .cache_size_max_bytes(plan.cache_bytes * 2)
        .log_capacity_bytes(plan.log_bytes)
        .log_buffer_bytes(64 << 10)
        .snapshot_isolation(plan.snapshot_isolation)
        .lock_memory_bytes(plan.lock_bytes)
        .version_limit_bytes(plan.version_limit)
        .replacement_policy(plan.policy)
        .warm_up(plan.warm_up)
        .clock(Arc::new(RunClock))
        .disk(Arc::new(SlowDisk::new(faulty, disk, coverage).page_micros(plan.page_micros)))
}
