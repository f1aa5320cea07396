//! Sorted entries in a file.
//!
//! A run is a sequence of blocks. Memory knows where each begins, how long it is, and its checksum;
//! the file has nothing but entries. A value longer than [`INLINE_MAX`] is in front of the block of
//! its entry, which says where, so that a merge holds one such value and not one of each run.

use std::sync::Arc;

use holdfast_base::checksum;
use holdfast_base::codec::Reader;
use holdfast_io::File;
use holdfast_txn::NewValue;

use crate::{Error, Result};

/// A block ends with the entry that makes it so long.
pub(super) const BLOCK_BYTES: usize = if cfg!(sim) { 512 } else { 128 << 10 };
/// Longer values are not in their block.
const INLINE_MAX: usize = if cfg!(sim) { 64 } else { 4096 };

/// A part of the file.
#[derive(Clone, Copy)]
struct Extent {
    offset: u64,
    len: u32,
    checksum: u32,
}

/// Where the blocks of a run are, in ascending order of their entries.
pub(super) struct Run {
    blocks: Vec<Extent>,
}

/// Appends a run to a file.
pub(super) struct RunWriter<'f> {
    file: &'f Arc<dyn File>,
    /// The end of what is written.
    end: &'f mut u64,
    block: Vec<u8>,
    blocks: Vec<Extent>,
}

impl<'f> RunWriter<'f> {
    pub(super) fn new(file: &'f Arc<dyn File>, end: &'f mut u64) -> RunWriter<'f> {
        RunWriter { file, end, block: Vec::with_capacity(BLOCK_BYTES + INLINE_MAX), blocks: Vec::new() }
    }

    /// Takes the next entry, whose key is not less than that of the one before.
    pub(super) fn push(&mut self, key: &[u8], prefix: usize, value: NewValue<'_>) -> Result<()> {
        let bytes = value.bytes();
        // `Collected::push` has refused lengths that do not fit.
        for len in [key.len(), prefix, bytes.len(), value.head()] {
            self.block.extend_from_slice(&(len as u32).to_le_bytes());
        }
        self.block.extend_from_slice(key);
        if bytes.len() > INLINE_MAX {
            let Extent { offset, checksum, .. } = self.write(bytes)?;
            self.block.extend_from_slice(&offset.to_le_bytes());
            self.block.extend_from_slice(&checksum.to_le_bytes());
        } else {
            self.block.extend_from_slice(bytes);
        }
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> Result<Run> {
        self.end_block()?;
        Ok(Run { blocks: self.blocks })
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let mut block = std::mem::take(&mut self.block);
        let extent = self.write(&block)?;
        self.blocks.push(extent);
        block.clear();
        self.block = block;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Extent> {
        self.file.write_at(*self.end, bytes)?;
        let extent = Extent { offset: *self.end, len: bytes.len() as u32, checksum: checksum(bytes) };
        *self.end += bytes.len() as u64;
        Ok(extent)
    }
}

/// The place of an entry's value.
enum Place {
    /// In the block, from here on.
    Inline(usize),
    Outside(Extent),
}

/// Reads a run, entry by entry. There is always an entry under it, until [`RunReader::next`] has
/// said that there is none.
pub(super) struct RunReader<'r> {
    file: &'r dyn File,
    blocks: std::slice::Iter<'r, Extent>,
    block: Vec<u8>,
    /// Where the next entry begins.
    at: usize,
    /// Where the key of this entry is.
    key: (usize, usize),
    /// The first so many bytes of the key have to be unique.
    pub(super) prefix: usize,
    value: Place,
    len: usize,
    head: usize,
}

impl<'r> RunReader<'r> {
    /// Goes to the first entry; `None` if there is none.
    pub(super) fn new(file: &'r dyn File, run: &'r Run) -> Result<Option<RunReader<'r>>> {
        let value = Place::Inline(0);
        let (blocks, block) = (run.blocks.iter(), Vec::new());
        let mut reader = RunReader { file, blocks, block, at: 0, key: (0, 0), prefix: 0, value, len: 0, head: 0 };
        Ok(if reader.next()? { Some(reader) } else { None })
    }

    /// Goes to the next entry. False if there is none. After an error the key under the reader is
    /// empty: a heap compares it once more.
    pub(super) fn next(&mut self) -> Result<bool> {
        if self.at == self.block.len() {
            if self.at > 0 && holdfast_base::planted!("runs-end-early") {
                return Ok(false);
            }
            let Some(&extent) = self.blocks.next() else { return Ok(false) };
            self.key = (0, 0);
            read(self.file, extent, &mut self.block)?;
            self.at = 0;
        }
        self.decode().ok_or_else(|| damaged(self.file))?;
        Ok(true)
    }

    fn decode(&mut self) -> Option<()> {
        let mut reader = Reader::new(self.block.get(self.at..)?);
        let mut len = || reader.u32().map(|len| len as usize);
        let (key, prefix, value, head) = (len()?, len()?, len()?, len()?);
        let position = |reader: &Reader<'_>| self.block.len() - reader.remaining();
        let key = (position(&reader), reader.bytes(key)?.len());
        let place = if value > INLINE_MAX {
            Place::Outside(Extent { offset: reader.u64()?, checksum: reader.u32()?, len: value as u32 })
        } else {
            let at = position(&reader);
            reader.bytes(value)?;
            Place::Inline(at)
        };
        (self.key, self.value) = (key, place);
        (self.prefix, self.len, self.head) = (prefix, value, head);
        self.at = position(&reader);
        Some(())
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.block[self.key.0..self.key.0 + self.key.1]
    }

    /// Reads the value, if it is not in the block, into `large`.
    pub(super) fn value<'v>(&'v self, large: &'v mut Vec<u8>) -> Result<NewValue<'v>> {
        let bytes = match self.value {
            Place::Inline(at) => &self.block[at..at + self.len],
            Place::Outside(extent) => {
                read(self.file, extent, large)?;
                large.as_slice()
            }
        };
        Ok(NewValue::with_head(bytes, self.head))
    }
}

fn read(file: &dyn File, extent: Extent, into: &mut Vec<u8>) -> Result<()> {
    into.resize(extent.len as usize, 0);
    file.read_at(extent.offset, into)?;
    if checksum(into) == extent.checksum { Ok(()) } else { Err(damaged(file)) }
}

fn damaged(file: &dyn File) -> Error {
    Error::damaged_file(file.name(), "the disk does not give back what was written to sort it")
}
