//! The hooks that are called when the log grows.

use std::sync::Arc;

/// A hook of [`Wal::on_growth`](crate::Wal::on_growth).
pub(super) struct Growth {
    /// It is called each time that the log has grown by about so many bytes, for a capacity.
    pub step: fn(u64) -> u64,
    /// The end of the log at which it is due.
    pub due: u64,
    pub callback: Arc<dyn Fn() + Send + Sync>,
}
