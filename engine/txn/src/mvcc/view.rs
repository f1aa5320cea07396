//! Read views.
//!
//! A view is one commit number: it sees what committed at or before it. While it is *short* it asks
//! the commit map, and purge waits for it. Once it holds too much back it is made *long*: the ids
//! that were active at its birth are written down in it, after which it needs the commit map no
//! more, and purge goes on by copying the one version of each changed row that it can still see
//! into the version tree. When old versions reach their limit, the oldest view that *gives way* is
//! *cancelled*: its next read fails with [`Error::SnapshotTooOld`].
//!
//! # Protocol
//! A view is made long with the window of the commit map held still, before `low` moves past what
//! it cannot take for granted. Readers ask the commit map first and then look whether the view
//! became long meanwhile; if so the list decides. Cancelling sets the flag before anything that the
//! view needs is dropped, and readers look at the flag *after* they read, so that no answer is
//! given from what may be missing.
//!
//! Each entry of the version tree is *charged* to one view that needs it, the oldest of them. When
//! that view has ended, purge visits the entries that were charged to it, and drops each or charges
//! it to the next view. So a view that became long because its thread was preempted in the middle
//! of a statement costs what was kept for it. Purge walks the whole tree only after a view to which
//! more was charged than is worth a list. The walk charges every entry once more, and so it begins
//! with counting anew how much is kept for each view. A thread that charges a view that has ended
//! is told so: no entry is forgotten.
//!
//! The registry of open views is in shards, one of which a thread uses for the views that it opens,
//! so that readers do not meet. A thread that asks about all views reads the last commit first and
//! then shard after shard: a view that it misses was opened after it left that shard, and therefore
//! sees that commit.
//!
//! Every commit or two asks how old the oldest views are, so each shard publishes that of its own
//! without its mutex. It keeps its views in the order of their age, so the end of one looks at few
//! others. A view that is about to be opened lowers that value to the last commit first, and then
//! reads again which one is the last: a thread that read the shard too early had read the last
//! commit before. `models/views.rs` explores this under loom.
//!
//! # Lock order
//! window of the commit map -> shard of the registry, one at a time. Shards may be locked under
//! page latches; nothing is locked under them, nor under what is kept for a view.

use std::sync::Arc;

use holdfast_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use holdfast_base::sync::{Mutex, OnceLock};
use holdfast_base::{CommitNo, Error, Result, TxnId};
use holdfast_metrics::{Spread, thread_group};

use crate::mvcc::clock::CommitClock;
use crate::mvcc::commit_map::{CommitMap, TxnStatus, WindowGuard};
use crate::mvcc::sweep::{Charges, Sweep};

/// One read view.
#[derive(Debug)]
pub struct View {
    no: CommitNo,
    low: TxnId,
    high: TxnId,
    gives_way: AtomicBool,
    active_at_open: OnceLock<Box<[TxnId]>>,
    cancelled: AtomicBool,
    charges: Mutex<Charges>,
    /// Bytes that were charged to it since they were counted anew, whatever has become of them.
    charged: AtomicU64,
    /// Its shard of the registry.
    shard: usize,
    holders: AtomicUsize,
}

impl View {
    /// One more holder.
    pub fn hold(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// Drops one holder. Returns true if it was the last one, which then has to
    /// [close](Views::close) the view.
    pub fn release(&self) -> bool {
        self.holders.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// How many holders it has; none if it has ended.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.holders.load(Ordering::Relaxed)
    }

    /// The last commit that it sees.
    #[must_use]
    pub fn commit_no(&self) -> CommitNo {
        self.no
    }

    /// True if purge no longer waits for it.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.active_at_open.get().is_some()
    }

    /// Says that it may not be given up from now on: its transaction changes rows.
    pub fn keep(&self) {
        self.gives_way.store(false, Ordering::Relaxed);
    }

    fn gives_way(&self) -> bool {
        self.gives_way.load(Ordering::Relaxed)
    }

    fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// True if it was given up.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Says that the entry of the version tree under `key`, of so many bytes, is kept for it.
    /// Returns what is to be looked at again, because it has ended.
    #[must_use]
    pub fn charge(&self, key: &[u8], bytes: u64) -> Sweep {
        let mut charges = self.charges.lock();
        if !charges.add(key) {
            return Sweep::Keys(vec![key.into()]);
        }
        self.charged.fetch_add(bytes, Ordering::Relaxed);
        Sweep::Nothing
    }

