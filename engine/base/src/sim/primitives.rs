//! Primitives under the scheduler, with the interfaces of `parking_lot` and `std`.
//!
//! Each wraps the real primitive, which is never contended in a run: a thread that cannot acquire
//! it blocks in the scheduler. So the value is as safe as with the real primitive.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::time::Instant;

use super::{Key, block, is_simulated, point, step_aside, wake, within};

/// The kind is part of the key, since a value may have the same address as the lock around it.
fn key<T>(of: &T) -> Key {
    Key::Address(std::ptr::from_ref(of) as usize, std::any::type_name::<T>())
}

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

/// Holds a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only during a wait.
    inner: Option<parking_lot::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A free mutex around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        point();
        MutexGuard { mutex: self, inner: Some(self.acquire()) }
    }

    fn acquire(&self) -> parking_lot::MutexGuard<'_, T> {
        if !is_simulated() {
            return self.0.lock();
        }
        loop {
            if let Some(inner) = self.0.try_lock() {
                return inner;
            }
            block(key(self), None);
        }
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        point();
        Some(MutexGuard { mutex: self, inner: Some(self.0.try_lock()?) })
    }

    /// Waits for the mutex, for `limit` at most.
    pub fn try_lock_for(&self, limit: Duration) -> Option<MutexGuard<'_, T>> {
        point();
        if self.0.is_locked() && is_simulated() {
            block(key(self), Some(limit));
        }
        self.try_lock()
    }

    /// True if the mutex is held.
    pub fn is_locked(&self) -> bool {
        point();
        self.0.is_locked()
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// The value, which no other thread can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("the guard is not waiting")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("the guard is not waiting")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            wake(key(self.mutex), true);
            // A panic goes on without a switch, since a second panic would end the process.
            if !std::thread::panicking() {
                point();
            }
        }
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

/// How a wait with a limit ended.
#[derive(Clone, Copy, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the limit has passed.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable without waiters.
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar(parking_lot::Condvar::new())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) -> bool {
        point();
        wake(key(self), false);
        self.0.notify_one()
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) -> usize {
        point();
        wake(key(self), true);
        self.0.notify_all()
    }

    /// Releases the mutex, waits, acquires it again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_until_woken(guard, None);
    }

    /// As [`Condvar::wait`], for `limit` at most.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_until_woken(guard, Some(limit)))
    }

    /// Waits as long as `condition` holds.
    pub fn wait_while<T>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits as long as `condition` holds, until a moment.
    pub fn wait_while_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        until: Instant,
    ) -> WaitTimeoutResult {
        while condition(guard) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return WaitTimeoutResult(true);
            }
            self.wait_for(guard, left);
        }
        WaitTimeoutResult(false)
    }

    fn wait_until_woken<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Option<Duration>) -> bool {
        if !is_simulated() {
            let inner = guard.inner.as_mut().expect("the guard is not waiting");
            return match limit {
                Some(limit) => self.0.wait_for(inner, limit).timed_out(),
                None => {
                    self.0.wait(inner);
                    false
                }
            };
        }
        // Between the release and the block no other thread runs: a notification is not missed.
        drop(guard.inner.take());
        wake(key(guard.mutex), true);
        let timed_out = block(key(self), limit);
        guard.inner = Some(guard.mutex.acquire());
        timed_out
    }
}

/// A lock for many readers or one writer.
#[derive(Debug, Default)]
pub struct RwLock<T>(parking_lot::RwLock<T>);

/// Holds a [`RwLock`] shared.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T> {
    lock: &'a RwLock<T>,
    inner: Option<parking_lot::RwLockReadGuard<'a, T>>,
}

/// Holds a [`RwLock`] alone.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T> {
    lock: &'a RwLock<T>,
    inner: Option<parking_lot::RwLockWriteGuard<'a, T>>,
}

impl<T> RwLock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(parking_lot::RwLock::new(value))
    }

    /// Waits until no writer holds the lock.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        point();
        loop {
            if let Some(inner) = if is_simulated() { self.0.try_read() } else { Some(self.0.read()) } {
                return RwLockReadGuard { lock: self, inner: Some(inner) };
            }
            block(key(self), None);
        }
    }

    /// Waits until no other thread holds the lock.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        point();
        loop {
            if let Some(inner) = if is_simulated() { self.0.try_write() } else { Some(self.0.write()) } {
                return RwLockWriteGuard { lock: self, inner: Some(inner) };
            }
            block(key(self), None);
        }
    }

    /// The value, which no other thread can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("held until dropped")
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("held until dropped")
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("held until dropped")
    }
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        wake(key(self.lock), true);
    }
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        wake(key(self.lock), true);
    }
}

