//! The locks of all code that the model checkers do not explore: `parking_lot`'s, or the
//! scheduler's under `--cfg sim`.
//!
//! Every lock of the crates below the engine's public interface is one of these or one of
//! [`sync`](crate::sync), so the simulation controls each wait.

#[cfg(sim)]
pub use crate::sim::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(sim))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Releases a mutex. If a thread waits for it, that thread has it before this one can acquire it
/// again.
pub fn release_to_waiter<T>(guard: MutexGuard<'_, T>) {
    // The scheduler lets any thread go on that may.
    #[cfg(sim)]
    drop(guard);
    #[cfg(not(sim))]
    MutexGuard::unlock_fair(guard);
}

#[cfg(sim)]
type Sharded<T> = RwLock<T>;
#[cfg(not(sim))]
type Sharded<T> = crossbeam_utils::sync::ShardedLock<T>;

/// Reads through a [`ReadMostly`].
#[cfg(sim)]
pub type ReadMostlyGuard<'a, T> = RwLockReadGuard<'a, T>;
/// Reads through a [`ReadMostly`].
#[cfg(not(sim))]
pub type ReadMostlyGuard<'a, T> = crossbeam_utils::sync::ShardedLockReadGuard<'a, T>;
/// Writes through a [`ReadMostly`].
#[cfg(sim)]
pub type ReadMostlyWriteGuard<'a, T> = RwLockWriteGuard<'a, T>;
/// Writes through a [`ReadMostly`].
#[cfg(not(sim))]
pub type ReadMostlyWriteGuard<'a, T> = crossbeam_utils::sync::ShardedLockWriteGuard<'a, T>;

/// A lock whose readers on different cores write to different cache lines; a writer takes all of
/// them.
#[derive(Debug, Default)]
pub struct ReadMostly<T>(Sharded<T>);

impl<T> ReadMostly<T> {
    /// Waits until no writer holds the lock.
    pub fn read(&self) -> ReadMostlyGuard<'_, T> {
        #[cfg(sim)]
        return self.0.read();
        // No thread leaves data inconsistent under these locks when it panics.
        #[cfg(not(sim))]
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits until no other thread holds the lock.
    pub fn write(&self) -> ReadMostlyWriteGuard<'_, T> {
        #[cfg(sim)]
        return self.0.write();
        #[cfg(not(sim))]
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
