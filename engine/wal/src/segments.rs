//! The segment files: finding the file of an LSN, preparing the next files, reusing the old ones.
//!
//! The log is cut into files `wal.NNNNNN` with consecutive numbers. Each holds a fixed range of
//! LSNs behind a header (see [`crate::format`]). A group may cross from one file to the next. A
//! segment is *prepared* before any LSN in it is promised: the file exists at full length with its
//! blocks written (zeros) and its header in place, and file and directory are synced. So a full
//! disk is found while a segment is prepared, as an error of the statement that asks for room,
//! never by a write of what was promised. And syncing the log needs no writes of metadata.
//!
//! A segment below the checkpoint is set aside and later renamed to the next number. Its stale
//! bytes carry LSNs of their own, so they are never taken for log. The crash states between are
//! harmless: a file whose header does not fit its name is not part of the log and is reused.
//!
//! Lock order: `preparing`, then `state`. I/O happens under `preparing` only.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, Result};
use holdfast_io::{Create, Disk, File, FileKind, OpenOptions};

use crate::Poison;
use crate::config::{Geometry, Sizes};
use crate::format::{SEGMENT_HEADER, SegmentHeader};

const PREFIX: &str = "wal.";
/// Zeros are written in pieces of this size. The system keeps what one write wrote as one piece of
/// its cache, and each later write goes through all blocks of the piece it hits: with pieces of a
/// mebibyte a commit of 500 bytes costs 3.3 us instead of 0.7.
const FILL_BYTES: usize = 16 << 10;

/// The name of segment `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// The number of the segment called `name`; `None` if a segment has no such name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// One segment in use.
pub(crate) struct Segment {
    pub number: u64,
    pub start: u64,
    pub end: u64,
    pub file: Arc<dyn File>,
}

impl Segment {
    /// Another handle of the same segment.
    pub fn share(&self) -> Segment {
        Segment { number: self.number, start: self.start, end: self.end, file: self.file.clone() }
    }

    /// The offset in the file of `lsn`, which lies in the segment.
    pub fn offset_of(&self, lsn: u64) -> u64 {
        SEGMENT_HEADER + (lsn - self.start)
    }
}

/// Splits `[from, to)` at the borders of segments and calls `visit(segment, range)` for each piece.
///
/// # Errors
/// The errors of `visit`; [`Error::DamagedFile`] if an LSN lies in no segment.
pub(crate) fn for_each_piece<'a>(
    segments: impl Fn(u64) -> Option<&'a Segment>,
    from: u64,
    to: u64,
    mut visit: impl FnMut(&'a Segment, u64, u64) -> Result<()>,
) -> Result<()> {
    let mut at = from;
    while at < to {
        let segment = segments(at).ok_or_else(|| no_segment(at))?;
        let end = to.min(segment.end);
        visit(segment, at, end)?;
        at = end;
    }
    Ok(())
}

/// The error for an LSN that no segment holds.
pub(crate) fn no_segment(lsn: u64) -> Error {
    Error::damaged_file("the log", format!("no segment holds log sequence number {lsn}"))
}

/// The segment files of a log; see the module.
pub(crate) struct SegmentSet {
    disk: Arc<dyn Disk>,
    uuid: [u8; 16],
    page_size: u32,
    sizes: Arc<Sizes>,
    epoch: AtomicU32,
    prepared_end: AtomicU64,
    preparing: Mutex<()>,
    state: Mutex<State>,
    /// That of the log; none while there is no log that could be used.
    poison: OnceLock<Arc<Poison>>,
}

#[derive(Default)]
struct State {
    /// The segments in the order of their numbers, without gaps: from the oldest still needed to
    /// the last one prepared.
    live: VecDeque<Arc<Segment>>,
    /// Names of files of the right length that may be overwritten.
    free: Vec<String>,
    /// Names of files that are out of use and are to be removed.
    outdated: Vec<String>,
    /// The holds, by number: each keeps the segments from its LSN on.
    holds: BTreeMap<u64, u64>,
    next_hold: u64,
}

