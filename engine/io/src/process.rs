//! The identity of the calling process, without a system call.
//!
//! A forked child has a copy of the memory and of the descriptors of its parent, but none of its
//! threads. It must not release or write what the parent holds (a lock on a directory, a database
//! with dirty pages). The system calls [`forked`] in every child, so a check costs a read of memory
//! and can be made on hot paths.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the process that first called [`Process::current`] and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Runs in a child before `fork` returns there.
extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A process. Its descendants are other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The calling process.
    ///
    /// # Panics
    /// If the system has no memory to register the fork handler.
    #[must_use]
    pub fn current() -> Process {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| {
            // Miri has no forks.
            if !cfg!(miri) {
                // SAFETY: `forked` only does an atomic addition, which a child of a process with
                // many threads may do. The C library removes the handler when the library that
                // contains it is unloaded.
                let result = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
                assert_eq!(result, 0, "no memory to register a fork handler");
            }
        });
        Process(GENERATION.load(Ordering::Relaxed))
    }

    /// True if this is the caller's process.
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}
