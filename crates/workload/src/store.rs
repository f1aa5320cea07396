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
    /// Everything else: the run is over.
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

/// What a reader says about a range that it is going to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Nothing: an ordinary range.
    Undeclared,
    /// That it is a scan, whose pages it will not want again.
    Declared,
}

/// What takes the rows of a range, (key, row) by (key, row); `false` ends the range.
pub type RowSink<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// One connection to a store of tables whose rows are byte strings ([`crate::row`]) under
/// byte-string keys. The store keeps secondary indexes itself.
pub trait Rows {
    /// Begins a transaction; `read_only` promises that it does not write.
    fn begin(&mut self, read_only: bool) -> Result<()>;
    /// Commits the transaction.
    fn commit(&mut self) -> Result<()>;
    /// Rolls the transaction back; a no-op without one.
    fn rollback(&mut self) -> Result<()>;
    /// Reads the row under `key` into `row` (cleared first); whether there is one.
    fn get(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool>;
    /// Reads the row under `key` and locks it until the end of the transaction.
    fn get_for_update(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool>;
    /// Gives the rows with keys `from..=to` (`None`: all to that side) to `sink`, in key order.
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
    /// Deletes the row under `key`; whether there was one.
    fn delete(&mut self, table: TableNo, key: &[u8]) -> Result<bool>;
}