impl SegmentSet {
    /// Takes the segments `live` of a log, in order and without gaps, and files that may be reused
    /// or have to go.
    pub fn new(
        disk: Arc<dyn Disk>,
        uuid: [u8; 16],
        page_size: u32,
        sizes: Arc<Sizes>,
        live: Vec<Arc<Segment>>,
        start: u64,
    ) -> SegmentSet {
        let prepared_end = live.last().map_or(start, |s| s.end);
        SegmentSet {
            disk,
            uuid,
            page_size,
            sizes,
            epoch: AtomicU32::new(1),
            prepared_end: AtomicU64::new(prepared_end),
            preparing: Mutex::new(()),
            state: Mutex::new(State { live: live.into(), ..State::default() }),
            poison: OnceLock::new(),
        }
    }

    /// From now on a failed sync poisons the database.
    pub fn set_poison(&self, poison: Arc<Poison>) {
        let _ = self.poison.set(poison);
    }

    /// Sets the epoch that is recorded in segments prepared from now on.
    pub fn set_epoch(&self, epoch: u32) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// All LSNs below this one lie in prepared segments.
    #[inline]
    pub fn prepared_end(&self) -> u64 {
        self.prepared_end.load(Ordering::Acquire)
    }

    /// The segment that holds `lsn`.
    pub fn find(&self, lsn: u64) -> Option<Arc<Segment>> {
        let state = self.state.lock();
        let at = state.live.partition_point(|s| s.end <= lsn);
        state.live.get(at).filter(|s| s.start <= lsn).cloned()
    }

    /// Where the first segment ends that is in use.
    pub fn first_end(&self) -> Option<u64> {
        self.state.lock().live.front().map(|segment| segment.end)
    }

    /// Prepares segments until all LSNs below `lsn` have one.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and any other error of the disk. Nothing is lost, and the call can be
    /// repeated.
    pub fn prepare_to(&self, lsn: u64) -> Result<()> {
        if self.prepared_end() >= lsn {
            return Ok(());
        }
        let _preparing = self.preparing.lock();
        while self.prepared_end() < lsn {
            let (number, start) = self.next_place();
            let segment = Arc::new(self.prepare(number, start, self.sizes.get().segment_data)?);
            let end = segment.end;
            self.state.lock().live.push_back(segment);
            self.prepared_end.store(end, Ordering::Release);
        }
        Ok(())
    }

    /// The number and the start of the segment to prepare next. The caller holds `preparing`.
    fn next_place(&self) -> (u64, u64) {
        (self.state.lock().live.back().map_or(1, |s| s.number + 1), self.prepared_end())
    }

    /// Prepares a segment of `data_len` bytes of log. The caller holds `preparing`.
    fn prepare(&self, number: u64, start: u64, data_len: u64) -> Result<Segment> {
        let name = file_name(number);
        let file = match self.take_free(&name, data_len) {
            Some(free) => self.rename_free(&free, &name)?,
            None => self.create_file(&name, SEGMENT_HEADER + data_len)?,
        };
        let epoch = self.epoch.load(Ordering::Relaxed);
        let header = SegmentHeader { page_size: self.page_size, uuid: self.uuid, number, start, data_len, epoch };
        let sync = || file.sync().and_then(|()| self.disk.sync_dir()).inspect_err(|e| self.sync_failed(&name, e));
        if let Err(e) = file.write_at(0, &header.encode()).and_then(|()| sync()) {
            // The file is not part of the log. It keeps its length, and can be tried again.
            let is_usual = data_len == self.sizes.get().segment_data;
            let mut state = self.state.lock();
            if is_usual {
                state.free.push(name)
            } else {
                state.outdated.push(name)
            }
            return Err(e);
        }
        Ok(Segment { number, start, end: start + data_len, file })
    }

    fn sync_failed(&self, name: &str, error: &Error) {
        if let Some(poison) = self.poison.get() {
            poison.set(format!("{name} could not be synced: {error}"));
        }
    }

