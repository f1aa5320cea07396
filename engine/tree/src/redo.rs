//! Redo: applies logged mini-transactions again.
//!
//! A record is applied to its page if the page's LSN is below the end of its group; else the page
//! has it already. The code is that of normal operation.
//!
//! # Batches
//! Records of one page do not depend on other pages, so they are collected, as many as a part of
//! the cache is large, and sorted by page; the records of a page stay in the order of the log. Then
//! several threads take page after page: a page is brought in once for all its records of the
//! batch, pages are read in their order in the files, and many reads are under way at a time. A
//! batch is applied before the next one is collected. A page gets the end of the last applied group
//! as its LSN. It does not matter that a group's pages are applied, and may be written, at
//! different times: the checkpoint stays behind until all of the log is applied, so the next
//! recovery finds the same groups (invariant *no checkpoint before the end of redo*).
//!
//! # Passes
//! Where a batch has records of more pages than the cache holds, the next batches bring in most of
//! these pages again, and each time they are written in between. If that moves more bytes than the
//! log has, redo goes through the log several times: a *pass* takes the records of a part of the
//! pages, so that each page is brought in once. A part is a range of hashes of neighbouring pages.
//! A full batch leaves the upper half of its range to later passes. If it has records of
//! neighbours alone, it is applied, and the pass goes on behind it.
//!
//! # Pages that have their changes already
//! What a file gives back need not be durable: the process that wrote it may have ended before a
//! sync, or its sync may have failed, after which the system takes for clean what never reached the
//! disk. So every page that the log has records of is dirty after redo, also one that has them all,
//! and is written and synced before the checkpoint passes them (invariant *redo makes durable*).
//!
//! # What is not read, or not fit
//! A page that a record initialises is not read from disk: its new content does not depend on the
//! old one, and all later changes are behind the record. So torn pages and pages beyond the end of
//! the file do no harm, and what the batch has for the page before that record is left out.
//!
//! A page that turns out damaged is [passed over](Redo::pass_over), if the caller allows it, while
//! all others get their records: one bad page does not keep a database shut. If it cannot be read,
//! its checksum goes on saying so. If it can be read but a record does not fit it, or would change
//! an entry of a node that lies over another entry, its checksum is right, and it would pass for a
//! sound page that lacks changes: so it becomes a [forsaken](TYPE_FORSAKEN) one, which is written
//! like any other change and is damaged for every reader, in this run of the database and the next.
//! Records that initialise the page heal it.
//!
//! A page that the device does not return, at several attempts, may be returned the next time, with
//! what it had. If the caller allows it the page is [withheld](Redo::withhold): it gets none of its
//! records from there on, the caller keeps the log and sees to it that nothing uses the page.
//!
//! Lock order: a thread holds one page latch, or none.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_base::blocking::Mutex;
use holdfast_base::codec::Reader;
use holdfast_base::page::{OFF_TYPE, TYPE_FORSAKEN};
use holdfast_base::{Error, HashMap, HashSet, Lsn, PageId, Result, SpaceId, thread};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind, Space};
use holdfast_wal::{Group, Progress, Recovery};

use crate::op::PageOp;
use crate::store::Store;

/// Finds a space by its number; `None`: its file does not exist (any more).
pub type FindSpace<'a> = dyn FnMut(SpaceId) -> Result<Option<Arc<Space>>> + 'a;

/// Whether damaged pages of a space may be passed over.
type MayPassOver = Arc<dyn Fn(SpaceId) -> bool + Send + Sync>;

/// Told of a page that the device does not return, of where the first of its records lies, and of
/// the error; says whether the page is withheld.
type Withhold = Arc<dyn Fn(PageId, Lsn, &Error) -> bool + Send + Sync>;

/// The spaces that records have named; `None`: its file does not exist.
type Spaces = HashMap<SpaceId, Option<Arc<Space>>>;

/// The records of a batch take at most one part in so many of the cache. The simulation's logs are
/// short.
const CACHE_PART: usize = if cfg!(sim) { 64 } else { 4 };
/// The most bytes of a batch.
const BATCH_MAX: usize = 256 << 20;
/// Threads for each core: most of them wait for a page.
const THREADS_PER_CORE: usize = 8;
/// The most threads.
const THREADS_MAX: usize = 64;
/// Pages that are worth a thread.
const PAGES_PER_THREAD: usize = 32;
/// Bytes of log between two reports of progress.
const REPORT_EVERY: u64 = 4 << 20;
/// Reads of a page before it counts as one that the device does not return.
const READ_ATTEMPTS: usize = 3;
/// So many neighbouring pages are in one part: they are read, and written, one after the other.
const NEIGHBOURS: u32 = 16;
/// The parts of all pages.
const ALL: Range<u64> = 0..1 << 32;

