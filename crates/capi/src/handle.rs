//! What crosses the border: byte strings, handles, and the macros with which the entry points take
//! them.

use holdfast::Error;

/// A borrowed byte slice, owned by the C side.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The first byte; may be anything if there is none.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

impl Slice {
    /// For C to read.
    pub(crate) fn of(bytes: &[u8]) -> Slice {
        Slice { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// [The rules](crate#rules) for a slice that is passed in; the bytes are used within the call
    /// only.
    pub(crate) unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the caller promises `len` readable bytes.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }

    /// The bytes as text.
    ///
    /// # Safety
    /// As [`Slice::bytes`].
    pub(crate) unsafe fn text<'a>(self) -> Result<&'a str, Error> {
        // SAFETY: as promised by the caller.
        std::str::from_utf8(unsafe { self.bytes() }).map_err(|_| Error::InvalidArgument("a name is not UTF-8".into()))
    }
}

/// What is to be kept with a table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The table's name.
    pub table: Slice,
    /// The bytes.
    pub bytes: Slice,
}

impl Definition {
    /// The names and bytes of `count` definitions.
    ///
    /// # Safety
    /// [The rules](crate#rules) for arrays and slices that are passed in; they are used within the
    /// call only.
    pub(crate) unsafe fn pairs<'a>(from: *const Definition, count: usize) -> Result<Vec<(&'a str, &'a [u8])>, Error> {
        // SAFETY: the caller promises so many.
        let all = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(from, count) } };
        // SAFETY: as promised by the caller.
        all.iter().map(|one| unsafe { Ok((one.table.text()?, one.bytes.bytes())) }).collect()
    }
}

/// The handle behind a pointer, for reading.
///
/// # Safety
/// [The rules](crate#rules) for a handle.
pub(crate) unsafe fn shared<'a, T>(handle: *const T) -> Result<&'a T, Error> {
    // SAFETY: the caller promises a live handle, or null.
    unsafe { handle.as_ref() }.ok_or_else(null_handle)
}

/// The handle behind a pointer, for changing.
///
/// # Safety
/// [The rules](crate#rules) for a handle that one thread uses at a time.
pub(crate) unsafe fn exclusive<'a, T>(handle: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: the caller promises a live handle that no other thread uses, or null.
    unsafe { handle.as_mut() }.ok_or_else(null_handle)
}

/// Gives a new handle to the caller.
///
/// # Safety
/// [The rules](crate#rules) for an out pointer.
pub(crate) unsafe fn give<T>(out: *mut *mut T, value: T) -> Result<(), Error> {
    // SAFETY: the caller promises that it is writable, or null.
    *unsafe { out.as_mut() }.ok_or_else(null_handle)? = Box::into_raw(Box::new(value));
    Ok(())
}

/// Stores a result if the caller wants it.
///
/// # Safety
/// [The rules](crate#rules) for an out pointer.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) {
    // SAFETY: the caller promises that it is writable, or null.
    if let Some(out) = unsafe { out.as_mut() } {
        *out = value;
    }
}

/// Takes a handle back and drops it.
///
/// # Safety
/// [The rules](crate#rules): the handle came from [`give`] and is closed once; or it is null.
pub(crate) unsafe fn close<T>(handle: *mut T) -> Option<Box<T>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: it came from a box, as the caller promises.
    Some(unsafe { Box::from_raw(handle) })
}

fn null_handle() -> Error {
    Error::InvalidArgument("a handle is null".into())
}

/// Defines entry points: `extern "C"` functions that return a [`crate::Code`] and let no panic out.
/// `take!(expr)` in a body is for the calls of this module, which rely on the rules.
macro_rules! entry_points {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// [The rules](crate#rules).
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> $crate::Code {
                $crate::error::guard(move || $body)
            }
        )*
    };
}

/// Calls a function of this module that relies on what callers of an entry point promise.
macro_rules! take {
    ($call:expr) => {{
        // SAFETY: the callers of all entry points keep the rules of the crate.
        unsafe { $call }
    }};
}

pub(crate) use {entry_points, take};
