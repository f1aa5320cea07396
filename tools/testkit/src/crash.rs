//! A disk that loses power: it keeps apart what was written and what is durable.
//!
//! The disk is POSIX's, without any ordering. Between two syncs of a file each 512-byte sector may
//! reach the medium or not, in any state that it had meanwhile; so may its length. Between two
//! syncs of the directory so may each creation, renaming and removal. [`CrashDisk::reboot`] draws
//! one such outcome from a seed: the same calls and the same seed give the same disk.
//!
//! [`CrashDisk::crash_after`] cuts the power in the middle of an operation. That operation fails,
//! but its effects may reach the medium like those of any unsynced operation. Every later
//! operation, reads included, fails too. [`CrashDisk::is_power_cut`] recognises these failures.
//!
//! [`CrashDisk::lose_unsynced`] does what a failed `fsync` may do: the system takes for clean what
//! was to be synced, and a later sync succeeds without writing it.
//!
//! One mutex guards everything. It is not held across a call into another module.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, Result};

use holdfast_io::parts::{LockFlag, SparseBytes, check_name, check_range, name_error, unexpected_eof};
use holdfast_io::{Create, DirLock, DirLockMode, Disk, File, OpenOptions, SECTOR};

use crate::SplitMix64;

type Inode = u64;
type Sector = [u8; SECTOR];

/// The states of one sector that are remembered between two syncs, without the durable one. If a
/// sector is written more often, the oldest of them is forgotten.
const VERSIONS_KEPT: usize = 8;

/// One file: its bytes as written, and what a power cut may make of them.
#[derive(Clone, Default)]
struct Content {
    bytes: SparseBytes,
    /// For each sector changed since the last sync: its durable state, then every later one but the
    /// current.
    unsynced: BTreeMap<u64, Vec<Sector>>,
    /// The same for sectors that no sync writes before they are changed again.
    lost: BTreeMap<u64, Vec<Sector>>,
    /// The durable length and every later one but the current.
    lengths: Vec<u64>,
}

impl Content {
    fn sector(&self, index: u64) -> Sector {
        let mut sector = [0; SECTOR];
        let at = index * SECTOR as u64;
        let n = self.bytes.size().saturating_sub(at).min(SECTOR as u64) as usize;
        // Past the end a sector reads as zeros.
        self.bytes.read(at, &mut sector[..n]);
        sector
    }

    /// Remembers the state of the sectors that `offset..offset + len` touches, before they are
    /// changed.
    fn remember(&mut self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        for index in offset / SECTOR as u64..=(offset + len - 1) / SECTOR as u64 {
            let current = self.sector(index);
            let lost = &mut self.lost;
            // Most sectors are written once between two syncs.
            let only = || Vec::with_capacity(1);
            let versions = self.unsynced.entry(index).or_insert_with(|| lost.remove(&index).unwrap_or_else(only));
            if versions.len() > VERSIONS_KEPT {
                versions.remove(1);
            }
            versions.push(current);
        }
    }

    fn remember_length(&mut self, changed_to: u64) {
        let len = self.bytes.size();
        if changed_to != len && self.lengths.last() != Some(&len) {
            self.lengths.push(len);
        }
    }

    fn write(&mut self, offset: u64, buf: &[u8]) {
        self.remember(offset, buf.len() as u64);
        self.remember_length(self.bytes.size().max(offset + buf.len() as u64));
        self.bytes.write(offset, buf);
    }

    fn zero(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.bytes.size());
        if offset < end {
            self.remember(offset, end - offset);
            self.bytes.zero(offset, end - offset);
        }
    }

    fn set_len(&mut self, len: u64) {
        self.remember_length(len);
        if len < self.bytes.size() {
            self.zero(len, u64::MAX);
        }
        self.bytes.set_len(len);
    }

    fn sync(&mut self) {
        self.unsynced.clear();
        self.lengths.clear();
    }

    /// What is on the medium after a power cut.
    fn after_power_cut(&self, luck: &mut Luck) -> Content {
        let mut bytes = self.bytes.clone();
        for (index, versions) in self.unsynced.iter().chain(&self.lost) {
            if let Some(earlier) = luck.pick(versions.len()) {
                let at = index * SECTOR as u64;
                // This may lengthen the file: a sector past the current end comes back if an
                // earlier, greater length does.
                bytes.write(at, &versions[earlier]);
            }
        }
        let len = luck.pick(self.lengths.len()).map_or(self.bytes.size(), |earlier| self.lengths[earlier]);
        bytes.set_len(len);
        Content { bytes, ..Content::default() }
    }
}

/// Draws what survives. Each power cut draws its own probability of survival, so that "nothing",
/// "everything" and "a single sector" occur as often as an even mixture.
struct Luck {
    rng: SplitMix64,
    keep: f64,
}

impl Luck {
    fn new(seed: u64) -> Luck {
        let mut rng = SplitMix64::new(seed);
        let keep = match rng.below(6) {
            0 => 0.0,
            1 => 1.0,
            2 => 0.02,
            3 => 0.98,
            4 => 0.5,
            _ => rng.fraction(),
        };
        Luck { rng, keep }
    }