    /// Takes a file that may be overwritten, first the one that has the right name already:
    /// renaming another file over it would leave its entry pointing at a segment in use. `None` if
    /// a file called `name` has to be made, or has to be given another length.
    fn take_free(&self, name: &str, data_len: u64) -> Option<String> {
        let is_usual = data_len == self.sizes.get().segment_data;
        let mut state = self.state.lock();
        state.outdated.retain(|outdated| outdated != name);
        match state.free.iter().position(|f| f == name) {
            Some(at) => Some(state.free.swap_remove(at)).filter(|_| is_usual),
            None if is_usual => state.free.pop(),
            None => None,
        }
    }

    fn rename_free(&self, free: &str, name: &str) -> Result<Arc<dyn File>> {
        let renamed = if free == name { Ok(()) } else { self.disk.rename(free, name) };
        if let Err(e) = renamed {
            self.state.lock().free.push(free.to_string());
            return Err(e);
        }
        self.disk.open(name, OpenOptions::new(FileKind::Log)).inspect_err(|_| {
            self.state.lock().free.push(name.to_string());
        })
    }

    fn create_file(&self, name: &str, len: u64) -> Result<Arc<dyn File>> {
        let file = self.disk.open(name, OpenOptions::new(FileKind::Log).create(Create::IfMissing))?;
        fill(file.as_ref(), len).inspect_err(|_| {
            // Frees the room of the partial file. If even that fails, the next open finds and
            // removes the file.
            let _ = self.disk.remove(name);
        })?;
        Ok(file)
    }

    /// Sets aside the segments that lie wholly below `lsn` and that no hold keeps. Those beyond the
    /// capacity are removed.
    ///
    /// # Errors
    /// Any error of the disk while removing. The segments are out of use all the same, and are
    /// removed by a later call, or by the next open.
    pub fn recycle_below(&self, lsn: u64) -> Result<()> {
        let is_tidy = {
            let mut state = self.state.lock();
            let geometry = self.sizes.get();
            let lsn = state.holds.values().copied().fold(lsn, u64::min);
            // The last segment stays: the log goes on in it.
            while state.live.len() > 1 && state.live.front().is_some_and(|s| s.end <= lsn) {
                let Some(segment) = state.live.pop_front() else { break };
                let reusable = segment.end - segment.start == geometry.segment_data;
                let files = (state.live.len() + state.free.len()) as u64;
                if reusable && files < geometry.segments {
                    state.free.push(file_name(segment.number));
                } else {
                    state.outdated.push(file_name(segment.number));
                }
            }
            state.outdated.is_empty()
        };
        if is_tidy { Ok(()) } else { self.remove_unused() }
    }

    /// Removes the files that are out of use.
    ///
    /// # Errors
    /// Any error of the disk. What stays is removed by a later call, or by the next open.
    pub fn remove_unused(&self) -> Result<()> {
        let _preparing = self.preparing.lock();
        self.remove_outdated()
    }

    /// The caller holds `preparing`: meanwhile no file of these names comes into use.
    fn remove_outdated(&self) -> Result<()> {
        let mut outdated = std::mem::take(&mut self.state.lock().outdated);
        let mut removed = Ok(());
        outdated.retain(|name| {
            let result = self.disk.remove(name);
            let stays = result.is_err();
            removed = std::mem::replace(&mut removed, Ok(())).and(result);
            stays
        });
        self.state.lock().outdated.append(&mut outdated);
        removed
    }

    /// Takes over files that belong to no segment in use. Those of the right length are reused, the
    /// others removed.
    ///
    /// # Errors
    /// The errors of [`SegmentSet::recycle_below`].
    pub fn adopt(&self, names: Vec<String>) -> Result<()> {
        let _preparing = self.preparing.lock();
        for name in names {
            let len = self.disk.open(&name, OpenOptions::new(FileKind::Log)).and_then(|file| file.len());
            let mut state = self.state.lock();
            let geometry = self.sizes.get();
            let right = len.is_ok_and(|len| len == SEGMENT_HEADER + geometry.segment_data);
            if right && ((state.live.len() + state.free.len()) as u64) < geometry.segments {
                state.free.push(name);
            } else {
                state.outdated.push(name);
            }
        }
        self.remove_outdated()
    }

