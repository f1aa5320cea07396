//! What a program says about a table: its name, the types of key and value, its secondary indexes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::rows::types::{Key, Value};
use crate::{Error, Result};

/// A table as the program sees it: a name, the types of its keys and values, its secondary indexes.
///
/// ```
/// use holdfast::{IndexDefinition, TableDefinition};
///
/// const VISITS: TableDefinition<&str, u64> = TableDefinition::new("visits");
///
/// // (name, city) by id, with an index on the city and a unique one on the name.
/// const BY_CITY: IndexDefinition<u64, (&str, &str), &str> =
///     IndexDefinition::new("by_city", |_id: &u64, (_name, city): &(String, String), keys| {
///         keys.push(city)
///     });
/// const BY_NAME: IndexDefinition<u64, (&str, &str), &str> =
///     IndexDefinition::unique("by_name", |_id: &u64, (name, _city): &(String, String), keys| {
///         keys.push(name)
///     });
///
/// fn people() -> TableDefinition<u64, (&'static str, &'static str)> {
///     TableDefinition::new("people").index(&BY_CITY).index(&BY_NAME)
/// }
/// # assert_eq!(people().name(), "people");
/// ```
pub struct TableDefinition<K: Key, V: Value> {
    name: Cow<'static, str>,
    pub(crate) indexes: Vec<Arc<IndexSpec>>,
    pub(crate) typed: bool,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> TableDefinition<K, V> {
    /// A table without secondary indexes.
    #[must_use]
    pub const fn new(name: &'static str) -> TableDefinition<K, V> {
        TableDefinition { name: Cow::Borrowed(name), indexes: Vec::new(), typed: true, types: PhantomData }
    }

    /// The same for a name made at run time.
    #[must_use]
    pub fn named(name: impl Into<String>) -> TableDefinition<K, V> {
        TableDefinition { name: Cow::Owned(name.into()), indexes: Vec::new(), typed: true, types: PhantomData }
    }

    /// Adds a secondary index. It is maintained by every change of the table.
    #[must_use]
    pub fn index<I: Key>(mut self, index: &IndexDefinition<K, V, I>) -> TableDefinition<K, V> {
        self.indexes.push(Arc::new(index.erase()));
        self
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of key and value type, as they are stored with the table.
    pub(crate) fn type_names(&self) -> (String, String) {
        (K::type_name(), V::type_name())
    }
}

impl TableDefinition<&'static [u8], &'static [u8]> {
    /// A view of the table's bytes, whatever its types are, for tools. Such a table can be read and
    /// scanned; writing is refused when it has other types or has indexes, because those could not
    /// be kept up.
    #[must_use]
    pub fn untyped(name: impl Into<String>) -> TableDefinition<&'static [u8], &'static [u8]> {
        TableDefinition { name: Cow::Owned(name.into()), indexes: Vec::new(), typed: false, types: PhantomData }
    }
}

impl<K: Key, V: Value> Clone for TableDefinition<K, V> {
    fn clone(&self) -> Self {
        TableDefinition {
            name: self.name.clone(),
            indexes: self.indexes.clone(),
            typed: self.typed,
            types: PhantomData,
        }
    }
}

impl<K: Key, V: Value> fmt::Debug for TableDefinition<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableDefinition({}: {} -> {})", self.name, K::type_name(), V::type_name())
    }
}

/// How an index gets its keys from a row: called with the primary key and the value, pushes zero or
/// more index keys.
pub type Extractor<K, V, I> = fn(&<K as Value>::Owned, &<V as Value>::Owned, &mut IndexKeys<I>);

/// A secondary index: a name, whether it is unique, and how to get its keys from a row.
///
/// A row for which the extractor pushes nothing is not in the index; one that pushes several keys
/// is there several times. The extractor must be a pure function: the same row must always give the
/// same keys.
pub struct IndexDefinition<K: Key, V: Value, I: Key> {
    name: &'static str,
    unique: bool,
    extract: Extractor<K, V, I>,
}