/// The part of a page.
fn part(id: PageId) -> u64 {
    let neighbours = u64::from(id.space.0) << 32 | u64::from(id.no.0 / NEIGHBOURS);
    // By the golden ratio: neighbours of neighbours are far from each other, all parts alike.
    neighbours.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// Redo over a log: finds each space once and remembers those that are missing.
pub struct Redo<'a> {
    store: Arc<Store>,
    find: Box<FindSpace<'a>>,
    may_pass_over: MayPassOver,
    withhold: Withhold,
    withheld: Arc<Mutex<HashSet<PageId>>>,
    spaces: Spaces,
    batch: Batch,
    /// Bytes of a batch that is full.
    full: usize,
    /// The parts that this pass takes.
    parts: Range<u64>,
    /// Batches of all parts have been applied up to here.
    applied: Lsn,
    /// The last report of progress.
    reported: u64,
}

/// A record of a batch.
struct Record {
    id: PageId,
    /// Where its bytes are in those of the batch.
    bytes: Range<usize>,
    /// Where its group begins and ends in the log.
    start: Lsn,
    end: Lsn,
    /// It gives the page a content that does not depend on an earlier one.
    begins: bool,
}

/// Records that are applied together.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl Batch {
    fn memory(&self) -> usize {
        self.bytes.len() + self.records.len() * size_of::<Record>()
    }

    fn pages(&self) -> usize {
        let mut pages: Vec<PageId> = self.records.iter().map(|record| record.id).collect();
        pages.sort_unstable();
        pages.dedup();
        pages.len()
    }

    /// Where the upper half of the records begins, by parts; `None` if all are of one part.
    fn upper_half(&self) -> Option<u64> {
        let mut parts: Vec<u64> = self.records.iter().map(|record| part(record.id)).collect();
        parts.sort_unstable();
        let (least, middle) = (*parts.first()?, *parts.get(parts.len() / 2)?);
        let begin = if middle > least { Some(middle) } else { parts.into_iter().find(|other| *other > middle) };
        begin.filter(|begin| *begin > least)
    }

    /// Drops the records of parts from `end` on.
    fn truncate(&mut self, end: u64) {
        let Batch { bytes, records } = self;
        let mut len = 0;
        records.retain_mut(|record| {
            if part(record.id) >= end {
                return false;
            }
            let to = len..len + record.bytes.len();
            bytes.copy_within(record.bytes.clone(), to.start);
            len = to.end;
            record.bytes = to;
            true
        });
        bytes.truncate(len);
    }
}

