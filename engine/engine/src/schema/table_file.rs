//! The file of a table, and its writers: what stays when the table's definition changes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_base::limits::PAGE_SIZE_MAX;
use holdfast_base::{PageId, PageNo, SpaceId, page};
use holdfast_io::{AlignedBuf, Disk, File, FileKind, OpenOptions};
use holdfast_metrics::{Spread, thread_group};
use holdfast_pool::AccessKind;
use holdfast_tree::space::{MAY_GO, SpaceHeader};
use holdfast_tree::{Lifetime, SpaceFile, Store};
use holdfast_txn::Wait;

use crate::{Error, Result};

/// The space in a file's name, or `None` if it is no table's.
pub(crate) fn space_of(file: &str) -> Option<SpaceId> {
    let id = file.strip_prefix('t')?.strip_suffix(".hf")?.parse().ok().map(SpaceId)?;
    (id.file_name() == file).then_some(id)
}

/// True if the file may be removed if the catalog does not know it: so it is from its creation
/// until the catalog has it, and again from just before the catalog forgets it. A table that damage
/// has taken out of the catalog does not lose its rows as well.
///
/// # Errors
/// The errors of reading its header.
pub(crate) fn may_go(space: &SpaceFile) -> Result<bool> {
    Ok(space.mark(MAY_GO, &space.store().pool().access(AccessKind::Point))? != 0)
}

/// Says whether the file may be removed if the catalog does not know it. Durable before what is
/// logged later.
///
/// # Errors
/// The errors of the log and of reading its header.
pub(crate) fn set_may_go(space: &SpaceFile, may: bool) -> Result<()> {
    space.set_mark(MAY_GO, u64::from(may), &space.store().pool().access(AccessKind::Point)).map(drop)
}

/// True if the file in the place of space `id` of database `uuid` says, soundly, that it is another
/// one: a copy went wrong.
pub(crate) fn is_of_another(disk: &dyn Disk, id: SpaceId, uuid: [u8; 16]) -> Result<bool> {
    let name = id.file_name();
    if !disk.exists(&name)? {
        return Ok(false);
    }
    let file = disk.open(&name, OpenOptions::new(FileKind::Data).read_only(true))?;
    let mut first = AlignedBuf::zeroed(PAGE_SIZE_MAX.min(usize::try_from(file.len()?).unwrap_or(PAGE_SIZE_MAX)));
    file.read_at(0, &mut first)?;
    let Some(header) = SpaceHeader::decode(&first) else { return Ok(false) };
    let is_sound = |first: &[u8]| page::check(first, PageId::new(header.id, PageNo(0))).is_ok();
    let is_other = header.uuid != uuid || header.id != id;
    Ok(is_other && first.get(..header.page_size as usize).is_some_and(is_sound))
}

/// How many write transactions of one group of threads use a table, and whether more may come.
#[derive(Default)]
struct Writers {
    count: usize,
    /// How many have come so far.
    entered: u64,
    closed: bool,
    /// It stays closed: the table has been dropped.
    gone: bool,
}

impl Writers {
    /// Lets one in, unless the gate is closed; whether it did.
    fn enter(&mut self) -> bool {
        self.count += usize::from(!self.closed);
        self.entered += u64::from(!self.closed);
        !self.closed
    }
}

/// One group's way through the gate.
#[derive(Default)]
struct Wing {
    writers: Mutex<Writers>,
    changed: Condvar,
}

/// Counts the write transactions that use a table, so that it can be dropped when there are none.
/// Each group of threads has a wing of its own: transactions come through here one by one, and many
/// of them use one table.
///
/// One change of definitions at a time holds the gate closed ([`Closed`]); another one waits for
/// its turn, as does a writer that no layer above keeps away meanwhile. These waits are without any
/// other lock: a change takes the lock of the catalog after the gate.
#[derive(Default)]
pub(crate) struct WriterGate {
    wings: Spread<Wing>,
    /// Whether a change of definitions holds the gate, and where others wait.
    held: Mutex<bool>,
    given_back: Condvar,
    /// Those that put pages into the file to which nothing leads before they are done.
    builders: Mutex<Writers>,
    /// Loads of the table.
    fillings: Mutex<Writers>,
}

