//! What the layer above hears of waits.

use crate::info::Serial;

/// The transactions of which a [`WaitObserver`] wants to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitInterest {
    /// Of none.
    None,
    /// Of those that hold what is waited for, by the waiter or by others that are ahead of it, when
    /// the wait begins.
    Holders,
    /// Of all that have to get or release a lock before the waiter gets its own: when the wait
    /// begins, and anew whenever another one comes to be before the waiter.
    All,
}

/// Is told of waits by the threads that wait, which hold no lock of the lock manager then. It must
/// not wait for a transaction itself. One that only says whether a thread is to end hears of no
/// transaction.
pub trait WaitObserver: Send + Sync {
    /// Of which transactions it wants to hear if this thread is going to wait: with hundreds in the
    /// queue the list may be long.
    fn interest(&self) -> WaitInterest {
        WaitInterest::None
    }
    /// The transaction `waiter` is going to wait for `others`, which are sorted. While it waits it
    /// may say so anew, for others: see [`WaitInterest::All`].
    fn waits_for(&self, waiter: Serial, others: &[Serial]) {
        let _ = (waiter, others);
    }
    /// This thread is going to sleep.
    fn begins(&self) {}
    /// It has woken up.
    fn ends(&self) {}
    /// True if this thread is to end a wait that is not for a lock, or long work, with
    /// [`holdfast_base::Error::Interrupted`]. A thread that waits asks before it sleeps and
    /// whenever it is woken, and holds the mutex of what it waits at. A thread that works asks now
    /// and then.
    fn gives_up(&self) -> bool;
}

#[cfg(test)]
mod tests;
