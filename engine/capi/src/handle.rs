//! Byte strings.
//!
//! This module also has handles, options and arrays as they cross the border, and the macros with
//! which the entry points take them.

use std::mem::MaybeUninit;

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
        let all = unsafe { array(from, count) };
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

/// The handles of an array, for changing.
///
/// # Errors
/// [`Error::InvalidArgument`] if one is null, or there twice.
///
/// # Safety
/// [The rules](crate#rules) for handles that one thread uses at a time.
pub(crate) unsafe fn each_exclusive<'a, T>(handles: &[*mut T]) -> Result<Vec<&'a mut T>, Error> {
    let mut sorted = handles.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::InvalidArgument("a handle is given twice".into()));
    }
    // SAFETY: as promised by the caller; no two of them are the same.
    handles.iter().map(|&handle| unsafe { exclusive(handle) }).collect()
}

/// A structure of options that begins with its size. All of its bytes may be zero.
///
/// # Safety
/// The structure is `repr(C)`, its first field is a `usize`, and zero is a value of each field.
pub(crate) unsafe trait Options: Copy {
    /// Bytes that the structure had in version 1 of the interface.
    const SIZE_MIN: usize;
}

/// The options behind a pointer. What the caller's header does not have of them is zero.
///
/// # Errors
/// [`Error::InvalidArgument`] if the pointer is null, or the size is none that this interface or an
/// older one has.
///
/// # Safety
/// [The rules](crate#rules): the pointer is null or leads to as many bytes as the size says.
pub(crate) unsafe fn options<T: Options>(from: *const T) -> Result<T, Error> {
    if from.is_null() {
        return Err(null_handle());
    }
    // SAFETY: the caller promises a structure that begins with its size.
    let size = unsafe { from.cast::<usize>().read() };
    if size < T::SIZE_MIN || size > size_of::<T>() {
        let what = format!("struct_size = {size}, but it has to be {} to {}", T::SIZE_MIN, size_of::<T>());
        return Err(Error::InvalidArgument(what));
    }
    let mut options = MaybeUninit::<T>::zeroed();
    // SAFETY: the caller promises `size` bytes, and there is room for them.
    unsafe { options.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.cast(), size) };
    // SAFETY: each field has a value: the caller's, or zero.
    Ok(unsafe { options.assume_init() })
}

/// The elements of an array that is passed in.
///
/// # Safety
/// [The rules](crate#rules) for an array.
pub(crate) unsafe fn array<'a, T>(from: *const T, count: usize) -> &'a [T] {
    // SAFETY: the caller promises so many.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(from, count) } }
}

/// Refuses a null pointer where a new handle is to be stored, before it is made.
///
/// # Errors
/// [`Error::InvalidArgument`] if it is null.
pub(crate) fn check_out<T>(out: *mut *mut T) -> Result<(), Error> {
    if out.is_null() { Err(Error::InvalidArgument("there is no place for the handle".into())) } else { Ok(()) }
}

/// Gives a new handle to the caller.
///
/// # Safety
/// [The rules](crate#rules) for an out pointer.
pub(crate) unsafe fn give<T>(out: *mut *mut T, value: T) -> Result<(), Error> {
    // Before the handle is made: an assignment would evaluate its right side first, and leak it.
    // SAFETY: the caller promises that it is writable, or null.
    let out = unsafe { out.as_mut() }.ok_or_else(null_handle)?;
    *out = Box::into_raw(Box::new(value));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Grown {
        struct_size: usize,
        old: u64,
        new: u64,
    }

    // SAFETY: it begins with its size, and zero is a value of each field.
    unsafe impl Options for Grown {
        const SIZE_MIN: usize = 16;
    }

    fn read(from: *const Grown) -> Result<Grown, Error> {
        // SAFETY: the tests pass whole structures, or null.
        unsafe { options(from) }
    }

    #[test]
    fn what_an_older_caller_does_not_know_is_zero() {
        let from = Grown { struct_size: 16, old: 1, new: 2 };
        assert_eq!(read(&raw const from).unwrap(), Grown { struct_size: 16, old: 1, new: 0 });
        let from = Grown { struct_size: size_of::<Grown>(), old: 1, new: 2 };
        assert_eq!(read(&raw const from).unwrap(), from);
    }

    #[test]
    fn what_has_no_place_is_dropped() {
        let value = std::rc::Rc::new(());
        // SAFETY: a null pointer is an error.
        assert!(unsafe { give(std::ptr::null_mut(), std::rc::Rc::clone(&value)) }.is_err());
        assert_eq!(std::rc::Rc::strong_count(&value), 1);
    }

    #[test]
    fn a_size_that_no_interface_has_is_an_error() {
        for struct_size in [0, 15, 25] {
            let from = Grown { struct_size, old: 1, new: 2 };
            let error = read(&raw const from).unwrap_err();
            assert!(error.to_string().contains("struct_size"), "{error}");
        }
        assert!(read(std::ptr::null()).is_err());
    }
}
