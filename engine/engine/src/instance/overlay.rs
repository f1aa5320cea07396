//! A disk over another one that it never changes: writes stay in memory, reads prefer them.
//!
//! [`crate::Builder::open_read_only`] recovers on it, and a salvage reads through it. It keeps what
//! recovery writes, block by block, so it costs memory in proportion to the log's tail. Invariant:
//! the disk below is only opened read-only, listed and asked.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::HashMap;
use holdfast_base::blocking::{Mutex, RwLock};
use holdfast_io::{AlignedBuf, Create, DirLock, DirLockMode, Disk, File, OpenOptions};

use crate::{Error, Result};

/// Unit in which changed bytes are kept.
const BLOCK: usize = 4096;

/// The disk.
pub(crate) struct OverlayDisk {
    base: Arc<dyn Disk>,
    /// What became of each name that was opened, removed or renamed; `None`: it is gone.
    names: Mutex<HashMap<String, Option<Arc<Content>>>>,
}

/// The bytes of a file: those below, overlaid.
struct Content {
    base: Option<Arc<dyn File>>,
    /// Of the base, bytes that still count: a cut hides what was behind it for good.
    base_len: AtomicU64,
    len: AtomicU64,
    blocks: RwLock<BTreeMap<u64, Box<[u8; BLOCK]>>>,
}

struct OverlayFile {
    name: String,
    content: Arc<Content>,
    read_only: bool,
}

impl OverlayDisk {
    pub(crate) fn new(base: Arc<dyn Disk>) -> OverlayDisk {
        OverlayDisk { base, names: Mutex::default() }
    }

    /// The disk without the file `name`, whatever it is below.
    pub(crate) fn without(self, name: &str) -> OverlayDisk {
        self.names.lock().insert(name.into(), None);
        self
    }

    /// The content of `name`, from here or from below.
    fn find(
        &self,
        names: &mut HashMap<String, Option<Arc<Content>>>,
        name: &str,
        options: OpenOptions,
    ) -> Result<Option<Arc<Content>>> {
        if let Some(known) = names.get(name) {
            return Ok(known.clone());
        }
        if !self.base.exists(name)? {
            return Ok(None);
        }
        let base = self.base.open(name, options.create(Create::Never).read_only(true))?;
        let len = AtomicU64::new(base.len()?);
        let base_len = AtomicU64::new(len.load(Ordering::Relaxed));
        let content = Arc::new(Content { base: Some(base), base_len, len, blocks: RwLock::default() });
        names.insert(name.into(), Some(Arc::clone(&content)));
        Ok(Some(content))
    }
}

fn not_found(operation: &'static str, name: &str) -> Error {
    Error::io(operation, name, io::ErrorKind::NotFound.into())
}

impl Disk for OverlayDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        let mut names = self.names.lock();
        let content = match (self.find(&mut names, name, options)?, options.create) {
            (Some(_), Create::New) => return Err(Error::io("open", name, io::ErrorKind::AlreadyExists.into())),
            (Some(content), _) => content,
            (None, Create::Never) => return Err(not_found("open", name)),
            (None, _) => {
                let content = Content {
                    base: None,
                    base_len: AtomicU64::new(0),
                    len: AtomicU64::new(0),
                    blocks: RwLock::default(),
                };
                let content = Arc::new(content);
                names.insert(name.into(), Some(Arc::clone(&content)));
                content
            }
        };
        Ok(Arc::new(OverlayFile { name: name.into(), content, read_only: options.read_only }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut names = self.names.lock();
        if self.find(&mut names, name, OpenOptions::default())?.is_none() {
            return Err(not_found("remove", name));
        }
        names.insert(name.into(), None);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut names = self.names.lock();
        let content = self.find(&mut names, from, OpenOptions::default())?;
        let content = content.ok_or_else(|| not_found("rename", from))?;
        names.insert(from.into(), None);
        names.insert(to.into(), Some(content));
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        let names = self.names.lock();
        let mut list = self.base.list()?;
        list.retain(|name| !matches!(names.get(name), Some(None)));
        list.extend(names.iter().filter(|(_, content)| content.is_some()).map(|(name, _)| name.clone()));
        list.sort();
        list.dedup();
        Ok(list)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        match self.names.lock().get(name) {
            Some(known) => Ok(known.is_some()),
            None => self.base.exists(name),
        }
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(())
    }

    /// The lock below, shared with others that change nothing either.
    fn lock(&self, _mode: DirLockMode) -> Result<DirLock> {
        self.base.lock(DirLockMode::Shared)
    }

    fn location(&self) -> String {
        self.base.location()
    }

    fn describe(&self) -> String {
        format!("{}, read-only", self.base.describe())
    }
}