    /// Nothing is kept for it from here on. Returns what was.
    fn end(&self) -> Sweep {
        self.charges.lock().end()
    }

    /// To be called after a read and before its answer is believed.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`] if the view was cancelled.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::SnapshotTooOld) } else { Ok(()) }
    }

    /// True if versions written by `id` are visible.
    #[must_use]
    pub fn sees(&self, id: TxnId, map: &CommitMap) -> bool {
        if id == TxnId::NONE {
            return true;
        }
        if let Some(active) = self.active_at_open.get() {
            return self.sees_long(id, active);
        }
        let visible = match map.status(id) {
            TxnStatus::Committed(no) => no <= self.no,
            TxnStatus::Active => holdfast_base::planted!("uncommitted-seen"),
            TxnStatus::RolledBack => false,
        };
        // The map may have been cut while it was asked; then the view has become long before.
        match self.active_at_open.get() {
            Some(active) => self.sees_long(id, active),
            None => visible,
        }
    }

    fn sees_long(&self, id: TxnId, active: &[TxnId]) -> bool {
        id < self.high && active.binary_search(&id).is_err()
    }

    /// Writes down what was active at birth. The window of `map` must be held still, and everything
    /// that ended after this view must still be in it; both hold for every view that is not yet
    /// long.
    fn make_long(&self, window: &WindowGuard<'_>, map: &CommitMap) {
        let _ = window;
        self.active_at_open.get_or_init(|| {
            let in_window = (self.low.0..self.high.0).map(TxnId);
            let unseen = |id: &TxnId| !matches!(map.status(*id), TxnStatus::Committed(no) if no <= self.no);
            let mut active = map.stragglers_below(self.low);
            active.retain(|id| unseen(id));
            active.extend(in_window.filter(|id| unseen(id)));
            active.sort_unstable();
            active.into_boxed_slice()
        });
    }
}

/// The views that threads of one group have opened.
#[derive(Debug)]
struct Shard {
    /// In the order in which they were opened, so the oldest is first. Views are made long from the
    /// oldest on: those that are long come before the others.
    live: Mutex<Vec<Arc<View>>>,
    /// No view here is older, `u64::MAX` if there is none. Changed under the mutex.
    oldest: AtomicU64,
    /// The same for those that are short; behind the truth for a moment when one is made long.
    oldest_short: AtomicU64,
}

impl Default for Shard {
    fn default() -> Shard {
        let none = || AtomicU64::new(u64::MAX);
        Shard { live: Mutex::default(), oldest: none(), oldest_short: none() }
    }
}

impl Shard {
    /// Shows which are the oldest of the views, of which `live` are left.
    fn settle(&self, live: &[Arc<View>]) {
        let no = |view: Option<&Arc<View>>| view.map_or(u64::MAX, |view| view.no.0);
        let first_short = live.partition_point(|view| view.is_long());
        self.oldest.store(no(live.first()), Ordering::Release);
        self.oldest_short.store(no(live.get(first_short)), Ordering::Release);
    }
}

/// All open views.
#[derive(Debug)]
pub struct Views {
    clock: Arc<CommitClock>,
    shards: Spread<Shard>,
}

impl Views {
    /// No views.
    #[must_use]
    pub fn new(clock: &Arc<CommitClock>) -> Views {
        Views { clock: Arc::clone(clock), shards: Spread::default() }
    }

    /// Opens a view of everything that is committed now, with one holder. `gives_way`: it may be
    /// given up to keep old versions to their limit, until [`View::keep`].
    pub fn open(&self, map: &CommitMap, gives_way: bool) -> Arc<View> {
        let group = thread_group();
        let shard = self.shards.of(group);
        let mut live = shard.live.lock();
        // Under the mutex no other thread raises these.
        let bound = self.clock.last_commit().0;
        for oldest in [&shard.oldest, &shard.oldest_short] {
            if oldest.load(Ordering::Relaxed) > bound {
                oldest.store(bound, Ordering::Relaxed);
            }
        }
        // Pairs with the one in `horizon`: see the module.
        if !holdfast_base::planted!("view-opened-unfenced") {
            fence(Ordering::SeqCst);
        }
        // `low` first and `high` last: both only grow, and a wider window is merely more to look
        // at.
        let (low, no) = (map.low(), self.clock.last_commit());
        let high = self.clock.next_id();
        let view = Arc::new(View {
            no,
            low,
            high,
            gives_way: AtomicBool::new(gives_way),
            active_at_open: OnceLock::new(),
            cancelled: AtomicBool::new(false),
            charges: Mutex::default(),
            charged: AtomicU64::new(0),
            shard: group,
            holders: AtomicUsize::new(1),
        });
        live.push(Arc::clone(&view));
        view
    }