impl<'a> Redo<'a> {
    /// Redo into the pool of `store`; spaces are looked up with `find`.
    pub fn new(store: &Arc<Store>, find: impl FnMut(SpaceId) -> Result<Option<Arc<Space>>> + 'a) -> Redo<'a> {
        let cache = store.pool().frames() * store.page_size();
        Redo {
            store: Arc::clone(store),
            find: Box::new(find),
            may_pass_over: Arc::new(|_| false),
            withhold: Arc::new(|_, _, _| false),
            withheld: Arc::default(),
            spaces: Spaces::default(),
            batch: Batch::default(),
            full: (cache / CACHE_PART).min(BATCH_MAX),
            parts: ALL,
            applied: Lsn(0),
            reported: 0,
        }
    }

    /// Damaged pages of the spaces that `which` names stay damaged, instead of being an error.
    #[must_use]
    pub fn pass_over(self, which: impl Fn(SpaceId) -> bool + Send + Sync + 'static) -> Redo<'a> {
        Redo { may_pass_over: Arc::new(which), ..self }
    }

    /// Pages that the device does not return are withheld if `which` says so, which is told where
    /// the first of their records lies, and the error.
    #[must_use]
    pub fn withhold(self, which: impl Fn(PageId, Lsn, &Error) -> bool + Send + Sync + 'static) -> Redo<'a> {
        Redo { withhold: Arc::new(which), ..self }
    }

    /// Applies the log of `recovery` to the pages that do not have it yet, and skips records of
    /// spaces that do not exist. Tells `progress` the bytes of log that are as good as applied.
    /// Returns the spaces that records were skipped for, because their files do not exist.
    ///
    /// # Errors
    /// [`Error::DamagedFile`] if a group is no sequence of records; [`Error::DamagedPage`] if a
    /// page is damaged or a record does not fit its page, unless the page may be passed over; other
    /// errors of reading log and pages.
    pub fn run(mut self, recovery: &mut Recovery, progress: &mut dyn FnMut(u64)) -> Result<BTreeSet<SpaceId>> {
        loop {
            let mut told = recovery.checkpoint_lsn();
            while let Some(group) = recovery.next()? {
                let end = group.end;
                if group.start >= self.applied {
                    self.collect(&group)?;
                }
                if self.batch.memory() >= self.full {
                    self.make_room(end, recovery.progress().total)?;
                }
                if end.since(told) >= REPORT_EVERY {
                    told = end;
                    progress(self.done(recovery.progress()));
                }
            }
            let filled = self.batch.memory();
            self.apply_batch()?;
            progress(self.done(recovery.progress()));
            if !self.begins_pass(filled) {
                return Ok(self.missing());
            }
            self.store.metrics().inc(Counter::RecoveryPasses);
            recovery.rewind();
        }
    }

    /// Takes the records of the parts of this pass.
    fn collect(&mut self, group: &Group<'_>) -> Result<()> {
        let (mut from, mut last) = (Reader::new(group.payload), None);
        while !from.is_empty() {
            let at = group.payload.len() - from.remaining();
            let (id, op) = PageOp::decode(&mut from, last).ok_or_else(|| undecodable(group.start))?;
            let begins = op.initialises();
            last = Some(id);
            if (self.parts == ALL || self.parts.contains(&part(id))) && self.has_space(id.space)? {
                let begin = self.batch.bytes.len();
                self.batch.bytes.extend_from_slice(&group.payload[at..group.payload.len() - from.remaining()]);
                let bytes = begin..self.batch.bytes.len();
                self.batch.records.push(Record { id, bytes, start: group.start, end: group.end, begins });
            }
        }
        Ok(())
    }

    /// The batch is full, with the group that ends at `end`: leaves a part of it to later passes
    /// over the `log` bytes, or applies it.
    fn make_room(&mut self, end: Lsn, log: u64) -> Result<()> {
        let takes_all = self.parts == ALL;
        let upper = if takes_all && !self.needs_passes(log) { None } else { self.batch.upper_half() };
        if let Some(upper) = upper {
            self.parts.end = upper;
            self.batch.truncate(upper);
            return Ok(());
        }
        self.apply_batch()?;
        if takes_all {
            self.applied = end;
        }
        Ok(())
    }

    /// True if pages that are brought in and written again by each batch cost more than reading the
    /// log again.
    fn needs_passes(&self, log: u64) -> bool {
        let (pages, pool) = (self.batch.pages(), self.store.pool());
        // The simulation's tables are small.
        cfg!(sim) && pages > 8 || pages > pool.frames() && 2 * (pages * self.store.page_size()) as u64 > log
    }

    /// Begins the next pass, over about as many parts as fill a batch: those of the last one
    /// `filled` so many bytes. False if all parts are done.
    fn begins_pass(&mut self, filled: usize) -> bool {
        let Range { start, end } = self.parts;
        if end >= ALL.end {
            return false;
        }
        // A little less: one part has more than another.
        let width = (end - start).saturating_mul(self.full as u64 / 8 * 7) / filled.max(1) as u64;
        self.parts = end..end.saturating_add(width.max(1)).min(ALL.end);
        true
    }

    /// The bytes of log that are as good as applied, if this pass has come so far.
    fn done(&mut self, pass: Progress) -> u64 {
        let share = |parts: u64| parts as f64 / ALL.end as f64;
        let passed = share(self.parts.start) * pass.total as f64;
        let done = passed + share(self.parts.end - self.parts.start) * pass.done as f64;
        // The first pass does not know what it leaves to others.
        self.reported = self.reported.max(done as u64);
        self.reported
    }

    fn has_space(&mut self, id: SpaceId) -> Result<bool> {
        if let Some(known) = self.spaces.get(&id) {
            return Ok(known.is_some());
        }
        let found = (self.find)(id)?;
        let exists = found.is_some();
        self.spaces.insert(id, found);
        Ok(exists)
    }

    fn missing(&self) -> BTreeSet<SpaceId> {
        self.spaces.iter().filter(|(_, space)| space.is_none()).map(|(id, _)| *id).collect()
    }

    fn apply_batch(&mut self) -> Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        // A stable sort: the records of a page stay in the order of the log.
        batch.records.sort_by_key(|record| record.id);
        let mut pages = Vec::new();
        let mut begin = 0;
        for run in batch.records.chunk_by(|a, b| a.id == b.id) {
            pages.push(begin..begin + run.len());
            begin += run.len();
        }
        let work = Arc::new(Work {
            store: Arc::clone(&self.store),
            may_pass_over: Arc::clone(&self.may_pass_over),
            withhold: Arc::clone(&self.withhold),
            withheld: Arc::clone(&self.withheld),
            spaces: self.spaces.clone(),
            batch,
            pages,
            next: AtomicUsize::new(0),
        });
        work.run()?;
        // The memory of the batch serves the next one.
        if let Some(work) = Arc::into_inner(work) {
            self.batch = work.batch;
            self.batch.bytes.clear();
            self.batch.records.clear();
        }
        Ok(())
    }
}

impl std::fmt::Debug for Redo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redo").field("missing", &self.missing()).finish_non_exhaustive()
    }
}

