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

/// A larger buffer is not kept: a thread that has asked for one long key must not hold its memory.
const KEPT_BYTES: usize = 64 << 10;

/// Runs `body` with the encoded key, in a buffer that the thread keeps, so that a read allocates
/// nothing.
pub(crate) fn with_key<K: Key, R>(key: K::Ref<'_>, body: impl FnOnce(&[u8]) -> R) -> R {
    thread_local!(static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });
    // A thread that ends has none any more.
    let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
    buffer.clear();
    K::encode_key(key, true, &mut buffer);
    let result = body(&buffer);
    if buffer.capacity() <= KEPT_BYTES {
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
    }
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
/// [`Error::ValueTooLong`], before it is copied if it is known by then.
pub(crate) fn encode<V: Value>(value: V::Ref<'_>) -> Result<Vec<u8>> {
    check_len(V::encoded_len_min(value))?;
    let mut out = Vec::new();
    V::encode(value, true, &mut out);
    check_len(out.len() as u64)?;
    Ok(out)
}

fn check_len(len: u64) -> Result<()> {
    let max = limits::VALUE_LEN_MAX;
    if len > max { Err(Error::ValueTooLong { len, max }) } else { Ok(()) }
}

/// A row that the program's types cannot read.
pub(crate) fn undecodable<T: Value>(table: &str, what: &str) -> Error {
    Error::TableMismatch {
        table: table.into(),
        what: format!("it holds a {what} that is no {}: was it written with other types?", T::type_name()),
    }
}