/// If `condition` holds, parks at `address` until [`wake_all_at`] of that address. The check and
/// the parking are one step with respect to [`wake_all_at`].
pub fn sleep_at(address: usize, condition: impl Fn() -> bool) {
    if condition() {
        block(Key::Address(address, ""), None);
    }
}

/// Wakes all threads that are parked at `address`.
pub fn wake_all_at(address: usize) {
    wake(Key::Address(address, ""), true);
}

/// Parks one thread until another wakes it.
#[derive(Debug)]
pub enum Parking {
    /// A thread of a run, by its number.
    Simulated(usize),
    /// A thread outside a run.
    Real(std::thread::Thread),
}

impl Parking {
    /// Returns the parking of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Parking {
        within(|_, me| me).map_or_else(|| Parking::Real(std::thread::current()), Parking::Simulated)
    }

    /// Parks until woken. Returns at once if a wake-up came since the last park.
    pub fn park(&self) {
        let Parking::Simulated(me) = *self else { return std::thread::park() };
        point();
        let take = || within(|shared, _| std::mem::take(&mut shared.world.lock().threads[me].token));
        if take() == Some(false) {
            block(Key::Park(me), None);
            take();
        }
    }

    /// Wakes the thread.
    pub fn unpark(&self) {
        match self {
            Parking::Real(thread) => thread.unpark(),
            Parking::Simulated(number) => {
                within(|shared, _| {
                    let mut world = shared.world.lock();
                    world.threads[*number].token = true;
                    world.wake(Key::Park(*number), true);
                });
                point();
            }
        }
    }
}

/// A thread of the run, or one of the system outside a run.
#[derive(Debug)]
pub enum JoinHandle<T> {
    /// In a run.
    Simulated {
        /// Its number.
        number: usize,
        /// What it returned.
        result: std::sync::Arc<parking_lot::Mutex<Option<std::thread::Result<T>>>>,
    },
    /// A thread outside a run.
    Real(std::thread::JoinHandle<T>),
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// What the thread panicked with.
    ///
    /// # Panics
    /// If a thread of a run has ended without a result.
    pub fn join(self) -> std::thread::Result<T> {
        match self {
            JoinHandle::Real(handle) => handle.join(),
            JoinHandle::Simulated { number, result } => {
                point();
                loop {
                    if let Some(result) = result.lock().take() {
                        return result;
                    }
                    block(Key::End(number), None);
                }
            }
        }
    }

    /// True in the thread itself.
    #[must_use]
    pub fn is_this_thread(&self) -> bool {
        match self {
            JoinHandle::Real(handle) => handle.thread().id() == std::thread::current().id(),
            JoinHandle::Simulated { number, .. } => within(|_, me| me) == Some(*number),
        }
    }
}

/// Starts a thread.
///
/// # Errors
/// If the system cannot start one.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let Some((shared, _)) = super::ME.get() else {
        return std::thread::Builder::new().name(name.into()).spawn(body).map(JoinHandle::Real);
    };
    let (started, spawned) = super::start(shared, name, body);
    spawned?;
    point();
    Ok(JoinHandle::Simulated { number: started.number, result: started.result })
}

/// Passes the baton to another thread.
pub fn yield_now() {
    step_aside();
}

/// Passes the baton to another thread, since a loop that spins waits for one.
pub fn spin_loop() {
    step_aside();
}

/// Lets simulated time pass.
pub fn sleep(time: Duration) {
    if is_simulated() {
        block(Key::Time, Some(time));
    } else {
        std::thread::sleep(time);
    }
}

/// Atomics each of whose operations is a point.
pub mod atomic {
    pub use std::sync::atomic::{Ordering, compiler_fence, fence};

    use super::point;

    #[inline]
    fn behind_point<R>(_: &[Ordering], access: impl FnOnce() -> R) -> R {
        point();
        access()
    }

    /// Each operation is a point anyway.
    #[derive(Debug, Default)]
    struct Loads;

    impl Loads {
        const fn new() -> Loads {
            Loads
        }

        #[inline]
        fn note(&self) {}
    }

    wrapped_atomics!(std::sync::atomic, behind_point, const);
}