impl<K: Key, V: Value, I: Key> IndexDefinition<K, V, I> {
    /// An index that may hold a key several times.
    #[must_use]
    pub const fn new(name: &'static str, extract: Extractor<K, V, I>) -> IndexDefinition<K, V, I> {
        IndexDefinition { name, unique: false, extract }
    }

    /// An index that holds every key at most once: a row that would repeat one is refused with
    /// [`Error::DuplicateKey`].
    #[must_use]
    pub const fn unique(name: &'static str, extract: Extractor<K, V, I>) -> IndexDefinition<K, V, I> {
        IndexDefinition { name, unique: true, extract }
    }

    /// The index's name, unique within its table.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    fn erase(&self) -> IndexSpec {
        let (extract, name) = (self.extract, self.name);
        IndexSpec {
            name: name.into(),
            unique: self.unique,
            key_type: I::type_name(),
            extract: Box::new(move |key, value, out| {
                let row = |what: &str| {
                    Error::InvalidArgument(format!(
                        "a row whose {what} does not decode has no keys for index `{name}`: is it damaged, or of other types?"
                    ))
                };
                let key = decode_key::<K>(key).ok_or_else(|| row("key"))?;
                let value = decode_value::<V>(value).ok_or_else(|| row("value"))?;
                let mut keys = IndexKeys { keys: Vec::new(), types: PhantomData::<fn() -> I> };
                extract(&key, &value, &mut keys);
                out.append(&mut keys.keys);
                Ok(())
            }),
        }
    }
}

/// Where an [`Extractor`] puts the keys of a row.
pub struct IndexKeys<I: Key> {
    keys: Vec<Vec<u8>>,
    types: PhantomData<fn() -> I>,
}

impl<I: Key> IndexKeys<I> {
    /// Adds a key of this row.
    pub fn push(&mut self, key: I::Ref<'_>) {
        let mut bytes = Vec::new();
        I::encode_key(key, false, &mut bytes);
        self.keys.push(bytes);
    }
}

/// An index without its types.
pub(crate) struct IndexSpec {
    pub name: String,
    pub unique: bool,
    pub key_type: String,
    pub extract: Box<ExtractBytes>,
}

/// An extractor over encoded rows: primary key, value, keys out (each in its self-delimiting form).
pub(crate) type ExtractBytes = dyn Fn(&[u8], &[u8], &mut Vec<Vec<u8>>) -> Result<()> + Send + Sync;

impl IndexSpec {
    /// The keys of a row, without repetitions, in order.
    pub(crate) fn keys(&self, key: &[u8], value: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        (self.extract)(key, value, &mut keys)?;
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }
}

/// Decodes all of `bytes` as a key.
pub(crate) fn decode_key<K: Key>(mut bytes: &[u8]) -> Option<K::Owned> {
    let key = K::decode_key(&mut bytes, true)?;
    bytes.is_empty().then_some(key)
}

/// Decodes all of `bytes` as a value.
pub(crate) fn decode_value<V: Value>(mut bytes: &[u8]) -> Option<V::Owned> {
    let value = V::decode(&mut bytes, true)?;
    bytes.is_empty().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_LEN: IndexDefinition<u32, &str, u64> =
        IndexDefinition::unique("by_len", |_: &u32, text: &String, keys| keys.push(text.len() as u64));

    #[test]
    fn an_erased_extractor_gives_the_keys() {
        let table = TableDefinition::<u32, &str>::new("t").index(&BY_LEN);
        let keys = table.indexes[0].keys(&7u32.to_be_bytes(), b"four").unwrap();
        assert_eq!(keys, [4u64.to_be_bytes().to_vec()]);
        assert!(table.indexes[0].keys(b"?", b"four").is_err());
        assert_eq!(table.type_names(), ("u32".to_string(), "str".to_string()));
    }
}
