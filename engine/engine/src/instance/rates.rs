//! Rates: what was counted since a monitor or a listing was last read.

use holdfast_base::time::Instant;
use holdfast_metrics::Snapshot;

/// What the previous call saw, for the rates.
#[derive(Clone)]
pub(crate) struct Previous {
    at: Instant,
    snapshot: Snapshot,
}

impl Previous {
    pub(crate) fn new(snapshot: Snapshot) -> Previous {
        Previous { at: Instant::now(), snapshot }
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// What was counted since `earlier`, and for how many seconds.
    pub(crate) fn since(&self, earlier: &Previous) -> (Snapshot, f64) {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64().max(1e-3);
        (self.snapshot.delta(&earlier.snapshot), seconds)
    }
}
