//! Error codes.
//!
//! This module also has the guard around every entry point.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use holdfast::Error;

/// What a call came to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done.
    Ok = 0,
    /// There is no such row, or no further one.
    NotFound = 1,
    /// The key exists already, or a unique index forbids the row.
    DuplicateKey = 2,
    /// A lock was not granted in time.
    LockTimeout = 3,
    /// Chosen as the victim of a deadlock: the transaction has to be rolled back.
    Deadlock = 4,
    /// Locked, and the caller did not want to wait.
    WouldBlock = 5,
    /// Killed while it waited or did long work, or a function of the caller asked for its end.
    Interrupted = 6,
    /// Another transaction changed the row first.
    Conflict = 7,
    /// The snapshot was given up, or is older than the table or the index.
    SnapshotTooOld = 8,
    /// The key is too long.
    KeyTooLong = 9,
    /// The value is too long.
    ValueTooLong = 10,
    /// No room on the device.
    DiskFull = 11,
    /// The operating system refused.
    Io = 12,
    /// Stored bytes are not what was written.
    Damaged = 13,
    /// An earlier failure stopped the database.
    Poisoned = 14,
    /// A write where only reading is allowed.
    ReadOnly = 15,
    /// There is no such table.
    TableNotFound = 16,
    /// There is such a table already.
    TableExists = 17,
    /// An argument is out of range, or a handle is null.
    Invalid = 18,
    /// A limit is exceeded: of a transaction, of one change, or of a table.
    LimitReached = 19,
    /// The transaction has ended, or the database is closed.
    Closed = 20,
    /// There is no database, it is open elsewhere, or of a newer version.
    CannotOpen = 21,
    /// Anything else.
    Other = 22,
    /// A bug in the engine.
    Panic = 23,
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// The code for an error.
fn code_of(error: &Error) -> Code {
    match error {
        Error::Io { .. } => Code::Io,
        Error::DiskFull(_) => Code::DiskFull,
        Error::DamagedPage { .. } | Error::DamagedFile { .. } => Code::Damaged,
        Error::Poisoned(_) => Code::Poisoned,
        Error::AlreadyOpen(_) | Error::NotADatabase(_) | Error::AlreadyExists(_) | Error::Incompatible(_) => {
            Code::CannotOpen
        }
        Error::ReadOnly(_) => Code::ReadOnly,
        Error::InvalidArgument(_) => Code::Invalid,
        Error::TableNotFound(_) => Code::TableNotFound,
        Error::TableExists(_) => Code::TableExists,
        Error::DuplicateKey => Code::DuplicateKey,
        Error::KeyTooLong { .. } => Code::KeyTooLong,
        Error::ValueTooLong { .. } => Code::ValueTooLong,
        Error::Conflict => Code::Conflict,
        Error::Deadlock => Code::Deadlock,
        Error::LockTimeout => Code::LockTimeout,
        Error::WouldBlock => Code::WouldBlock,
        Error::Interrupted => Code::Interrupted,
        Error::SnapshotTooOld => Code::SnapshotTooOld,
        Error::LimitReached(_) => Code::LimitReached,
        Error::Closed(_) => Code::Closed,
        _ => Code::Other,
    }
}

fn remember(message: String) {
    // A zero byte would end the message for C; nothing readable has one.
    let message = CString::new(message.replace('\0', "?")).unwrap_or_default();
    // A thread that ends has none any more.
    let _ = MESSAGE.try_with(|m| *m.borrow_mut() = message);
}

/// Runs the body of an entry point: errors become codes, and a panic does not get past it.
pub(crate) fn guard(body: impl FnOnce() -> Result<Code, Error>) -> Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            let code = code_of(&error);
            remember(error.to_string());
            code
        }
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_string());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            remember(format!("a bug in the engine: {text}"));
            Code::Panic
        }
    }
}

/// The words for what this thread's last failed call returned; never null, valid until its next
/// call.
#[unsafe(no_mangle)]
pub extern "C" fn hf_error_message() -> *const c_char {
    MESSAGE.try_with(|m| m.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn message() -> String {
        // SAFETY: the message is a C string of this thread, and nothing changes it in between.
        unsafe { CStr::from_ptr(hf_error_message()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(guard(|| panic!("so {}", 1)), Code::Panic);
        assert_eq!(message(), "a bug in the engine: so 1");
    }

    /// What a thread has used first it drops last.
    struct FailsAtTheEnd;

    impl Drop for FailsAtTheEnd {
        fn drop(&mut self) {
            assert_eq!(guard(|| Err(Error::Deadlock)), Code::Deadlock);
            assert_eq!(message(), "");
        }
    }

    #[test]
    fn a_thread_that_ends_gets_codes_without_words() {
        thread_local!(static KEPT: FailsAtTheEnd = const { FailsAtTheEnd });
        let thread = std::thread::spawn(|| {
            KEPT.with(|_| ());
            guard(|| Err(Error::Deadlock))
        });
        assert_eq!(thread.join().unwrap(), Code::Deadlock);
    }

    #[test]
    fn errors_have_codes_and_words() {
        assert_eq!(guard(|| Err(Error::Deadlock)), Code::Deadlock);
        assert_eq!(message(), "deadlock; roll back and retry the transaction");
        assert_eq!(guard(|| Err(Error::TableNotFound("a\0b".into()))), Code::TableNotFound);
        assert_eq!(message(), "table `a?b` does not exist");
    }
}
