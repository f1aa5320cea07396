//! Threads of the engine: the system's, or the scheduler's under `--cfg sim`.

#[cfg(sim)]
pub use crate::sim::{JoinHandle, sleep, spawn, yield_now};
#[cfg(not(sim))]
pub use real::{JoinHandle, sleep, spawn, yield_now};

/// The number of processor cores that the process may use; 1 if that is not known.
#[must_use]
pub fn cores() -> usize {
    #[cfg(sim)]
    if let Some(cores) = crate::sim::cores() {
        return cores;
    }
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(not(sim))]
mod real {
    pub use std::thread::{sleep, yield_now};

    /// A thread that was started with [`spawn`].
    #[derive(Debug)]
    pub struct JoinHandle<T>(std::thread::JoinHandle<T>);

    impl<T> JoinHandle<T> {
        /// Waits for the end of the thread.
        ///
        /// # Errors
        /// What the thread panicked with.
        pub fn join(self) -> std::thread::Result<T> {
            self.0.join()
        }

        /// True in the thread itself.
        #[must_use]
        pub fn is_this_thread(&self) -> bool {
            self.0.thread().id() == std::thread::current().id()
        }
    }

    /// Starts a thread called `name`.
    ///
    /// # Errors
    /// If the system cannot start one.
    pub fn spawn<T: Send + 'static>(
        name: &str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        std::thread::Builder::new().name(name.into()).spawn(body).map(JoinHandle)
    }
}
