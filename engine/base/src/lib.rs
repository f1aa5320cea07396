//! Floor 0: the types that every other floor uses.
//!
//! - Identifiers ([`PageId`], [`Lsn`], ...), and the [`Error`] of all floors.
//! - The bounds-checked little-endian [`codec`], the [`page`] header that every page on disk starts
//!   with, and the [`limits`] of the format.
//! - [`sync`], which lets loom and shuttle replace the primitives that latches are built of, and
//!   the [`Waiter`] of the engine's wait queues.
//! - [`latches`], which counts, in debug builds, the page latches of each thread.
//!
//! Nothing here does I/O or starts a thread of its own.

#![forbid(unsafe_code)]

// First, since it is a macro.
#[cfg(any(loom, sim))]
#[macro_use]
mod wrapped_atomics;

pub mod blocking;
mod chance;
pub mod codec;
mod error;
mod ids;
pub mod latches;
pub mod limits;
#[cfg(loom)]
pub mod loom_atomic;
#[cfg(loom)]
pub mod loom_plants;
#[cfg(loom)]
mod loom_reads;
#[cfg(not(loom))]
mod mutex;
pub mod page;
#[cfg(sim)]
pub mod sim;
pub mod sync;
pub mod thread;
pub mod time;
mod waiter;

use crc_fast::{CrcAlgorithm, Digest};

pub use chance::{HashMap, HashSet, HashState, random_number};
pub use error::{Error, Result};
pub use ids::{CommitNo, FrameId, IndexId, Lsn, PageId, PageNo, RollPtr, SpaceId, TxnId};
#[cfg(not(loom))]
pub use mutex::ShortMutex;
#[cfg(loom)]
pub use sync::Mutex as ShortMutex;
pub use waiter::{Waiter, Wake};

/// True if the fault of this name is planted, to test whether a check finds it: by the running
/// simulation under `--cfg sim`, by the model that is explored under `--cfg loom`, by the
/// environment of the process under `--cfg planted`. Always false in other builds.
#[macro_export]
macro_rules! planted {
    ($name:literal) => {{
        #[cfg(sim)]
        {
            $crate::sim::is_planted($name)
        }
        #[cfg(loom)]
        {
            $crate::loom_plants::is_planted($name)
        }
        #[cfg(all(planted, not(any(sim, loom))))]
        {
            $crate::is_planted($name)
        }
        #[cfg(not(any(sim, loom, planted)))]
        {
            false
        }
    }};
    // Stands still for so long where the fault is planted: it widens a window that is a few points
    // of the scheduler wide.
    ($name:literal, pause = $millis:literal) => {{
        let planted = $crate::planted!($name);
        #[cfg(sim)]
        if planted {
            $crate::thread::sleep(::std::time::Duration::from_millis($millis));
        }
        planted
    }};
}

/// True if the environment variable `HOLDFAST_PLANTED` names the fault. It is read once.
#[cfg(all(planted, not(any(sim, loom))))]
#[must_use]
pub fn is_planted(name: &str) -> bool {
    static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("HOLDFAST_PLANTED").ok()).as_deref() == Some(name)
}

const CRC_32C: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;

/// Returns the CRC-32C (Castagnoli) of `bytes`, computed by the CPU's instructions if it has them.
/// The one checksum of the format.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CRC_32C, bytes) as u32
}

/// Continues a [`checksum`] over more bytes: `checksum_append(checksum(a), b)` equals the checksum
/// of `a ++ b`.
#[must_use]
pub fn checksum_append(crc: u32, bytes: &[u8]) -> u32 {
    // The library's state is the checksum with inverted bits.
    let mut digest = Digest::new_with_init_state(CRC_32C, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every database on disk carries this checksum.
    #[test]
    fn the_checksum_is_crc_32c() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(&[]), 0);
    }

    #[test]
    fn a_checksum_goes_on_where_it_stopped() {
        let bytes: Vec<u8> = (0..5_000u32).map(|n| ((n * 7919) >> 3) as u8).collect();
        for at in [0, 1, 7, 100, 1_000, 4_096, 5_000] {
            let (first, rest) = bytes.split_at(at);
            assert_eq!(checksum_append(checksum(first), rest), checksum(&bytes), "{at}");
        }
    }
}
