//! Warm-up: the ids of the pages worth having are saved, and loaded again in the background after a
//! restart.
//!
//! ```text
//! file `warmup`:  magic "HFWARMUP" (8) | version u32 = 1 | count u32
//!                 | count x page id u64, coldest first | CRC-32C u32
//! ```
//!
//! The file is a hint: one that is missing, cut off or damaged is as good as none. The policy names
//! the pages, so the residue of a scan is not among them. A page that was cut off its file may stay
//! in its frame; it is not listed. Loading stops when no frame is free: it never evicts.
//!
//! While the list saved last is being loaded no other is saved: it would lack the pages that are
//! still to come, and two restarts in a row would lose them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_base::codec::{Reader, Writer};
use holdfast_base::{HashMap, PageId, Result, SpaceId, checksum};
use holdfast_io::{Create, FileKind, OpenOptions};
use holdfast_metrics::Counter;
use holdfast_policy::{Policy, Touch};

use crate::core::Core;
use crate::resident::partition::HeaderWords;
use crate::resident::space::Space;

const NAME: &str = "warmup";
const TEMPORARY: &str = "warmup.new";
const MAGIC: &[u8; 8] = b"HFWARMUP";
const VERSION: u32 = 1;
/// Bytes before the ids.
const HEAD: usize = 16;
/// Pages that are loaded in the order of their places on disk before the next, colder ones.
const CHUNK: usize = 1024;

fn encode(pages: &[PageId]) -> Vec<u8> {
    let mut out = Vec::with_capacity(pages.len() * 8 + 20);
    out.bytes(MAGIC);
    Writer::u32(&mut out, VERSION);
    Writer::u32(&mut out, pages.len() as u32);
    pages.iter().for_each(|id| Writer::u64(&mut out, id.to_u64()));
    let crc = checksum(&out);
    Writer::u32(&mut out, crc);
    out
}

/// How long the list is that begins with `bytes`.
fn encoded_len(bytes: &[u8]) -> Option<usize> {
    let mut r = Reader::new(bytes);
    (r.bytes(8)? == MAGIC && r.u32()? == VERSION).then_some(())?;
    (r.u32()? as usize).checked_mul(8)?.checked_add(HEAD + 4)
}

fn decode(bytes: &[u8]) -> Option<Vec<PageId>> {
    let (listed, crc) = bytes.get(..encoded_len(bytes)?)?.split_last_chunk::<4>()?;
    (u32::from_le_bytes(*crc) == checksum(listed)).then_some(())?;
    let mut r = Reader::new(&listed[HEAD..]);
    Some(std::iter::from_fn(|| r.u64()).map(PageId::from_u64).collect())
}

impl Core {
    /// See [`Pool::save_warmup`](crate::Pool::save_warmup).
    pub(crate) fn save_warmup(&self) -> Result<usize> {
        if self.warming.load(Ordering::Acquire) {
            return Ok(0);
        }
        let mut pages = Vec::new();
        for partition in &self.partitions {
            let policy = partition.lock();
            policy.hot(&HeaderWords(&self.frames), &mut |slot| pages.extend(self.frames.header(slot).page()));
        }
        let ends = self.file_ends();
        pages.retain(|id| ends.get(&id.space).is_some_and(|end| self.home(id.no) < *end));
        let bytes = encode(&pages);
        let disk = &self.config.disk;
        let options = OpenOptions::new(FileKind::Meta).create(Create::IfMissing);
        let file = disk.open(TEMPORARY, options)?;
        file.set_len(0)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        disk.rename(TEMPORARY, NAME)?;
        disk.sync_dir()?;
        Ok(pages.len())
    }

    /// How long the file of each space is; one that cannot be asked has no page worth listing.
    fn file_ends(&self) -> HashMap<SpaceId, u64> {
        self.spaces().iter().map(|(id, space)| (*id, space.file.len().unwrap_or(0))).collect()
    }

    /// The list saved last; empty if there is none that can be read.
    pub(crate) fn saved_warmup(&self) -> Vec<PageId> {
        self.read_warmup().ok().flatten().and_then(|bytes| decode(&bytes)).unwrap_or_default()
    }

    /// What the file begins with, as much as its list takes, however long the file is.
    fn read_warmup(&self) -> Result<Option<Vec<u8>>> {
        let disk = &self.config.disk;
        if !disk.exists(NAME)? {
            return Ok(None);
        }
        let file = disk.open(NAME, OpenOptions::new(FileKind::Meta).read_only(true))?;
        let mut bytes = vec![0; HEAD];
        file.read_at(0, &mut bytes)?;
        let end = file.len()?;
        let Some(len) = encoded_len(&bytes).filter(|&len| len as u64 <= end) else { return Ok(None) };
        bytes.resize(len, 0);
        file.read_at(HEAD as u64, &mut bytes[HEAD..])?;
        Ok(Some(bytes))
    }

    /// Loads pages, the last of the list first, as long as frames are free and the pool is not
    /// being stopped. How many.
    pub(crate) fn load_warmup(
        &self,
        pages: &[PageId],
        open: &mut dyn FnMut(SpaceId) -> Option<Arc<Space>>,
        stopped: &dyn Fn() -> bool,
    ) -> u64 {
        self.warming.store(true, Ordering::Release);
        let loaded = self.load_listed(pages, open, stopped);
        self.warming.store(stopped(), Ordering::Release);
        loaded
    }

    fn load_listed(
        &self,
        pages: &[PageId],
        open: &mut dyn FnMut(SpaceId) -> Option<Arc<Space>>,
        stopped: &dyn Fn() -> bool,
    ) -> u64 {
        let mut loaded = 0;
        for chunk in pages.rchunks(CHUNK) {
            let mut chunk = chunk.to_vec();
            chunk.sort_unstable();
            for id in chunk {
                if self.supply.free_len() == 0 || stopped() {
                    return loaded;
                }
                let Some(space) = open(id.space).filter(|s| s.translation.frame(id.no).is_none()) else { continue };
                let brought = self.bring_in_ahead(&space, &[(id.no, Touch::new(0, self.tick()))]);
                loaded += brought;
                self.metrics.add(Counter::WarmupLoaded, brought);
            }
        }
        loaded
    }
}

#[cfg(test)]
mod tests {
    use holdfast_base::PageNo;

    use super::*;

    #[test]
    fn the_list_round_trips_and_damage_is_noticed() {
        let pages: Vec<PageId> = (0..100).map(|i| PageId::new(SpaceId(i % 7), PageNo(i))).collect();
        let bytes = encode(&pages);
        assert_eq!(decode(&bytes), Some(pages));
        for i in (0..bytes.len()).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let mut bad = bytes.clone();
            bad[i] ^= 1;
            assert_eq!(decode(&bad), None, "byte {i}");
            assert_eq!(decode(&bytes[..i]), None, "cut at {i}");
        }
    }
}