    /// Prepares segments of another size from now on, and keeps another number of them. Those in
    /// use stay until the checkpoint has passed them; what was set aside is
    /// [unused](SegmentSet::remove_unused).
    ///
    /// What is kept for rollback and the checkpoint is measured in segments. So larger ones are
    /// there up to `needed()`, an LSN, before their size counts.
    ///
    /// # Errors
    /// The errors of [`SegmentSet::prepare_to`]; then nothing has changed.
    pub fn resize(&self, geometry: &Geometry, needed: impl Fn() -> u64) -> Result<()> {
        let _preparing = self.preparing.lock();
        let mut larger = Vec::new();
        if geometry.segment_data > self.sizes.get().segment_data
            && let Err(e) = self.prepare_larger(geometry.segment_data, needed, &mut larger)
        {
            let names = larger.iter().map(|segment: &Arc<Segment>| file_name(segment.number));
            self.state.lock().outdated.extend(names);
            // The room is given back. A file that stays is removed later.
            let _ = self.remove_outdated();
            return Err(e);
        }
        let mut state = self.state.lock();
        // Under the lock: after this, no thread sets a file of the old size aside.
        self.sizes.set(geometry);
        let mut free = std::mem::take(&mut state.free);
        state.outdated.append(&mut free);
        let end = larger.last().map_or(self.prepared_end(), |last| last.end);
        state.live.extend(larger);
        self.prepared_end.store(end, Ordering::Release);
        Ok(())
    }

    /// Prepares segments of `data_len` bytes of log behind those that there are, up to `needed()`.
    /// They are not in use yet. The caller holds `preparing`.
    fn prepare_larger(&self, data_len: u64, needed: impl Fn() -> u64, larger: &mut Vec<Arc<Segment>>) -> Result<()> {
        let (mut number, mut start) = self.next_place();
        // Asked for again each time: the log grows meanwhile.
        while start < needed() {
            let segment = self.prepare(number, start, data_len)?;
            (number, start) = (number + 1, segment.end);
            larger.push(Arc::new(segment));
        }
        Ok(())
    }

    /// Makes all segments in use durable.
    ///
    /// # Errors
    /// Any error of the disk. It is then unknown what is durable.
    pub fn sync_all(&self) -> Result<()> {
        let live: Vec<_> = self.state.lock().live.iter().cloned().collect();
        live.iter().try_for_each(|s| s.file.sync())
    }

    /// Keeps the segments from `lsn` on and returns the number of the hold. `None` if a segment
    /// that it needs is gone.
    pub fn hold(&self, lsn: u64) -> Option<u64> {
        let mut state = self.state.lock();
        if state.live.front().is_none_or(|s| s.start > lsn) {
            return None;
        }
        let number = state.next_hold;
        state.next_hold += 1;
        state.holds.insert(number, lsn);
        Some(number)
    }

    /// Moves a hold forward, or ends it (`None`). The next checkpoint sets the segments aside.
    pub fn move_hold(&self, number: u64, lsn: Option<u64>) {
        let mut state = self.state.lock();
        match lsn {
            Some(lsn) => drop(state.holds.insert(number, lsn)),
            None => drop(state.holds.remove(&number)),
        }
    }
}

