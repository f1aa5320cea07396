//! The policies of the literature, for comparison. They have no scans, statements or frames: a page
//! is its dense number, and state is kept in arrays indexed by it.

mod arc;
mod belady;
mod clock;
mod lirs;
mod list;
mod s3fifo;
mod sieve;
mod tiny_lfu;
mod two_q;

pub(crate) use arc::Arc;
pub(crate) use belady::{Belady, next_uses};
pub(crate) use clock::Clock;
pub(crate) use lirs::Lirs;
pub(crate) use s3fifo::S3Fifo;
pub(crate) use sieve::Sieve;
pub(crate) use tiny_lfu::TinyLfu;
pub(crate) use two_q::TwoQ;

use crate::trace::Request;

/// A cache that a trace is replayed through.
pub(crate) trait Cache {
    /// Handles the request with this index. True if its first touch was a hit. `tick` is the number
    /// of touches before.
    fn request(&mut self, index: usize, r: &Request, tick: u32) -> bool;
}

/// A cache that sees one touch after the other.
pub(crate) trait PerTouch {
    /// Touches `page`. True if it was resident.
    fn touch(&mut self, page: u32) -> bool;
}

impl<T: PerTouch> Cache for T {
    fn request(&mut self, _: usize, r: &Request, _: u32) -> bool {
        let hit = self.touch(r.page);
        for _ in 1..r.touches {
            self.touch(r.page);
        }
        hit
    }
}
