//! Batches: many requests at once, by io_uring or by a thread pool.
//!
//! Both give the same results. The choice is made when the first batch is submitted (or by
//! [`BatchMethod`]): io_uring where the kernel has it and grants it, else threads. A caller returns
//! from its batch when all requests are done, so a batch borrows the buffers and does not copy
//! them.

mod threads;
mod transfer;
#[cfg(target_os = "linux")]
mod uring;

use std::io;
use std::sync::OnceLock;

use holdfast_base::blocking::Mutex;

pub(crate) use transfer::{Buffer, Transfer};
use transfer::{rows, run_row};

/// How batches are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchMethod {
    /// io_uring where it is available, else threads.
    #[default]
    Auto,
    /// io_uring, or an error at open.
    IoUring,
    /// A thread pool.
    Threads,
}

/// Does batches for all files of a disk.
#[derive(Debug)]
pub(crate) struct Batcher {
    method: BatchMethod,
    chosen: OnceLock<Backend>,
}

#[derive(Debug)]
enum Backend {
    #[cfg(target_os = "linux")]
    Uring(uring::Rings),
    Threads(threads::ThreadPool),
}

impl Batcher {
    /// Creates a batcher that does batches by `method`. Nothing is started before the first batch.
    /// If `method` demands io_uring, its availability is checked at once.
    pub(crate) fn new(method: BatchMethod) -> io::Result<Batcher> {
        let chosen = OnceLock::new();
        if method == BatchMethod::IoUring {
            let _ = chosen.set(Backend::uring()?);
        }
        Ok(Batcher { method, chosen })
    }

    fn backend(&self) -> &Backend {
        self.chosen.get_or_init(|| match self.method {
            BatchMethod::Threads => Backend::threads(),
            BatchMethod::Auto | BatchMethod::IoUring => Backend::uring().unwrap_or_else(|_| Backend::threads()),
        })
    }

    /// The method of the batches, once it is decided.
    pub(crate) fn describe(&self) -> Option<&'static str> {
        self.chosen.get().map(|backend| match backend {
            #[cfg(target_os = "linux")]
            Backend::Uring(_) => "io_uring",
            Backend::Threads(_) => "threads",
        })
    }

    /// Tries every transfer once and leaves its result in it. The caller repeats short transfers.
    pub(crate) fn run(&self, transfers: &mut [Transfer<'_>]) {
        let mut rows = rows(transfers);
        if let [single] = &mut *rows {
            return run_row(single);
        }
        match self.backend() {
            #[cfg(target_os = "linux")]
            Backend::Uring(rings) => rings.run(&mut rows),
            Backend::Threads(pool) => {
                let rows: Vec<_> = rows.into_iter().map(Mutex::new).collect();
                pool.for_each(rows.len(), &|i| run_row(&mut rows[i].lock()));
            }
        }
    }
}

impl Backend {
    #[cfg(target_os = "linux")]
    fn uring() -> io::Result<Backend> {
        Ok(Backend::Uring(uring::Rings::new()?))
    }

    #[cfg(not(target_os = "linux"))]
    fn uring() -> io::Result<Backend> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn threads() -> Backend {
        Backend::Threads(threads::ThreadPool::new())
    }
}
