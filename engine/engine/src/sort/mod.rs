//! Sorts the entries of an index that is being filled, more than fit into memory: the external
//! merge sort of Knuth, The Art of Computer Programming 3, 5.4.
//!
//! 1. [`Sorter::push`] collects entries in memory. The caller compares [`Sorter::cost`] with its
//!    share of the [`Memory`] for that.
//! 2. [`Sorter::spill`] sorts them and appends them to a file, as a *run* of level 0.
//! 3. If a level has [`LEVEL_RUNS`] runs, a spill merges them into one of the next level, in the
//!    file of that level: a run is written again only together with others as large.
//! 4. [`Sorter::drain`] merges the runs of all levels and gives out all entries in ascending order.
//!    What never spilled never leaves memory.
//!
//! A file has no name: it is removed from the directory as soon as it is open, so that a crash
//! leaves none of its bytes. It is never synced.
//!
//! Memory: what the caller lets collect; for a merge a block of each run, so [`RUNS_MAX`] times
//! [`run::BLOCK_BYTES`] and the longest keys. Time and bytes moved are in proportion to the
//! entries, times the logarithm, to the base of [`LEVEL_RUNS`], of the number of runs. While runs
//! are merged the session is asked, every [`LOOK_EVERY`] entries, whether it goes on.

mod collected;
mod memory;
mod merge;
mod run;

use std::io;
use std::sync::Arc;

use holdfast_io::{Create, Disk, File, FileKind, OpenOptions};
use holdfast_txn::NewValue;

use self::collected::Collected;
pub(crate) use self::collected::{Before, Sink};
pub(crate) use self::memory::{Memory, Share};
use self::merge::Merge;
use self::run::{Run, RunWriter};
use crate::{Error, Result};

/// Runs that are merged at once.
const RUNS_MAX: usize = if cfg!(sim) { 4 } else { 384 };
/// Runs of one level, so that those of two levels are merged at once.
const LEVEL_RUNS: usize = RUNS_MAX / 2;
/// Entries of a merge between questions whether the session goes on.
const LOOK_EVERY: u64 = 1024;

/// Says whether the session goes on: an error ends the sort.
pub(crate) type GoOn<'g> = dyn Fn() -> Result<()> + 'g;

/// Runs that were merged as often as each other, in a file of their own.
#[derive(Default)]
struct Level {
    /// `None` as long as there is no run.
    file: Option<Arc<dyn File>>,
    /// How much of the file is written.
    end: u64,
    runs: Vec<Run>,
}

impl Level {
    fn runs(&self) -> impl Iterator<Item = (&dyn File, &Run)> {
        let file = self.file.as_deref();
        self.runs.iter().filter_map(move |run| Some((file?, run)))
    }

