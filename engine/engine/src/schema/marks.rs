//! Numbers that a table counts up and never gives out twice: in memory, with a high-water mark
//! ahead of them in the file.
//!
//! They belong to the database: however many layers use a table, they count on together.
//!
//! Invariant *a number that is known is covered*: the next number in memory is never above the mark
//! in the file. A session that finds the next number above its own need not raise it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::blocking::Mutex;
use holdfast_pool::AccessKind;

use crate::Result;
use crate::schema::store::TableStore;

/// Marks of a table.
pub const MARKS: usize = 2;

/// Numbers of a mark that are taken at a time where nothing else is asked for; so many at most are
/// lost by a crash.
const MARK_AHEAD: u64 = 1000;

/// Numbers that a table counts up: the next one of each, and from where on the file does not know.
pub(crate) struct Marks {
    store: Arc<TableStore>,
    /// Changed by the holder of the mutex.
    next: [AtomicU64; MARKS],
    saved: Mutex<[u64; MARKS]>,
}

impl Marks {
    pub fn load(store: &Arc<TableStore>) -> Result<Marks> {
        let space = store.space()?;
        let access = space.store().pool().access(AccessKind::Point);
        let mut saved = [0; MARKS];
        for (which, saved) in saved.iter_mut().enumerate() {
            // 0: never set.
            *saved = space.mark(which, &access)?.max(1);
        }
        Ok(Marks { store: Arc::clone(store), next: saved.map(AtomicU64::new), saved: Mutex::new(saved) })
    }

    pub fn next(&self, which: usize) -> u64 {
        self.next[which].load(Ordering::Acquire)
    }

    /// Takes `count` numbers; the first of them, or `None` if there are not so many left.
    pub fn take(&self, which: usize, count: u64) -> Result<Option<u64>> {
        let mut saved = self.saved.lock();
        let first = self.next(which);
        let Some(next) = first.checked_add(count) else { return Ok(None) };
        self.cover(which, next, MARK_AHEAD, &mut saved)?;
        Ok(Some(first))
    }

    /// Sees to it that the next number is at least `next`; at most `ahead` more are lost by a
    /// crash.
    pub fn raise(&self, which: usize, next: u64, ahead: u64) -> Result<()> {
        if self.next(which) >= next {
            return Ok(());
        }
        let mut saved = self.saved.lock();
        if self.next(which) < next {
            self.cover(which, next, ahead, &mut saved)?;
        }
        Ok(())
    }

    pub fn set(&self, which: usize, next: u64) -> Result<()> {
        let mut saved = self.saved.lock();
        self.save(which, next, &mut saved)?;
        self.publish(which, next, &saved);
        Ok(())
    }

    /// Makes `next` the next number, when the file never lets a lower one be given out again.
    fn cover(&self, which: usize, next: u64, ahead: u64, saved: &mut [u64; MARKS]) -> Result<()> {
        if next > saved[which] && !holdfast_base::planted!("numbers-not-covered") {
            self.save(which, next.saturating_add(ahead), saved)?;
        }
        self.publish(which, next, saved);
        Ok(())
    }

    fn publish(&self, which: usize, next: u64, saved: &[u64; MARKS]) {
        let covered = next <= saved[which] || holdfast_base::planted!("numbers-not-covered");
        debug_assert!(covered, "invariant: a number that is known is covered: {next} of {}", saved[which]);
        self.next[which].store(next, Ordering::Release);
    }

    /// A row that uses the number is logged later, so the mark need not be waited for.
    fn save(&self, which: usize, value: u64, saved: &mut [u64; MARKS]) -> Result<()> {
        let space = self.store.space()?;
        let access = space.store().pool().access(AccessKind::Point);
        space.set_mark(which, value, &access)?;
        saved[which] = value;
        Ok(())
    }

    /// Before a clean stop: the next open goes on without a gap.
    pub fn save_exactly(&self) -> Result<()> {
        let mut saved = self.saved.lock();
        for which in 0..MARKS {
            let next = self.next[which].load(Ordering::Acquire);
            if saved[which] != next {
                self.save(which, next, &mut saved)?;
            }
        }
        Ok(())
    }
}
