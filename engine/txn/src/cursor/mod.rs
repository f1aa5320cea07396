//! Cursors over a range of an index.
//!
//! A cursor belongs to a transaction and lives beside it. It holds the view, not the transaction,
//! and between two calls it holds no latch and no page. It reads entries in batches that grow while
//! it is used, and judges each entry by the view.
//!
//! Changes by its own transaction:
//! * If the transaction has added entries to the index, the cursor reads the batch anew.
//! * If the transaction has changed or undone entries of the index, the cursor reads the entries of
//!   the batch again one by one. So an UPDATE does not read a batch for each row.
//! * A change of another index does not matter, with one exception: if the transaction replaces a
//!   version of a row that it does not see, entries that other transactions made of that row become
//!   visible. Then the cursor reads the batch anew.
//!
//! A locking cursor (always at SERIALIZABLE) has no view: it reads newest versions. It registers
//! its whole range before it reads, where the isolation level keeps phantoms out, and locks each
//! entry before it returns it. A cursor that is closed early releases the part of the range that it
//! did not reach. So does one whose transaction has to wait for a lock, of whatever; afterwards it
//! reads on from the entry that it has come to: others may have inserted behind it. (Otherwise
//! sessions that read the greatest key with a lock and insert the next one would block each other:
//! the holder of the lock could not insert because of those that wait for it.) See
//! [`Reading`](holdfast_lock::Reading).
//!
//! After some entries it locks those that follow as one, by a cover (see
//! [`CoverId`](holdfast_lock::CoverId)), up to one that another transaction has locked or waits
//! for.

mod buffers;
mod locked_entries;
mod locking;
mod options;
mod row_cursor;

pub use holdfast_tree::Direction;

pub use self::options::{CursorOptions, ScanMode};
pub use self::row_cursor::RowCursor;