    /// Ends a view. Returns what was kept for it.
    #[must_use]
    pub fn close(&self, view: &View) -> Sweep {
        self.remove(view);
        view.end()
    }

    /// Takes a view out of the registry. Returns whether it was there.
    fn remove(&self, view: &View) -> bool {
        let shard = self.shards.of(view.shard);
        let mut live = shard.live.lock();
        // Pointers are compared, the views are not looked at. Most that end are young.
        let at = live.iter().rposition(|v| std::ptr::eq(&**v, view));
        let removed = at.map(|at| live.remove(at));
        shard.settle(&live);
        drop(live);
        removed.is_some()
    }

    /// Shows all open views to `look`. Those that it misses see what was the last commit before.
    fn for_each(&self, mut look: impl FnMut(&Arc<View>)) {
        for shard in self.shards.all() {
            shard.live.lock().iter().for_each(&mut look);
        }
    }

    /// The oldest of the open views that are `wanted`.
    fn oldest_of(&self, wanted: impl Fn(&View) -> bool) -> Option<Arc<View>> {
        let mut oldest: Option<Arc<View>> = None;
        self.for_each(|view| {
            if wanted(view) && oldest.as_ref().is_none_or(|o| view.no < o.no) {
                oldest = Some(Arc::clone(view));
            }
        });
        oldest
    }

    /// The least of what the shards say, or the last commit: no such view, of now or to come, is
    /// older.
    fn horizon(&self, oldest: impl Fn(&Shard) -> &AtomicU64) -> CommitNo {
        let last = self.clock.last_commit();
        fence(Ordering::SeqCst);
        if holdfast_base::planted!("purge-ignores-views") {
            return last;
        }
        let of_shards = self.shards.all().map(|shard| CommitNo(oldest(shard).load(Ordering::Acquire)));
        of_shards.fold(last, CommitNo::min)
    }

