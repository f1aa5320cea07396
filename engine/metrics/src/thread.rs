//! Small numbers for threads, by which this crate and the floors above choose shards.

use std::cell::Cell;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

/// Groups of threads. The model checker explores two.
pub const GROUPS: usize = if cfg!(loom) { 2 } else { 16 };

/// The calling thread's number. Threads are numbered from 0 at their first call.
#[cfg(not(loom))]
#[inline]
#[must_use]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const UNSET: usize = usize::MAX;
    thread_local!(static NUMBER: Cell<usize> = const { Cell::new(UNSET) });
    NUMBER.with(|number| {
        if number.get() == UNSET {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

#[cfg(loom)]
loom::thread_local!(static NUMBER: Cell<usize> = Cell::new(0));

/// The calling thread's number, which is the same in each execution that loom explores.
#[cfg(loom)]
#[must_use]
pub fn thread_number() -> usize {
    NUMBER.with(Cell::get)
}

/// Gives the calling thread a number other than 0.
#[cfg(loom)]
pub fn set_thread_number(number: usize) {
    NUMBER.with(|own| own.set(number));
}

/// The calling thread's group, for [`Spread::of`].
#[inline]
#[must_use]
pub fn thread_group() -> usize {
    thread_number() % GROUPS
}

/// A reference that one group of threads shares. Each group's reference has its count in a cache
/// line of its own.
pub type Local<T> = Arc<CachePadded<T>>;

/// Puts `value` behind a new reference.
pub fn local<T>(value: T) -> Local<T> {
    Arc::new(CachePadded::new(value))
}

impl<T: Default> Default for Spread<T> {
    fn default() -> Spread<T> {
        Spread::new(T::default)
    }
}

/// One value for each group of threads, so that threads of different groups rarely share a cache
/// line.
#[derive(Debug)]
pub struct Spread<T>([CachePadded<T>; GROUPS]);

impl<T> Spread<T> {
    /// Calls `make` for the value of each group.
    pub fn new(mut make: impl FnMut() -> T) -> Spread<T> {
        Spread(std::array::from_fn(|_| CachePadded::new(make())))
    }

    /// The value of the calling thread's group.
    #[inline]
    #[must_use]
    pub fn mine(&self) -> &T {
        self.of(thread_group())
    }

    /// The value of a group.
    ///
    /// # Panics
    /// If `group` is not below [`GROUPS`].
    #[inline]
    #[must_use]
    pub fn of(&self, group: usize) -> &T {
        &self.0[group]
    }

    /// The value for things with this number. It spreads them by their number instead of by
    /// threads.
    #[inline]
    #[must_use]
    pub fn by(&self, number: u64) -> &T {
        &self.0[number as usize % GROUPS]
    }

    /// The values of all groups.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|own| &**own)
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, Spread, thread_number};

    #[test]
    fn each_group_has_its_own() {
        let mut made = 0;
        let spread = Spread::new(|| {
            made += 1;
            made
        });
        assert_eq!(spread.all().copied().collect::<Vec<_>>(), (1..=GROUPS).collect::<Vec<_>>());
        assert_eq!(*spread.mine(), thread_number() % GROUPS + 1);
    }

    #[test]
    fn a_thread_keeps_its_number_and_shares_it_with_nobody() {
        let here = thread_number();
        assert_eq!(thread_number(), here);
        let there = std::thread::spawn(|| (thread_number(), thread_number())).join().unwrap();
        assert_eq!(there.0, there.1);
        assert_ne!(there.0, here);
    }
}