    fn survives(&mut self) -> bool {
        self.rng.chance(self.keep)
    }

    /// `None` for the current state, else one of `earlier` states, of which the first is the
    /// durable one.
    fn pick(&mut self, earlier: usize) -> Option<usize> {
        if earlier == 0 || self.survives() {
            return None;
        }
        Some(if self.rng.chance(0.5) { 0 } else { self.rng.below(earlier as u64) as usize })
    }
}

/// A change of the directory that may not be durable yet.
#[derive(Clone, Debug)]
enum Entry {
    Created(String, Inode),
    Renamed(String, Inode),
    Removed(String, Inode),
}

fn apply(names: &mut BTreeMap<String, Inode>, entry: &Entry) {
    match entry {
        Entry::Created(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        Entry::Renamed(to, inode) => {
            // A file has one name, so its previous one on the medium is gone.
            names.retain(|_, other| other != inode);
            names.insert(to.clone(), *inode);
        }
        Entry::Removed(name, inode) => {
            if names.get(name) == Some(inode) {
                names.remove(name);
            }
        }
    }
}

#[derive(Default)]
struct State {
    names: BTreeMap<String, Inode>,
    durable_names: BTreeMap<String, Inode>,
    entries: Vec<Entry>,
    files: BTreeMap<Inode, Content>,
    next_inode: Inode,
    /// Mutating operations so far.
    operations: u64,
    /// The power is cut during the mutating operation after this many.
    crash_after: Option<u64>,
    dead: bool,
}

impl State {
    fn check_power(&self, operation: &'static str, name: &str) -> Result<()> {
        if self.dead { Err(power_cut(operation, name)) } else { Ok(()) }
    }

    /// Counts a mutating operation. True if the power is cut during it.
    fn count(&mut self) -> bool {
        if self.crash_after.is_some_and(|n| self.operations >= n) {
            self.dead = true;
        } else {
            self.operations += 1;
        }
        self.dead
    }

    fn enter(&mut self, entry: Entry) {
        apply(&mut self.names, &entry);
        self.entries.push(entry);
    }
}

/// The inner error of every operation on a disk without power.
#[derive(Debug)]
struct PowerCut;

impl fmt::Display for PowerCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the power is off")
    }
}

impl std::error::Error for PowerCut {}

fn power_cut(operation: &'static str, name: &str) -> Error {
    Error::io(operation, name, io::Error::other(PowerCut))
}

/// A disk in memory that can lose power. Clones are the same disk.
#[derive(Clone, Default)]
pub struct CrashDisk {
    state: Arc<Mutex<State>>,
    lock: LockFlag,
}

impl fmt::Debug for CrashDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let (operations, dead) = (state.operations, state.dead);
        f.debug_struct("CrashDisk").field("operations", &operations).field("dead", &dead).finish_non_exhaustive()
    }
}

impl CrashDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> CrashDisk {
        CrashDisk::default()
    }

    /// Cuts the power during the mutating operation after the next `n`, which succeed. Mutating
    /// are: create, rename, remove, write, set the length, sync a file or the directory;
    /// each write of a batch counts.
    pub fn crash_after(&self, n: u64) {
        let mut state = self.state.lock();
        state.crash_after = Some(state.operations.saturating_add(n));
    }

    /// The number of mutating operations that succeeded.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// True if the power is off.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    /// True if `error` is the failure of an operation without power.
    #[must_use]
    pub fn is_power_cut(error: &Error) -> bool {
        matches!(error, Error::Io { source, .. } if source.get_ref().is_some_and(|inner| inner.is::<PowerCut>()))
    }

    /// Cuts the power, if it is still on, and returns the disk after the cut: everything synced,
    /// and of the rest what `seed` selects. This disk stays dead and unchanged, so other seeds show
    /// other outcomes of the same cut.
    #[must_use]
    pub fn reboot(&self, seed: u64) -> CrashDisk {
        let mut state = self.state.lock();
        state.dead = true;
        let mut luck = Luck::new(seed);
        let mut names = state.durable_names.clone();
        for entry in &state.entries {
            if luck.survives() {
                apply(&mut names, entry);
            }
        }
        let survivors = names.values().filter_map(|inode| Some((*inode, state.files.get(inode)?)));
        let files = survivors.map(|(inode, content)| (inode, content.after_power_cut(&mut luck))).collect();
        let after =
            State { durable_names: names.clone(), names, files, next_inode: state.next_inode, ..State::default() };
        CrashDisk { state: Arc::new(Mutex::new(after)), lock: LockFlag::default() }
    }

    /// Lets a sync of file `name`, if there is one, have failed: later syncs do not write what was
    /// not synced by now.
    pub fn lose_unsynced(&self, name: &str) {
        let mut state = self.state.lock();
        let inode = state.names.get(name).copied();
        if let Some(content) = inode.and_then(|inode| state.files.get_mut(&inode)) {
            let unsynced = std::mem::take(&mut content.unsynced);
            content.lost.extend(unsynced);
        }
    }

    /// Changes the bytes `offset..offset + len` of file `name` as a failing medium may: at once,
    /// and durably until the engine writes there.
    ///
    /// # Errors
    /// If there is no such file, if it ends before, or if the power is off.
    pub fn damage(&self, name: &str, offset: u64, len: usize, change: impl FnOnce(&mut [u8])) -> Result<()> {
        check_range("read", name, offset, len)?;
        let mut state = self.state.lock();
        state.check_power("read", name)?;
        let inode = existing(&state, "open", name)?;
        let content = state.files.get_mut(&inode).ok_or_else(|| power_cut("read", name))?;
        let mut bytes = vec![0; len];
        if !content.bytes.read(offset, &mut bytes) {
            return Err(unexpected_eof(name, offset));
        }
        change(&mut bytes);
        content.bytes.write(offset, &bytes);
        Ok(())
    }

    /// Makes a change of the directory. If the power is cut during it, the outcome is undecided as
    /// for every unsynced change.
    fn change(
        &self,
        operation: &'static str,
        name: &str,
        make: impl FnOnce(&mut State) -> Result<Entry>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.check_power(operation, name)?;
        let entry = make(&mut state)?;
        let cut = state.count();
        state.enter(entry);
        if cut { Err(power_cut(operation, name)) } else { Ok(()) }
    }
}