/// Gives `file` exactly `len` bytes, all of them written: blocks that are only allocated may turn
/// out not to be there.
fn fill(file: &dyn File, len: u64) -> Result<()> {
    file.set_len(len)?;
    let zeros = vec![0; FILL_BYTES.min(len as usize)];
    let mut at = 0;
    while at < len {
        let n = (len - at).min(zeros.len() as u64);
        file.write_at(at, &zeros[..n as usize])?;
        at += n;
    }
    Ok(())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use holdfast_io::MemoryDisk;

    use super::*;
    use crate::WalConfig;

    fn set() -> (Arc<MemoryDisk>, SegmentSet) {
        let disk = Arc::new(MemoryDisk::new());
        let config = WalConfig { capacity_bytes: 4 << 20, ..WalConfig::default() };
        let sizes = Arc::new(Sizes::new(Geometry::new(&config).unwrap()));
        let set = SegmentSet::new(disk.clone(), [1; 16], 4096, sizes, vec![], 4096);
        (disk, set)
    }

    #[test]
    fn names_round_trip() {
        for number in [1, 999_999, 1_000_000, u64::MAX] {
            assert_eq!(number_of(&file_name(number)), Some(number));
        }
        for other in ["wal.", "wal.1", "wal.+00001", "checkpoint", "wal.00000a"] {
            assert_eq!(number_of(other), None, "{other}");
        }
    }

    #[test]
    fn old_segments_are_renamed_to_new_ones() {
        let (disk, set) = set();
        let data = set.sizes.get().segment_data;
        set.prepare_to(4096 + 3 * data).unwrap();
        assert_eq!(disk.list().unwrap(), ["wal.000001", "wal.000002", "wal.000003"]);
        set.recycle_below(4096 + 2 * data).unwrap();
        set.prepare_to(4096 + 5 * data).unwrap();
        assert_eq!(disk.list().unwrap(), ["wal.000003", "wal.000004", "wal.000005"]);
        assert!(set.find(4096 + 2 * data - 1).is_none());
        let found = set.find(4096 + 3 * data).unwrap();
        assert_eq!((found.number, found.start), (4, 4096 + 3 * data));
    }

    #[test]
    fn segments_of_another_size_follow() {
        let (disk, set) = set();
        let old = set.sizes.get().segment_data;
        set.prepare_to(4096 + 3 * old).unwrap();
        set.recycle_below(4096 + old).unwrap();
        let larger = Geometry::new(&WalConfig { capacity_bytes: 8 << 20, ..WalConfig::default() }).unwrap();
        set.resize(&larger, || 4096 + 3 * old).unwrap();
        set.remove_unused().unwrap();
        assert_eq!(disk.list().unwrap(), ["wal.000002", "wal.000003"], "what was set aside has the wrong length");
        set.prepare_to(4096 + 3 * old + larger.segment_data).unwrap();
        let last = set.find(4096 + 3 * old).unwrap();
        assert_eq!(last.end - last.start, larger.segment_data);
        set.recycle_below(4096 + 3 * old).unwrap();
        assert_eq!(disk.list().unwrap(), ["wal.000004"], "the old ones are not used again");
    }

    #[test]
    fn a_hold_keeps_segments() {
        let (_, set) = set();
        let data = set.sizes.get().segment_data;
        set.prepare_to(4096 + 4 * data).unwrap();
        let hold = set.hold(5000).unwrap();
        set.recycle_below(4096 + 3 * data).unwrap();
        assert!(set.find(5000).is_some());
        set.move_hold(hold, Some(4096 + data));
        set.recycle_below(4096 + 3 * data).unwrap();
        assert!(set.find(5000).is_none() && set.find(4096 + data).is_some());
        assert!(set.hold(5000).is_none(), "that is gone");
        set.move_hold(hold, None);
        set.recycle_below(4096 + 3 * data).unwrap();
        assert!(set.find(4096 + data).is_none());
    }

    #[test]
    fn a_leftover_with_the_next_name_is_used_itself() {
        let (disk, set) = set();
        let data = set.sizes.get().segment_data;
        set.prepare_to(4096 + data).unwrap();
        for name in ["wal.000002", "wal.000009"] {
            let file = disk.open(name, OpenOptions::new(FileKind::Log).create(Create::New)).unwrap();
            file.set_len(SEGMENT_HEADER + data).unwrap();
        }
        let odd = disk.open("wal.000030", OpenOptions::new(FileKind::Log).create(Create::New)).unwrap();
        odd.set_len(5).unwrap();
        set.adopt(vec!["wal.000002".into(), "wal.000009".into(), "wal.000030".into()]).unwrap();
        set.prepare_to(4096 + 3 * data).unwrap();
        assert_eq!(disk.list().unwrap(), ["wal.000001", "wal.000002", "wal.000003"]);
        for number in 1..=3 {
            let found = set.find(4096 + (number - 1) * data).unwrap();
            assert_eq!(found.number, number);
            let mut bytes = vec![0; SEGMENT_HEADER as usize];
            found.file.read_at(0, &mut bytes).unwrap();
            assert_eq!(SegmentHeader::decode(&bytes).unwrap().unwrap().number, number);
        }
    }
}