/// A batch that threads apply, page after page.
struct Work {
    store: Arc<Store>,
    may_pass_over: MayPassOver,
    withhold: Withhold,
    withheld: Arc<Mutex<HashSet<PageId>>>,
    spaces: Spaces,
    batch: Batch,
    /// The records of each page.
    pages: Vec<Range<usize>>,
    /// The first page that no thread has taken.
    next: AtomicUsize,
}

impl Work {
    /// Applies the batch, with as many threads as it is worth; one of them is the caller.
    fn run(self: &Arc<Self>) -> Result<()> {
        let most = (thread::cores() * THREADS_PER_CORE).min(THREADS_MAX);
        let threads = (self.pages.len() / PAGES_PER_THREAD).clamp(1, most);
        let others: Vec<_> = (1..threads)
            // Fewer threads do it, too.
            .map_while(|_| {
                let work = Arc::clone(self);
                thread::spawn("holdfast-redo", move || work.take_pages()).ok()
            })
            .collect();
        let mine = self.take_pages();
        let theirs = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(Error::Closed("a thread of recovery, which panicked"))));
        theirs.fold(mine, Result::and)
    }

    /// Takes pages until there are no more. An error leaves no pages for the others.
    fn take_pages(&self) -> Result<()> {
        let acc = self.store.pool().access(AccessKind::Recovery);
        loop {
            let Some(page) = self.pages.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
            if let Err(error) = self.redo(&self.batch.records[page.clone()], &acc) {
                self.next.store(self.pages.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
    }

    /// Applies the records of one page, oldest first.
    fn redo(&self, records: &[Record], acc: &Access<'_>) -> Result<()> {
        let id = records[0].id;
        let begin = records.iter().rposition(|record| record.begins);
        let records = &records[begin.unwrap_or(0)..];
        let Some(Some(space)) = self.spaces.get(&id.space) else { return Ok(()) };
        let pool = self.store.pool();
        let pass_over = || {
            self.store.metrics().add(Counter::RecoveryPagesSkipped, records.len() as u64);
            Ok(())
        };
        if self.withheld.lock().contains(&id) {
            return pass_over();
        }
        let fix = || match begin {
            Some(_) => pool.fix_new(space, id.no, acc),
            None => pool.fix_exclusive(space, id.no, acc),
        };
        let mut latched = fix();
        for _ in 1..READ_ATTEMPTS {
            if latched.as_ref().err().is_some_and(Error::is_unread) {
                latched = fix();
            }
        }
        let mut page = match latched {
            Err(error) if error.is_damage() && (self.may_pass_over)(id.space) => return pass_over(),
            Err(error) if error.is_unread() && (self.withhold)(id, records[0].start, &error) => {
                self.withheld.lock().insert(id);
                return pass_over();
            }
            latched => latched?,
        };
        let has = |record: &&Record| record.end <= page.lsn() && !holdfast_base::planted!("redo-repeats-changes");
        let skipped = if begin.is_some() { 0 } else { records.iter().take_while(has).count() };
        self.store.metrics().add(Counter::RecoveryPagesSkipped, skipped as u64);
        for record in &records[skipped..] {
            let op = self.op(record)?;
            let applied = match op.spares_neighbours(&page) {
                true => op.apply(id, page.bytes_mut()),
                false => Err(Error::damaged_page(id, "its records lie over each other")),
            };
            if let Err(error) = applied {
                if !(self.may_pass_over)(id.space) {
                    return Err(error);
                }
                page.bytes_mut()[OFF_TYPE] = TYPE_FORSAKEN;
                self.store.metrics().add(Counter::RecoveryPagesSkipped, 1);
            }
        }
        if let (Some(first), Some(last)) = (records.first(), records.last()) {
            // It is newer than these records if it has some of the batches that follow.
            let lsn = page.lsn().max(last.end);
            page.mark_dirty(first.start, lsn);
            let checkpoint = self.store.wal().checkpoint_lsn();
            debug_assert!(checkpoint <= first.start, "invariant: no checkpoint before the end of redo: {checkpoint:?}");
            debug_assert!(page.is_dirty(), "invariant: redo makes durable: {id}");
        }
        Ok(())
    }

    fn op(&self, record: &Record) -> Result<PageOp<'_>> {
        let bytes = &self.batch.bytes[record.bytes.clone()];
        let decoded = PageOp::decode(&mut Reader::new(bytes), Some(record.id));
        decoded.map(|(_, op)| op).ok_or_else(|| undecodable(record.start))
    }
}

fn undecodable(start: Lsn) -> Error {
    Error::damaged_file("the log", format!("the group at {} is not decodable", start.0))
}