impl WriterGate {
    /// If the caller may write to the table, until it calls [`WriterGate::leave`] with the number
    /// that this returns.
    pub(crate) fn enter(&self) -> Option<usize> {
        let group = thread_group();
        self.wings.of(group).writers.lock().enter().then_some(group)
    }

    /// As [`WriterGate::enter`], but waits while a change of definitions holds the gate closed:
    /// `None` if the table is gone then.
    ///
    /// # Errors
    /// The errors of [`Wait::at`].
    pub(crate) fn enter_waiting(&self, wait: &Wait<'_>) -> Result<Option<usize>> {
        let group = thread_group();
        let wing = self.wings.of(group);
        let mut writers = wing.writers.lock();
        wait.at(&wing.changed, &mut writers, |writers| writers.closed && !writers.gone)?;
        Ok(writers.enter().then_some(group))
    }

    pub(crate) fn leave(&self, group: usize) {
        let wing = self.wings.of(group);
        wing.writers.lock().count -= 1;
        wing.changed.notify_all();
    }

    /// If no writer is inside and nothing is built, how many have come so far: the same answer
    /// twice means that there was none in between (a writer that entered one wing while others were
    /// read is inside, or counted, the second time).
    pub(crate) fn quiet(&self) -> Option<u64> {
        let builders = self.builders.lock();
        let is_idle = builders.count == 0 || holdfast_base::planted!("pages-of-a-load-count-as-lost");
        let begun = is_idle.then_some(builders.entered)?;
        drop(builders);
        self.wings.all().try_fold(begun, |entered, wing| {
            let writers = wing.writers.lock();
            (writers.count == 0).then_some(entered + writers.entered)
        })
    }

    /// If no load fills the table, how many have come so far: the same answer twice means that
    /// there was none in between.
    pub(crate) fn unfilled(&self) -> Option<u64> {
        let fillings = self.fillings.lock();
        (fillings.count == 0).then_some(fillings.entered)
    }

    /// Takes the gate and admits no further writer.
    fn shut(&self, wait: &Wait<'_>) -> Result<()> {
        let mut held = self.held.lock();
        wait.at(&self.given_back, &mut held, |held| *held)?;
        *held = true;
        self.wings.all().for_each(|wing| wing.writers.lock().closed = true);
        Ok(())
    }

    /// Admits no further writer and waits until all have left. After an error everything is as
    /// before.
    fn close(&self, wait: &Wait<'_>) -> Result<()> {
        self.shut(wait)?;
        if holdfast_base::planted!("gate-not-waited-for") {
            return Ok(());
        }
        let mut wings = self.wings.all();
        let left = wings.try_for_each(|wing| wait.at(&wing.changed, &mut wing.writers.lock(), |w| w.count > 0));
        left.inspect_err(|_| self.reopen())
    }

    /// Has the threads that wait here ask their observers whether they give up.
    pub(crate) fn wake(&self) {
        // A thread that has asked already sleeps by the time that it lets the mutex go.
        drop(self.held.lock());
        self.given_back.notify_all();
        for wing in self.wings.all() {
            drop(wing.writers.lock());
            wing.changed.notify_all();
        }
    }

    fn reopen(&self) {
        self.change(|writers| writers.closed = false);
        self.give_back();
    }

    /// The table has been dropped: the gate stays closed, and no writer waits at it.
    fn abolish(&self) {
        self.change(|writers| writers.gone = true);
        self.give_back();
    }

    fn change(&self, change: impl Fn(&mut Writers)) {
        for wing in self.wings.all() {
            change(&mut wing.writers.lock());
            wing.changed.notify_all();
        }
    }

    fn give_back(&self) {
        *self.held.lock() = false;
        self.given_back.notify_one();
    }
}

/// The gate of a table, held closed. When this is dropped the gate opens, unless the table has
/// been.
pub(crate) struct Closed(Arc<TableFile>);

