//! The small trait between workloads and a table store.

use std::fmt;

/// `Result` with a workload's [`Failure`].
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a statement failed, in the two kinds that a client acts on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A deadlock, a conflict or a lock wait timeout: roll back and repeat the transaction.
    #[error("{0}")]
    Retry(String),
    /// Any other failure: it ends the run.
    #[error(transparent)]
    Fatal(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl Failure {
    /// A failure that ends the run, from a message.
    pub fn fatal(message: impl fmt::Display) -> Failure {
        Failure::Fatal(message.to_string().into())
    }
}

/// A table of the workload, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableNo(pub usize);

/// The declaration that a reader makes for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// None: an ordinary range.
    Undeclared,
    /// The range is a scan, whose pages the reader will not need again.
    Declared,
}

/// Receives the rows of a range, (key, row) by (key, row); `false` ends the range.
pub type RowSink<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// One connection to a store of tables whose rows are byte strings ([`crate::row`]) under
/// byte-string keys. The store keeps secondary indexes itself.
pub trait Rows {
    /// Begins a transaction; `read_only` promises that it does not write.
    fn begin(&mut self, read_only: bool) -> Result<()>;
    /// Commits the transaction.
    fn commit(&mut self) -> Result<()>;
    /// Rolls the transaction back; does nothing without one.
    fn rollback(&mut self) -> Result<()>;
    /// Reads the row under `key` into `row` (cleared first). True if there is one.
    fn get(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool>;
    /// Reads the row under `key` and locks it until the end of the transaction.
    fn get_for_update(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool>;
    /// Passes the rows with keys `from..=to` (`None`: no bound) to `sink`, in key order.
    fn range(
        &mut self,
        table: TableNo,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        scan: Scan,
        sink: RowSink<'_>,
    ) -> Result<()>;
    /// Inserts or replaces the row under `key`.
    fn put(&mut self, table: TableNo, key: &[u8], row: &[u8]) -> Result<()>;
    /// Deletes the row under `key`. True if there was one.
    fn delete(&mut self, table: TableNo, key: &[u8]) -> Result<bool>;
}