    /// Appends a run of what `fill` gives, in ascending order.
    fn append(&mut self, disk: &dyn Disk, fill: impl FnOnce(&mut Sink<'_>) -> Result<()>) -> Result<()> {
        if self.file.is_none() {
            self.file = Some(scratch(disk)?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let mut writer = RunWriter::new(file, &mut self.end);
        fill(&mut |key, prefix, value| writer.push(key, prefix, value))?;
        self.runs.push(writer.finish()?);
        Ok(())
    }
}

/// See the module's description.
pub(crate) struct Sorter {
    disk: Arc<dyn Disk>,
    collected: Collected,
    /// The newest entries are in the runs of level 0.
    levels: Vec<Level>,
    /// The key and the value of the entry that was there already.
    duplicate: Option<(Vec<u8>, Vec<u8>)>,
}

impl Sorter {
    /// Nothing is on `disk` before the first spill.
    pub(crate) fn new(disk: &Arc<dyn Disk>) -> Sorter {
        let disk = Arc::clone(disk);
        Sorter { disk, collected: Collected::default(), levels: Vec::new(), duplicate: None }
    }

    /// Takes an entry. The first `prefix` bytes of its key have to be unique, or all of it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key or a value of 4 GB.
    pub(crate) fn push(&mut self, key: &[u8], prefix: usize, value: NewValue<'_>) -> Result<()> {
        self.collected.push(key, prefix, value)
    }

    /// Bytes of memory that the entries take.
    pub(crate) fn cost(&self) -> usize {
        self.collected.cost()
    }

    /// Entries in memory.
    pub(crate) fn collected(&self) -> usize {
        self.collected.len()
    }

    /// True if there is no entry, neither in memory nor on the disk.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs() == 0 && self.collected.len() == 0
    }

    fn runs(&self) -> usize {
        self.levels.iter().map(|level| level.runs.len()).sum()
    }

    /// Moves what is in memory to the disk, sorted.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if two entries are the same in what has to be unique, as far as they
    /// are compared; [`Error::DiskFull`], [`Error::Io`]; the errors of `go_on`.
    pub(crate) fn spill(&mut self, go_on: &GoOn<'_>) -> Result<()> {
        if self.collected.len() == 0 {
            return Ok(());
        }
        self.sort()?;
        let full = self.levels.iter().take_while(|level| level.runs.len() >= LEVEL_RUNS).count();
        (0..full).rev().try_for_each(|level| self.merge_level(level, go_on))?;
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        self.levels[0].append(&*self.disk, |sink| self.collected.for_each(sink))?;
        self.collected = Collected::default();
        Ok(())
    }

    /// Gives all entries to `each`, in ascending order, and forgets them.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if two entries are the same in what has to be unique;
    /// [`Error::DamagedFile`] if the disk does not give back what was written; [`Error::DiskFull`],
    /// [`Error::Io`]; the errors of `go_on` and of `each`.
    pub(crate) fn drain(&mut self, go_on: &GoOn<'_>, each: &mut Sink<'_>) -> Result<()> {
        if self.runs() == 0 {
            self.sort()?;
            self.collected.for_each(each)?;
            self.collected = Collected::default();
            return Ok(());
        }
        self.spill(go_on)?;
        for level in 0.. {
            if self.runs() <= RUNS_MAX {
                break;
            }
            self.merge_level(level, go_on)?;
        }
        let levels = std::mem::take(&mut self.levels);
        let mut merge = Merge::new(levels.iter().rev().flat_map(Level::runs))?;
        let result = merge.run(each);
        self.duplicate = merge.into_duplicate();
        result
    }

    /// The key and the value of the entry that came second, after [`Error::DuplicateKey`].
    pub(crate) fn take_duplicate(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.duplicate.take()
    }

    /// Says which entry `each` of [`Sorter::drain`] has refused, if it has.
    pub(crate) fn note_duplicate(&mut self, refused: Option<(Vec<u8>, Vec<u8>)>) {
        self.duplicate = self.duplicate.take().or(refused);
    }

    fn sort(&mut self) -> Result<()> {
        self.collected.sort();
        self.duplicate = self.collected.duplicate();
        if self.duplicate.is_some() { Err(Error::DuplicateKey) } else { Ok(()) }
    }

    /// Merges the runs of a level into one of the next level.
    fn merge_level(&mut self, level: usize, go_on: &GoOn<'_>) -> Result<()> {
        if self.levels.len() == level + 1 {
            self.levels.push(Level::default());
        }
        let (below, above) = self.levels.split_at_mut(level + 1);
        let mut merge = Merge::new(below[level].runs())?;
        let mut merged = 0u64;
        let result = above[0].append(&*self.disk, |sink| {
            merge.run(&mut |key, prefix, value| {
                merged += 1;
                if merged.is_multiple_of(LOOK_EVERY) {
                    go_on()?;
                }
                sink(key, prefix, value)
            })
        });
        self.duplicate = merge.into_duplicate();
        result?;
        below[level] = Level::default();
        Ok(())
    }
}

/// An empty file without a name. Another program's file is never touched.
fn scratch(disk: &dyn Disk) -> Result<Arc<dyn File>> {
    let options = OpenOptions::new(FileKind::Scratch).create(Create::New);
    for n in 0u32.. {
        let name = format!("sort.{n:06}");
        match disk.open(&name, options) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                disk.remove(&name)?;
                return Ok(file);
            }
        }
    }
    Err(Error::invalid("every name of a file to sort in is taken"))
}

#[cfg(test)]
mod tests {
    use holdfast_io::{MemoryDisk, MeteredDisk};
    use holdfast_metrics::{Counter, Metrics};
    use holdfast_testkit::{Fault, FaultDisk, FaultOp, SplitMix64};

    use super::*;

    type Entry = (Vec<u8>, usize, Vec<u8>, usize);