fn existing(state: &State, operation: &'static str, name: &str) -> Result<Inode> {
    state.names.get(name).copied().ok_or_else(|| name_error(operation, name, io::ErrorKind::NotFound))
}

impl Disk for CrashDisk {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        check_name(name)?;
        let mut state = self.state.lock();
        state.check_power("open", name)?;
        let inode = match (state.names.get(name), options.create) {
            (Some(_), Create::New) => return Err(name_error("create", name, io::ErrorKind::AlreadyExists)),
            (Some(inode), _) => *inode,
            (None, Create::Never) => return Err(name_error("open", name, io::ErrorKind::NotFound)),
            (None, _) => {
                let inode = state.next_inode;
                state.next_inode += 1;
                state.files.insert(inode, Content::default());
                let cut = state.count();
                state.enter(Entry::Created(name.to_string(), inode));
                if cut {
                    return Err(power_cut("create", name));
                }
                inode
            }
        };
        let (name, disk) = (name.to_string(), self.clone());
        Ok(Arc::new(CrashFile { name, inode, disk, read_only: options.read_only }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.change("remove", name, |state| Ok(Entry::Removed(name.to_string(), existing(state, "remove", name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        self.change("rename", from, |state| Ok(Entry::Renamed(to.to_string(), existing(state, "rename", from)?)))
    }

    fn list(&self) -> Result<Vec<String>> {
        let state = self.state.lock();
        state.check_power("list", "the directory")?;
        Ok(state.names.keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let state = self.state.lock();
        state.check_power("stat", name)?;
        Ok(state.names.contains_key(name))
    }

    fn sync_dir(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.check_power("sync", "the directory")?;
        if state.count() {
            return Err(power_cut("sync", "the directory"));
        }
        state.durable_names = state.names.clone();
        state.entries.clear();
        Ok(())
    }

    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.state.lock().check_power("lock", "the directory")?;
        self.lock.take(mode, "the simulated database")
    }

    fn location(&self) -> String {
        "simulated power cuts".to_string()
    }
}

struct CrashFile {
    name: String,
    inode: Inode,
    disk: CrashDisk,
    read_only: bool,
}

impl CrashFile {
    /// Reads the file.
    fn look<T>(&self, operation: &'static str, see: impl FnOnce(&Content) -> Result<T>) -> Result<T> {
        let state = self.disk.state.lock();
        state.check_power(operation, &self.name)?;
        state.files.get(&self.inode).map_or_else(|| Err(power_cut(operation, &self.name)), see)
    }

    /// Changes the file. `reaches_medium` is true if the change may have happened when the power is
    /// cut during it.
    fn change(&self, operation: &'static str, reaches_medium: bool, change: impl FnOnce(&mut Content)) -> Result<()> {
        if self.read_only && reaches_medium {
            return Err(Error::ReadOnly("the file"));
        }
        let mut state = self.disk.state.lock();
        state.check_power(operation, &self.name)?;
        let cut = state.count();
        if let Some(content) = state.files.get_mut(&self.inode)
            && (!cut || reaches_medium)
        {
            change(content);
        }
        if cut { Err(power_cut(operation, &self.name)) } else { Ok(()) }
    }
}

impl File for CrashFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range("read", &self.name, offset, buf.len())?;
        self.look("read", |content| {
            if content.bytes.read(offset, buf) { Ok(()) } else { Err(unexpected_eof(&self.name, offset)) }
        })
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        check_range("write", &self.name, offset, buf.len())?;
        self.change("write", true, |content| content.write(offset, buf))
    }

    fn sync(&self) -> Result<()> {
        self.change("sync", false, Content::sync)
    }

    fn len(&self) -> Result<u64> {
        self.look("stat", |content| Ok(content.bytes.size()))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        check_range("set the length of", &self.name, len, 0)?;
        self.change("set the length of", true, |content| content.set_len(len))
    }

    fn writes_whole(&self, len: usize) -> bool {
        len == SECTOR
    }
}