impl Content {
    /// Bytes of `block` as they are below.
    fn base_block(&self, block: u64) -> Result<Box<[u8; BLOCK]>> {
        let mut bytes = Box::new([0; BLOCK]);
        let start = block * BLOCK as u64;
        let len = self.base_len.load(Ordering::Acquire).saturating_sub(start).min(BLOCK as u64) as usize;
        if let Some(base) = &self.base
            && len > 0
        {
            let mut buf = AlignedBuf::zeroed(len);
            base.read_at(start, &mut buf)?;
            bytes[..len].copy_from_slice(&buf);
        }
        Ok(bytes)
    }

    fn write(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let mut blocks = self.blocks.write();
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let (block, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let n = (BLOCK - within).min(buf.len() - done);
            let bytes = match blocks.entry(block) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => entry.insert(self.base_block(block)?),
            };
            bytes[within..within + n].copy_from_slice(&buf[done..done + n]);
            done += n;
        }
        self.len.fetch_max(offset + buf.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    /// Cuts or grows by zeros.
    fn set_len(&self, len: u64) {
        let mut blocks = self.blocks.write();
        if len < self.len.load(Ordering::Acquire) {
            self.base_len.fetch_min(len, Ordering::AcqRel);
            blocks.split_off(&len.div_ceil(BLOCK as u64));
            if let Some(last) = blocks.get_mut(&(len / BLOCK as u64)) {
                last[(len % BLOCK as u64) as usize..].fill(0);
            }
        }
        self.len.store(len, Ordering::Release);
    }
}

impl File for OverlayFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let blocks = self.content.blocks.read();
        if offset + buf.len() as u64 > self.content.len.load(Ordering::Acquire) {
            let what = format!("{} at {offset}", self.name);
            return Err(Error::io("read", what, io::ErrorKind::UnexpectedEof.into()));
        }
        let base_len = self.content.base_len.load(Ordering::Acquire);
        let from_base = base_len.saturating_sub(offset).min(buf.len() as u64) as usize;
        buf[from_base..].fill(0);
        if let Some(base) = &self.content.base
            && from_base > 0
        {
            base.read_at(offset, &mut buf[..from_base])?;
        }
        let end = offset + buf.len() as u64;
        for (block, bytes) in blocks.range(offset / BLOCK as u64..end.div_ceil(BLOCK as u64)) {
            let start = block * BLOCK as u64;
            let (from, to) = (start.max(offset), (start + BLOCK as u64).min(end));
            buf[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly("the file"));
        }
        self.content.write(offset, buf)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.content.len.load(Ordering::Acquire))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.content.set_len(len);
        Ok(())
    }

    /// Memory is not torn.
    fn writes_whole(&self, _len: usize) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_io::{FileKind, MemoryDisk};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_reads_what_a_plain_disk_would_and_leaves_the_one_below_alone(
            base in proptest::collection::vec(any::<u8>(), 0..20_000),
            steps in proptest::collection::vec((0u8..3, 0u64..30_000, 0usize..9_000, any::<u8>()), 0..12),
        ) {
            let below = MemoryDisk::new();
            let options = OpenOptions::new(FileKind::Data);
            below.open("f", options.create(Create::New)).unwrap().write_at(0, &base).unwrap();
            let disk = OverlayDisk::new(Arc::new(below.clone()));
            let file = disk.open("f", options).unwrap();
            let mut model = base.clone();
            for (op, offset, len, byte) in steps {
                match op {
                    0 => {
                        file.set_len(offset).unwrap();
                        model.resize(offset as usize, 0);
                    }
                    _ => {
                        file.write_at(offset, &vec![byte; len]).unwrap();
                        let end = offset as usize + len;
                        model.resize(model.len().max(end), 0);
                        model[offset as usize..end].fill(byte);
                    }
                }
            }
            let mut all = vec![1; file.len().unwrap() as usize];
            file.read_at(0, &mut all).unwrap();
            prop_assert!(all == model);
            let mut untouched = vec![0; base.len()];
            below.open("f", options).unwrap().read_at(0, &mut untouched).unwrap();
            prop_assert!(untouched == base);
        }
    }

    #[test]
    fn names_change_above_only() {
        let below = MemoryDisk::new();
        let options = OpenOptions::new(FileKind::Meta);
        below.open("a", options.create(Create::New)).unwrap();
        let disk = OverlayDisk::new(Arc::new(below.clone()));
        disk.rename("a", "b").unwrap();
        disk.open("c", options.create(Create::IfMissing)).unwrap();
        assert_eq!(disk.list().unwrap(), ["b", "c"]);
        disk.remove("b").unwrap();
        assert!(disk.open("b", options).is_err() && disk.open("a", options).is_err());
        assert_eq!(below.list().unwrap(), ["a"]);
    }
}