    /// Number of open views.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shards.all().map(|shard| shard.live.lock().len()).sum()
    }

    /// The number of the oldest view that is still short; the last commit if there is none.
    #[must_use]
    pub fn short_horizon(&self) -> CommitNo {
        self.horizon(|shard| &shard.oldest_short)
    }

    /// The oldest live view's number; the last commit if there is none.
    #[must_use]
    pub fn oldest(&self) -> CommitNo {
        self.horizon(|shard| &shard.oldest)
    }

    /// The views older than commit `no`, which is over, oldest first.
    #[must_use]
    pub fn older_than(&self, no: CommitNo) -> Vec<Arc<View>> {
        let mut older = Vec::new();
        if self.oldest() >= no {
            return older;
        }
        self.for_each(|view| {
            if view.no < no {
                older.push(Arc::clone(view));
            }
        });
        older.sort_by_key(|view| view.no);
        older
    }

    /// True if every open view sees `id`. Views to come see it too then.
    #[must_use]
    pub fn all_see(&self, id: TxnId, map: &CommitMap) -> bool {
        let last = self.clock.last_commit();
        // The map knows of a commit a moment before it is published.
        let mut all = matches!(map.status(id), TxnStatus::Committed(no) if no <= last);
        if all {
            self.for_each(|view| all &= view.sees(id, map));
        }
        all
    }

    /// Makes every view older than `no` long; returns how many were not.
    pub fn make_long(&self, no: CommitNo, map: &CommitMap) -> u64 {
        let window = map.lock_window();
        self.make_long_locked(no, map, &window)
    }

    /// As [`Views::make_long`], with the window already held.
    pub fn make_long_locked(&self, no: CommitNo, map: &CommitMap, window: &WindowGuard<'_>) -> u64 {
        let mut short = self.older_than(no);
        short.retain(|view| !view.is_long());
        short.iter().for_each(|view| view.make_long(window, map));
        for shard in self.shards.all() {
            shard.settle(&shard.live.lock());
        }
        short.len() as u64
    }

    /// The whole version tree is about to be looked at: what each view needs there is charged to it
    /// once more.
    pub fn count_anew(&self) {
        self.for_each(|view| view.charged.store(0, Ordering::Relaxed));
    }

    /// Bytes that have been charged to those views that are `wanted` since they were counted anew.
    pub fn bytes_charged(&self, wanted: impl Fn(&View) -> bool) -> u64 {
        let mut bytes = 0;
        self.for_each(|view| bytes += if wanted(view) { view.charged() } else { 0 });
        bytes
    }

    /// Gives up the oldest view that gives way and for which something is kept, if more than so
    /// many bytes are kept for such views. Returns what was kept for it.
    pub fn cancel_oldest(&self, more_than: u64) -> Option<Sweep> {
        let any = holdfast_base::planted!("views-give-way-for-nothing");
        let too_much = self.bytes_charged(View::gives_way) > more_than || any;
        while let Some(view) = self.oldest_of(|view| too_much && view.gives_way() && (view.charged() > 0 || any)) {
            // Before other threads find that no view needs what this one needs.
            view.cancelled.store(true, Ordering::Release);
            // Else its holder is closing it, and reads no more.
            if self.remove(&view) {
                return Some(view.end());
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mvcc::sweep::CHARGES_MAX;

    struct Commits {
        clock: Arc<CommitClock>,
        map: CommitMap,
        views: Views,
        no: u64,
    }

    impl Commits {
        fn new() -> Commits {
            let clock = CommitClock::new(TxnId(1), CommitNo(0));
            Commits { map: CommitMap::new(64, &clock, &[]), views: Views::new(&clock), clock, no: 0 }
        }
        fn begin(&self) -> TxnId {
            let id = self.map.allocate();
            if self.map.has_room(id) {
                return id;
            }
            let window = self.map.lock_window();
            let last = self.clock.last_commit();
            self.views.make_long_locked(CommitNo(last.0 + 1), &self.map, &window);
            window.cut(self.views.short_horizon());
            id
        }
        fn commit(&mut self, id: TxnId) {
            self.no += 1;
            self.map.set_committed(id, CommitNo(self.no));
            self.clock.publish(CommitNo(self.no));
        }
        fn roll_back(&mut self, id: TxnId) {
            self.no += 1;
            self.map.set_rolled_back(id, CommitNo(self.no));
            self.clock.publish(CommitNo(self.no));
        }
    }

    #[test]
    fn a_view_sees_what_committed_before_it_short_and_long() {
        let mut c = Commits::new();
        let (before, open, aborted) = (c.begin(), c.begin(), c.begin());
        c.commit(before);
        c.roll_back(aborted);
        let view = c.views.open(&c.map, true);
        let later = c.begin();
        c.commit(later);
        c.commit(open);
        let expect = |c: &Commits| {
            assert!(view.sees(TxnId::NONE, &c.map));
            assert!(view.sees(before, &c.map));
            assert!(!view.sees(open, &c.map));
            assert!(!view.sees(aborted, &c.map));
            assert!(!view.sees(later, &c.map));
        };
        expect(&c);
        c.views.make_long(c.clock.last_commit(), &c.map);
        assert!(view.is_long());
        expect(&c);
        for _ in 0..500 {
            let id = c.begin();
            c.commit(id);
            assert!(!view.sees(id, &c.map));
        }
        expect(&c);
    }

    #[test]
    fn an_old_straggler_stays_invisible_to_a_view_that_becomes_long() {
        let mut c = Commits::new();
        let old = c.begin();
        for _ in 0..200 {
            let id = c.begin();
            c.commit(id);
        }
        let view = c.views.open(&c.map, false);
        assert!(!view.sees(old, &c.map));
        c.commit(old);
        assert!(!view.sees(old, &c.map));
        for _ in 0..200 {
            let id = c.begin();
            c.commit(id);
        }
        assert!(view.is_long());
        assert!(!view.sees(old, &c.map));
        assert!(c.views.open(&c.map, false).sees(old, &c.map));
    }

    #[test]
    fn the_oldest_view_that_gives_way_is_cancelled_first() {
        let mut c = Commits::new();
        let writer = c.views.open(&c.map, false);
        let changes = c.views.open(&c.map, true);
        changes.keep();
        let first = c.views.open(&c.map, true);
        let id = c.begin();
        c.commit(id);
        let second = c.views.open(&c.map, true);
        // All that is kept is kept for those that do not give way.
        for view in [&writer, &changes] {
            assert_eq!(view.charge(b"key", 100), Sweep::Nothing);
        }
        assert!(c.views.cancel_oldest(0).is_none());
        for view in [&second, &first] {
            assert_eq!(view.charge(b"key", 10), Sweep::Nothing);
        }
        assert!(c.views.cancel_oldest(20).is_none());
        // As a walk through the whole tree does.
        c.views.count_anew();
        for view in [&writer, &second, &first] {
            assert_eq!(view.charge(b"key", 10), Sweep::Nothing);
        }
        assert!(c.views.cancel_oldest(20).is_none());
        assert!(c.views.cancel_oldest(19).is_some());
        assert!(first.check().is_err() && writer.check().is_ok() && second.check().is_ok());
        assert!(changes.check().is_ok());
        assert_ne!(c.views.close(&changes), Sweep::Nothing);
        assert!(c.views.cancel_oldest(10).is_none());
        assert!(c.views.cancel_oldest(9).is_some());
        assert!(second.check().is_err());
        assert!(c.views.cancel_oldest(0).is_none());
        assert_eq!(c.views.close(&first), Sweep::Nothing);
        assert_eq!(c.views.count(), 1);
        assert_eq!(c.views.oldest(), CommitNo(0));
        // Else it is charged to the next view as often as to this one.
        assert_eq!(c.views.close(&writer), Sweep::Keys(vec![Box::from(&b"key"[..])]));
        assert_eq!((c.views.count(), c.views.oldest()), (0, c.clock.last_commit()));
    }

    #[test]
    fn a_view_holds_the_horizon_until_it_is_long_or_closed() {
        let mut c = Commits::new();
        let first = c.views.open(&c.map, true);
        let id = c.begin();
        c.commit(id);
        let second = c.views.open(&c.map, true);
        let id = c.begin();
        c.commit(id);
        assert_eq!((c.views.oldest(), c.views.short_horizon()), (CommitNo(0), CommitNo(0)));
        assert_eq!(c.views.make_long(CommitNo(1), &c.map), 1);
        assert_eq!((c.views.oldest(), c.views.short_horizon()), (CommitNo(0), CommitNo(1)));
        assert_eq!(c.views.close(&first), Sweep::Nothing);
        assert_eq!((c.views.oldest(), c.views.short_horizon()), (CommitNo(1), CommitNo(1)));
        assert_eq!(c.views.close(&second), Sweep::Nothing);
        assert_eq!((c.views.oldest(), c.views.short_horizon()), (CommitNo(2), CommitNo(2)));
    }

    #[test]
    fn what_is_charged_to_a_view_is_given_out_at_its_end_or_at_once_behind_it() {
        let c = Commits::new();
        let key = |n: usize| n.to_be_bytes();
        let keys = |of: std::ops::Range<usize>| Sweep::Keys(of.map(|n| key(n).into()).collect());
        let view = c.views.open(&c.map, true);
        (0..CHARGES_MAX).for_each(|n| assert_eq!(view.charge(&key(n), 1), Sweep::Nothing));
        assert_eq!(c.views.close(&view), keys(0..CHARGES_MAX));
        assert_eq!(view.charge(&key(7), 1), keys(7..8));
        let view = c.views.open(&c.map, true);
        (0..=CHARGES_MAX).for_each(|n| assert_eq!(view.charge(&key(n), 1), Sweep::Nothing));
        assert_eq!(c.views.close(&view), Sweep::All);
    }

    #[test]
    fn all_see_only_what_committed_before_the_oldest() {
        let mut c = Commits::new();
        let a = c.begin();
        c.commit(a);
        let view = c.views.open(&c.map, true);
        let b = c.begin();
        assert!(!c.views.all_see(b, &c.map));
        c.commit(b);
        assert!(c.views.all_see(a, &c.map));
        assert!(!c.views.all_see(b, &c.map));
        assert_eq!(c.views.close(&view), Sweep::Nothing);
        assert!(c.views.all_see(b, &c.map));
    }
}
