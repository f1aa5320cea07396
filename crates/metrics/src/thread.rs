//! Small numbers for threads: what shards are chosen by, here and in the floors above.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The calling thread's number: threads are numbered from 0 as they first ask.
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

#[cfg(test)]
mod tests {
    use super::thread_number;

    #[test]
    fn a_thread_keeps_its_number_and_shares_it_with_nobody() {
        let here = thread_number();
        assert_eq!(thread_number(), here);
        let there = std::thread::spawn(|| (thread_number(), thread_number())).join().unwrap();
        assert_eq!(there.0, there.1);
        assert_ne!(there.0, here);
    }
}
