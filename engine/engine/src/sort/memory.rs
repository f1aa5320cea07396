//! The memory in which loads collect entries: the loads that run at the same time share it. An
//! ALTER of a table with a thousand partitions is a thousand loads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes for all loads together.
const COLLECT_BYTES: usize = if cfg!(sim) { 4 << 10 } else { 64 << 20 };
/// The least share of a load.
const LEAST_BYTES: usize = if cfg!(sim) { 256 } else { 128 << 10 };

/// The memory of a database.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    loads: Arc<AtomicUsize>,
}

/// What a load has of it.
#[derive(Debug)]
pub(crate) struct Share {
    loads: Arc<AtomicUsize>,
}

impl Memory {
    /// A share for one more load. Shares that were given out before become less.
    pub(crate) fn share(&self) -> Share {
        self.loads.fetch_add(1, Ordering::Relaxed);
        Share { loads: Arc::clone(&self.loads) }
    }
}

impl Share {
    /// The bytes that the load may take now.
    pub(crate) fn bytes(&self) -> usize {
        (COLLECT_BYTES / self.loads.load(Ordering::Relaxed).max(1)).max(LEAST_BYTES)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.loads.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_that_run_together_share_the_memory() {
        let memory = Memory::default();
        let first = memory.share();
        assert_eq!(first.bytes(), COLLECT_BYTES);
        let others: Vec<Share> = (0..7).map(|_| memory.share()).collect();
        assert_eq!(first.bytes(), COLLECT_BYTES / 8);
        let more: Vec<Share> = (0..8000).map(|_| memory.share()).collect();
        assert_eq!(first.bytes(), LEAST_BYTES);
        drop((others, more));
        assert_eq!(first.bytes(), COLLECT_BYTES);
    }
}
