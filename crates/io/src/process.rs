//! Which process this is, without a system call.
//!
//! A forked child has a copy of the memory and of the descriptors of its parent, but none of its threads. What the parent
//! holds (a lock on a directory, a database with dirty pages) is not the child's to release or to write. The system
//! calls [`forked`] in every child, so that the question costs a read of memory and can be asked on hot paths.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the process that first asked and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Runs in a child before `fork` returns there.
extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A process: its descendants are others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The one that asks.
    ///
    /// # Panics
    /// If the system has no memory to note down who is to be told of forks.
    #[must_use]
    pub fn current() -> Process {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| {
            // Miri knows no forks.
            if !cfg!(miri) {
                // SAFETY: `forked` does nothing but an atomic addition, which a child of a process with many threads may do;
                // the C library forgets it when the library that it is part of is unloaded.
                let result = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
                assert_eq!(result, 0, "no memory to register a fork handler");
            }
        });
        Process(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this process is the caller's.
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}
