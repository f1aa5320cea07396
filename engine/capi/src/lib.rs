//! Holdfast's C interface, for the handler of the MariaDB engine: opaque handles, error codes, no
//! logic. The header `include/holdfast.h` is made of this crate by `cargo xtask tidy --header`.
//!
//! # Rules
//! They hold for every function.
//!
//! * A handle comes from the function that opens it and is valid until the one that closes it; it
//!   is closed once, and not while another thread uses it. Databases and tables may be used by many
//!   threads at a time, transactions and cursors by one at a time. A null handle is an error, not a
//!   crash; closing a null handle does nothing.
//! * A [`Slice`] that is passed in points to `len` readable bytes (or to anything if `len` is 0)
//!   for the time of the call. An out pointer points to writable memory for its type, or is null if
//!   the result is not wanted; one for a new handle is not null.
//! * Bytes that come back belong to a cursor, a buffer, or a table, and stay as they are until that
//!   is used or closed next.
//! * A function returns [`Code::Ok`], [`Code::NotFound`], or what went wrong; [`hf_error_message`]
//!   then has the words, for the calling thread, until its next call. On anything but [`Code::Ok`]
//!   out pointers are untouched.
//! * An enumeration has one of the values that the header names for it.
//! * A structure of options begins with its size, which the caller sets to `sizeof` the structure:
//!   what a caller of an older header does not know is zero, which stands for the default.
//! * No panic leaves this library: it becomes [`Code::Panic`], and the handle's database is to be
//!   closed.

mod alter;
mod cursor;
mod database;
mod error;
mod handle;
mod listing;
mod load;
mod row;
mod session;
mod table;
mod transaction;

pub use alter::*;
pub use cursor::*;
pub use database::*;
pub use error::*;
pub use handle::*;
pub use listing::*;
pub use load::*;
pub use row::*;
pub use session::*;
pub use table::*;
pub use transaction::*;

/// The version of this interface. It grows when a caller that was compiled with an older header
/// would not work any more.
pub const API_VERSION: u32 = 1;

/// The version of the interface that the library has; a caller compares it with the
/// `HF_API_VERSION` that it was compiled with.
#[unsafe(no_mangle)]
pub extern "C" fn hf_api_version() -> u32 {
    API_VERSION
}
