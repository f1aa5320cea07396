//! Rows as bytes: keys and values of the program's types, encoded and decoded.

use std::cell::Cell;
use std::ops::{Bound, RangeBounds};

use holdfast_base::limits;

use crate::rows::types::{Key, Value};
use crate::{Error, Result};

/// A row, owned.
pub type Row<K, V> = (<K as Value>::Owned, <V as Value>::Owned);

/// The encoded key.
pub(crate) fn encode_key<K: Key>(key: K::Ref<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    K::encode_key(key, true, &mut out);
    out
}

/// Runs `body` with the encoded key, in a buffer that the thread keeps, so that a read allocates
/// nothing.
pub(crate) fn with_key<K: Key, R>(key: K::Ref<'_>, body: impl FnOnce(&[u8]) -> R) -> R {
    thread_local!(static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });
    let mut buffer = BUFFER.take();
    buffer.clear();
    K::encode_key(key, true, &mut buffer);
    let result = body(&buffer);
    BUFFER.set(buffer);
    result
}

/// The encoded bounds of a range of keys.
pub(crate) fn encode_bounds<'k, K: Key>(range: &impl RangeBounds<K::Ref<'k>>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let encode = |bound: Bound<&K::Ref<'k>>| bound.map(|key| encode_key::<K>(*key));
    (encode(range.start_bound()), encode(range.end_bound()))
}

/// The encoded value.
///
/// # Errors
/// [`Error::ValueTooLong`] if it is known to be that before it is copied.
pub(crate) fn encode<V: Value>(value: V::Ref<'_>) -> Result<Vec<u8>> {
    let len = V::encoded_len_min(value);
    if len > limits::VALUE_LEN_MAX {
        return Err(Error::ValueTooLong { len, max: limits::VALUE_LEN_MAX });
    }
    let mut out = Vec::new();
    V::encode(value, true, &mut out);
    Ok(out)
}

/// A row that the program's types cannot read.
pub(crate) fn undecodable<T: Value>(table: &str, what: &str) -> Error {
    Error::TableMismatch {
        table: table.into(),
        what: format!("it holds a {what} that is no {}: was it written with other types?", T::type_name()),
    }
}