impl Closed {
    /// True if `table` is what it keeps writers away from.
    pub(crate) fn is_of(&self, table: &Arc<TableFile>) -> bool {
        Arc::ptr_eq(&self.0, table)
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let gate = &self.0.gate;
        if self.0.is_dropped() { gate.abolish() } else { gate.reopen() }
    }
}

/// Which of the visitors of a file that are no writers are counted.
type Visitors = fn(&WriterGate) -> &Mutex<Writers>;

/// A use of a table's file that is counted and does not hold the gate: the definition may change
/// meanwhile.
pub(crate) struct Visit {
    file: Arc<TableFile>,
    of: Visitors,
}

impl Visit {
    fn begin(file: &Arc<TableFile>, of: Visitors) -> Visit {
        let mut visitors = of(&file.gate).lock();
        visitors.count += 1;
        visitors.entered += 1;
        Visit { file: Arc::clone(file), of }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        (self.of)(&self.file.gate).lock().count -= 1;
    }
}

/// Has the file itself say that it may go, before its other pages leave the pool unwritten: from
/// then on the log's record of that does not keep the checkpoint any more. Durable when this
/// returns. The header goes the way of every page, so that no older write of it, which is still
/// under way, comes behind it.
///
/// # Errors
/// The errors of writing the header; if it does not say so.
fn write_mark(space: &SpaceFile) -> Result<()> {
    if !may_go(space)? {
        return Err(Error::damaged_file(space.space().file().name(), "its header was not marked"));
    }
    space.store().pool().flush_page(space.space(), PageNo(0))?;
    space.space().file().sync()
}

/// Bytes by which the file of a dropped table is cut at a time, so that no file system is busy with
/// it for long.
const CUT: u64 = 1 << 30;

/// Makes `file` shorter, piece by piece, until removing it is quick.
///
/// # Errors
/// The errors of the disk.
fn cut(file: &dyn File) -> Result<()> {
    let mut len = file.len()?;
    while len > CUT {
        len -= CUT;
        file.set_len(len)?;
    }
    Ok(())
}

/// A file that cannot be used as a table's, and that the log may be kept for.
struct Withheld {
    store: Arc<Store>,
    id: SpaceId,
    /// The file, if it is open.
    space: Option<Arc<SpaceFile>>,
}

impl Withheld {
    /// Keeps the log no longer.
    fn release(&self) {
        self.store.pool().release(self.id);
    }

    /// Discards its pages, and keeps the log no longer.
    fn end(&self) -> Result<()> {
        self.space.as_ref().map_or(Ok(()), |space| space.close(true))?;
        self.release();
        Ok(())
    }
}

/// The file of a table, which all versions of its definition share.
pub(crate) struct TableFile {
    disk: Arc<dyn Disk>,
    name: String,
    /// The file, or why it cannot be used.
    pub space: Result<Arc<SpaceFile>>,
    /// What an open has set aside.
    withheld: OnceLock<Withheld>,
    pub gate: WriterGate,
    /// Of a temporary table nothing need be durable.
    pub lifetime: Lifetime,
    dropped: AtomicBool,
    /// The file is another one's, and stays when the table is dropped.
    stays: AtomicBool,
    /// A load was given up, and what it has left is still there.
    broken_off: AtomicBool,
    /// The file is closed for good, and gone, though the table is not dropped yet.
    gone: AtomicBool,
}

