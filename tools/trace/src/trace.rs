//! A trace in memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use holdfast_base::{Error, Result};
use holdfast_policy::ScanHint;

/// The load that makes a request. Only generated traces distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Class {
    /// The measured load: OLTP, or every request of a trace that does not distinguish them.
    #[default]
    Foreground,
    /// The background load (a dump).
    Background,
}

/// One or more touches of one page, one directly after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The page, as an index of [`Trace::keys`].
    pub page: u32,
    /// The statement that touches it; 0 if unknown.
    pub statement: u32,
    /// Touches, at least 1. Only the first can miss.
    pub touches: u16,
    /// The load that makes the request.
    pub class: Class,
    /// The hint of the declared scan that the request belongs to, if it does.
    pub scan: ScanHint,
}

/// Which scans of a trace are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Declared {
    /// Those of the trace: the background load of a generated trace is a declared scan.
    #[default]
    AsTraced,
    /// All: the whole trace is a table scanned again and again; a scan ends where page numbers
    /// fall.
    Whole,
}

/// A named sequence of requests. Pages are numbered densely, so that simulators can use arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The name in reports: that of the file, or of the generator.
    pub name: String,
    /// The page numbers of the source, by dense number.
    pub keys: Vec<u64>,
    /// The requests in order.
    pub requests: Vec<Request>,
    /// Foreground misses are counted from this request on; before it the caches warm up.
    pub measured_from: usize,
}

impl Trace {
    /// The number of different pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.keys.len()
    }

    /// Touches, those before the measurement included.
    #[must_use]
    pub fn touches(&self) -> u64 {
        self.requests.iter().map(|r| u64::from(r.touches)).sum()
    }
}

/// Builds a trace from page numbers.
pub(crate) struct Builder {
    trace: Trace,
    dense: HashMap<u64, u32>,
}

impl Builder {
    pub(crate) fn new(name: impl Into<String>) -> Builder {
        let trace = Trace { name: name.into(), keys: Vec::new(), requests: Vec::new(), measured_from: 0 };
        Builder { trace, dense: HashMap::new() }
    }

    /// Appends a request for the page with number `key`.
    ///
    /// # Errors
    /// [`Error::LimitReached`] beyond 2^32 - 2 pages.
    pub(crate) fn push(&mut self, key: u64, request: Request) -> Result<()> {
        let next = self.trace.keys.len();
        let page = match self.dense.entry(key) {
            Entry::Occupied(e) => *e.get(),
            Entry::Vacant(e) => {
                let page = u32::try_from(next).ok().filter(|&p| p < u32::MAX);
                let page = page.ok_or_else(|| Error::LimitReached("a trace of more than 2^32 - 2 pages".into()))?;
                self.trace.keys.push(key);
                *e.insert(page)
            }
        };
        self.trace.requests.push(Request { page, ..request });
        Ok(())
    }

    /// Ends the warm-up: requests from here on are measured.
    pub(crate) fn start_measuring(&mut self) {
        self.trace.measured_from = self.trace.requests.len();
    }

    pub(crate) fn finish(self) -> Trace {
        self.trace
    }
}

impl Request {
    /// One touch of the foreground, no scan. The builder fills in the page.
    pub(crate) const PLAIN: Request =
        Request { page: 0, statement: 0, touches: 1, class: Class::Foreground, scan: ScanHint::None };
}