    fn entries(n: u64, seed: u64) -> Vec<Entry> {
        let mut rng = SplitMix64::new(seed);
        let entry = |no: u64| {
            let len = if rng.below(50) == 0 { 20_000 } else { rng.below(40) } as usize;
            let mut key = rng.next_u64().to_be_bytes()[..1 + rng.below(7) as usize].to_vec();
            key.extend_from_slice(&no.to_be_bytes());
            (key.clone(), key.len(), vec![no as u8; len], rng.below(10) as usize)
        };
        (0..n).map(entry).collect()
    }

    fn push(sorter: &mut Sorter, (key, prefix, value, head): &Entry) {
        sorter.push(key, *prefix, NewValue::with_head(value, *head)).unwrap();
    }

    fn drained(sorter: &mut Sorter) -> Result<Vec<Entry>> {
        let mut out = Vec::new();
        sorter.drain(&|| Ok(()), &mut |key, prefix, value| {
            out.push((key.to_vec(), prefix, value.bytes().to_vec(), value.head()));
            Ok(())
        })?;
        Ok(out)
    }

    #[test]
    fn entries_come_out_in_order_however_often_they_spill() {
        // More runs than are merged at once, too.
        for (n, spill_after) in
            [(0, 1), (1, 1), (500, 1_000), (3_000, 100), (RUNS_MAX as u64 * 5 / 2, 1), (RUNS_MAX as u64 * 20, 1)]
        {
            let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
            let mut sorter = Sorter::new(&disk);
            let mut expected = entries(n, n);
            for entry in &expected {
                push(&mut sorter, entry);
                if sorter.collected() == spill_after {
                    sorter.spill(&|| Ok(())).unwrap();
                }
            }
            assert_eq!(disk.list().unwrap(), Vec::<String>::new(), "{n}");
            for entry in &mut expected {
                entry.3 = entry.3.min(entry.2.len());
            }
            expected.sort();
            assert!(drained(&mut sorter).unwrap() == expected, "{n} entries");
            assert_eq!(drained(&mut sorter).unwrap(), Vec::new());
        }
    }

    #[test]
    fn an_entry_that_is_there_is_found_in_memory_in_runs_and_among_them() {
        for spill_after in [usize::MAX, 60, 7, 1] {
            let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
            let mut sorter = Sorter::new(&disk);
            let push_all = |sorter: &mut Sorter| {
                for (n, k) in (0..100u8).chain([40]).enumerate() {
                    sorter.push(&[k, n as u8], 1, NewValue::from(&[n as u8][..]))?;
                    if sorter.collected() == spill_after {
                        sorter.spill(&|| Ok(()))?;
                    }
                }
                drained(sorter).map(drop)
            };
            let result = push_all(&mut sorter);
            assert!(matches!(result, Err(Error::DuplicateKey)), "{result:?}");
            assert_eq!(sorter.take_duplicate(), Some((vec![40, 100], vec![100])), "{spill_after}");
        }
    }

    /// What has to be unique of an entry was the beginning of a longer one, and was taken for the
    /// same.
    #[test]
    fn what_has_to_be_unique_may_begin_what_has_to_be_unique_of_another() {
        let (short, long, shorter) = ((vec![7u8, 8], 1), (vec![7, 5, 9, 1], 3), (vec![7, 2], 1));
        for (entries, second) in
            [(vec![short.clone(), long.clone()], None), (vec![short, long, shorter], Some(vec![7, 8]))]
        {
            for spill_after in [usize::MAX, 1] {
                let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
                let mut sorter = Sorter::new(&disk);
                for (key, prefix) in &entries {
                    sorter.push(key, *prefix, NewValue::from(b"")).unwrap();
                    if sorter.collected() == spill_after {
                        sorter.spill(&|| Ok(())).unwrap();
                    }
                }
                let result = drained(&mut sorter);
                assert_eq!(matches!(result, Err(Error::DuplicateKey)), second.is_some(), "{result:?}");
                assert_eq!(sorter.take_duplicate().map(|(key, _)| key), second);
            }
        }
    }