impl TableFile {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        name: String,
        space: Result<Arc<SpaceFile>>,
        lifetime: Lifetime,
    ) -> TableFile {
        let [dropped, stays, broken_off, gone] = [false; 4].map(AtomicBool::new);
        let (gate, withheld) = (WriterGate::default(), OnceLock::new());
        TableFile { disk, name, space, withheld, gate, lifetime, dropped, stays, broken_off, gone }
    }

    /// Keeps new writers out and waits until those have left that are there. Those of a temporary
    /// table are not waited for: the session that changes its definition is the only one that uses
    /// it, and what its transaction has changed there, a rollback passes over.
    ///
    /// # Errors
    /// The errors of [`Wait::at`]; the gate is as it was.
    pub(crate) fn close_gate(self: &Arc<Self>, wait: &Wait<'_>) -> Result<Closed> {
        match self.lifetime {
            Lifetime::Lasting => self.gate.close(wait)?,
            Lifetime::Temporary => self.gate.shut(wait)?,
        }
        Ok(Closed(Arc::clone(self)))
    }

    /// Until what this returns is dropped, a load or a change of indexes puts pages into the file
    /// to which no tree of the table leads yet: they are not lost.
    pub(crate) fn build(self: &Arc<Self>) -> Visit {
        Visit::begin(self, |gate| &gate.builders)
    }

    /// Until what this returns is dropped, a load fills the table.
    pub(crate) fn fill(self: &Arc<Self>) -> Visit {
        Visit::begin(self, |gate| &gate.fillings)
    }

    pub(crate) fn set_broken_off(&self, is: bool) {
        self.broken_off.store(is, Ordering::Release);
    }

    /// Whether the table `name` takes rows.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a load of it was given up and has left rows: the next open
    /// makes it empty, and what came meanwhile would be lost.
    pub(crate) fn check_whole(&self, name: &str) -> Result<()> {
        if self.broken_off.load(Ordering::Acquire) {
            let what = format!("table `{name}` has what is left of a load that was given up: drop or truncate it");
            return Err(Error::invalid(what));
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::DamagedFile`] if a drop that could not be completed has removed the file.
    pub(crate) fn check_there(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) {
            return Err(Error::damaged_file(&self.name, "it was removed by a drop of its table that is not complete"));
        }
        Ok(())
    }

    /// The file was set aside: `space`, if it is open. It is to go with the table.
    pub(crate) fn withhold(&self, store: &Arc<Store>, id: SpaceId, space: Option<Arc<SpaceFile>>) {
        let _ = self.withheld.set(Withheld { store: Arc::clone(store), id, space });
    }

    /// The file that was set aside, if it is open: for a salvage.
    pub(crate) fn withheld_space(&self) -> Option<&Arc<SpaceFile>> {
        self.withheld.get()?.space.as_ref()
    }

    /// The file does not go with the table: it is another one's.
    pub(crate) fn set_stays(&self) {
        self.stays.store(true, Ordering::Release);
    }

    fn stays(&self) -> bool {
        self.stays.load(Ordering::Acquire)
    }

    /// From now on the file goes with the last holder. What it keeps of the log is released now.
    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
        if let Some(withheld) = self.withheld.get() {
            withheld.release();
        }
    }

    /// True if the catalog does not have the table any more.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Removes the file of a table that is about to be dropped, and discards its pages. To be
    /// called where `error` keeps the drop from the log: if the file has pages that could not be
    /// written, or that recovery could not read, the checkpoint waits for these, and in the end
    /// each statement for the checkpoint. After a crash before the catalog forgets the table, it is
    /// one without a file.
    ///
    /// # Errors
    /// `error`, if the checkpoint does not wait for the file; the errors of removing it.
    pub(crate) fn give_up(&self, error: Error) -> Result<()> {
        let unwritten = self.space.as_ref().ok().filter(|space| space.space().has_failed_write());
        match (unwritten, self.withheld.get()) {
            (Some(space), _) => {
                self.remove()?;
                space.close(true)?;
                self.gone.store(true, Ordering::Release);
                Ok(())
            }
            (None, Some(withheld)) if self.stays() => withheld.end(),
            (None, Some(withheld)) => self.remove().and_then(|()| withheld.end()),
            (None, None) => Err(error),
        }
    }

    /// Removes the file for good. Its pages are discarded after that: the log is kept for them
    /// until then.
    fn remove(&self) -> Result<()> {
        // An earlier attempt may have failed behind that.
        if self.disk.exists(&self.name)? {
            self.disk.remove(&self.name)?;
        }
        self.disk.sync_dir()
    }

    fn give_back(&self) -> Result<()> {
        if let Some(withheld) = self.withheld.get() {
            // The catalog does not have the table: the log is not kept for a file that stays.
            let removed = if self.stays() { Ok(()) } else { self.remove() };
            return withheld.end().and(removed);
        }
        if self.stays() {
            return Ok(());
        }
        if let Ok(space) = &self.space {
            let file = space.space().file();
            if self.lifetime == Lifetime::Lasting && write_mark(space).is_err() {
                // Its pages are discarded if the file is gone for good. Else its header is written
                // in the end, with what the log says.
                return self.remove().and_then(|()| space.close(true));
            }
            space.close(true)?;
            // One that cannot be cut, as on a full disk that copies on write, goes as it is.
            let _ = cut(&**file);
        }
        // The directory need not be synced: the next open removes the file if it is there again.
        self.disk.remove(&self.name)
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.is_dropped() {
            // A file that stays is removed by the next open: the catalog does not know it.
            let _ = self.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Error;

    fn within(seconds: u64) -> Wait<'static> {
        Wait::begins(Duration::from_secs(seconds))
    }

    #[test]
    fn names_of_files_lead_back_to_their_spaces() {
        assert_eq!(space_of(&SpaceId(17).file_name()), Some(SpaceId(17)));
        for other in ["t17.hf.new", "t017.hf", "undo.hf", "t.hf", "system.hf", "t-1.hf"] {
            assert_eq!(space_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_closed_gate_lets_nobody_in() {
        let gate = WriterGate::default();
        let first = gate.enter().unwrap();
        assert!(matches!(gate.close(&within(0)), Err(Error::LockTimeout)));
        let second = gate.enter().unwrap();
        gate.leave(first);
        gate.leave(second);
        gate.close(&within(0)).unwrap();
        assert!(gate.enter().is_none());
        gate.reopen();
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_writer_waits_until_it_opens_or_the_table_is_gone() {
        let gate = WriterGate::default();
        gate.close(&within(0)).unwrap();
        assert!(matches!(gate.enter_waiting(&within(0)), Err(Error::LockTimeout)));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.enter_waiting(&within(60)).unwrap());
            gate.reopen();
            gate.leave(waiting.join().unwrap().unwrap());
            gate.close(&within(0)).unwrap();
            let waiting = scope.spawn(|| gate.enter_waiting(&within(60)).unwrap());
            gate.abolish();
            assert_eq!(waiting.join().unwrap(), None);
        });
    }

    #[test]
    fn one_change_of_definitions_at_a_time_holds_it() {
        let gate = WriterGate::default();
        gate.close(&within(0)).unwrap();
        assert!(matches!(gate.close(&within(0)), Err(Error::LockTimeout)));
        assert!(gate.enter().is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| gate.close(&within(60)).unwrap());
            gate.reopen();
        });
        assert!(gate.enter().is_none());
    }

    #[test]
    fn it_closes_when_the_last_of_all_threads_has_left() {
        let gate = WriterGate::default();
        let groups: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..5).map(|_| scope.spawn(|| gate.enter().unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(gate.quiet(), None);
        for &group in &groups {
            assert!(matches!(gate.close(&within(0)), Err(Error::LockTimeout)));
            gate.leave(group);
        }
        assert_eq!(gate.quiet(), Some(5));
        let last = gate.enter().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| gate.leave(last));
            gate.close(&within(60)).unwrap();
        });
        assert_eq!(gate.quiet(), Some(6));
    }

    #[test]
    fn what_is_built_is_noticed_while_the_gate_is_closed_too() {
        let damaged = Err(Error::damaged_file("t.hf", "not needed here"));
        let disk = Arc::new(holdfast_io::MemoryDisk::new());
        let file = Arc::new(TableFile::new(disk, "t.hf".into(), damaged, Lifetime::Lasting));
        let before = file.gate.quiet();
        let building = file.build();
        let closed = file.close_gate(&within(0)).unwrap();
        assert_eq!(file.gate.quiet(), None);
        drop(building);
        assert!(file.gate.quiet().is_some_and(|now| Some(now) != before));
        drop(closed);
    }
}
