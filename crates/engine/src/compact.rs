//! Making files smaller while they are in use.

use crate::Result;
use crate::core::Shared;

/// What a compaction did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompactReport {
    /// Bytes of the files before.
    pub bytes_before: u64,
    /// Bytes of the files after.
    pub bytes_after: u64,
    /// Pages moved.
    pub pages_moved: u64,
}

pub(crate) fn compact(_shared: &Shared) -> Result<CompactReport> {
    crate::core::stub()
}
