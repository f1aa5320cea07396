//! When changed pages are written, and how far the checkpoint may go.

pub(crate) mod cleaner;
pub(crate) mod held;
pub(crate) mod log_needed;
pub(crate) mod pacing;
pub(crate) mod signals;
pub(crate) mod unsynced;