    #[test]
    fn of_two_with_the_same_key_the_one_that_came_second_is_named() {
        for spill_after in [usize::MAX, 60, 1] {
            let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
            let mut sorter = Sorter::new(&disk);
            let push_all = |sorter: &mut Sorter| {
                // Enough for the sort to move entries that are the same.
                for (n, k) in (0..100u8).chain([40]).enumerate() {
                    sorter.push(&[k.reverse_bits()], 1, NewValue::from(&[n as u8][..]))?;
                    if sorter.collected() == spill_after {
                        sorter.spill(&|| Ok(()))?;
                    }
                }
                drained(sorter).map(drop)
            };
            assert!(matches!(push_all(&mut sorter), Err(Error::DuplicateKey)));
            assert_eq!(sorter.take_duplicate(), Some((vec![40u8.reverse_bits()], vec![100])), "{spill_after}");
        }
    }

    #[test]
    fn an_entry_is_written_once_for_each_level() {
        let metrics = Metrics::new();
        let disk: Arc<dyn Disk> = Arc::new(MeteredDisk::new(Arc::new(MemoryDisk::new()), Arc::clone(&metrics)));
        let mut sorter = Sorter::new(&disk);
        let runs = RUNS_MAX as u64 * 20;
        for n in 0..runs {
            sorter.push(&(n * 7 % 7_919).to_be_bytes(), 8, NewValue::from(&[1; 20][..])).unwrap();
            sorter.spill(&|| Ok(())).unwrap();
        }
        let written = metrics.snapshot().get(Counter::DataWritten);
        assert!(written <= 3 * runs * 44, "{written} bytes for {runs} entries");
        assert_eq!(drained(&mut sorter).unwrap().len() as u64, runs);
    }

    #[test]
    fn a_session_that_gives_up_ends_a_merge_of_runs() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let mut sorter = Sorter::new(&disk);
        let asked = std::cell::Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            Err(Error::Interrupted)
        };
        let run = LOOK_EVERY / LEVEL_RUNS as u64 + 1;
        let spilled = (0..=LEVEL_RUNS as u64).try_for_each(|no| {
            for n in 0..run {
                sorter.push(&(n * 1_000 + no).to_be_bytes(), 8, NewValue::from(&[1][..]))?;
            }
            sorter.spill(&go_on)
        });
        assert!(matches!(spilled, Err(Error::Interrupted)), "{spilled:?}");
        assert_eq!(asked.get(), 1);
        assert_eq!(disk.list().unwrap(), Vec::<String>::new());
        // What was there is there still.
        assert_eq!(drained(&mut sorter).unwrap().len() as u64, run * (LEVEL_RUNS as u64 + 1));
    }

    #[test]
    fn a_file_that_is_there_stays() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let theirs = disk.open("sort.000000", OpenOptions::new(FileKind::Meta).create(Create::New)).unwrap();
        theirs.write_at(0, b"theirs").unwrap();
        let mut sorter = Sorter::new(&disk);
        push(&mut sorter, &(vec![1], 1, vec![2], 0));
        sorter.spill(&|| Ok(())).unwrap();
        assert_eq!(disk.list().unwrap(), ["sort.000000"]);
        assert_eq!(theirs.len().unwrap(), 6);
    }

    #[test]
    fn a_read_that_fails_ends_the_merge() {
        // Three runs of three blocks, of which the last is shorter.
        for nth in 1..=9 {
            let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
            let mut sorter = Sorter::new(&(Arc::new(disk.clone()) as Arc<dyn Disk>));
            for n in 0..8_000u64 {
                push(&mut sorter, &((n * 7 % 8_009).to_be_bytes().to_vec(), 8, vec![1; 100], 0));
                if n % 2_667 == 2_666 {
                    sorter.spill(&|| Ok(())).unwrap();
                }
            }
            disk.schedule(Fault::nth(FaultOp::Read, nth));
            let error = drained(&mut sorter).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{error}");
        }
    }

    #[test]
    fn bytes_that_the_disk_lost_are_damage() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        for large in [10, 20_000] {
            let mut sorter = Sorter::new(&disk);
            push(&mut sorter, &(vec![1], 1, vec![2; large], 0));
            sorter.spill(&|| Ok(())).unwrap();
            let Level { file: Some(file), end, .. } = &sorter.levels[0] else { panic!("there is a run") };
            for at in [0, end / 2, end - 1] {
                let mut byte = [0];
                file.read_at(at, &mut byte).unwrap();
                file.write_at(at, &[!byte[0]]).unwrap();
            }
            let error = drained(&mut sorter).unwrap_err();
            assert!(matches!(error, Error::DamagedFile { .. }), "{error}");
        }
    }
}
