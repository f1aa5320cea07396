//! The catalog's records and their bytes.
//!
//! ```text
//! key 't' ++ table name    TableRecord
//! key 'n'                  NextIds
//! key 'u' ++ space id      UnusedIndexes: what is in the space's file of indexes that no table has
//!                          (yet, or any more)
//!
//! TableRecord: format u8 = 1, space id u32, table id u32, definition version u64,
//!              key type, value type, options (each a varint length and bytes),
//!              root page u32 of the clustered index, its index id u32,
//!              number of indexes (varint), for each: index id u32, root page u32,
//!                  flags u8 (1 unique), name, key type;
//!              of a temporary table: u8 = 1
//! NextIds:     format u8 = 1, space id u32 below which all are given out, next index id u32,
//!              next table id u32
//! UnusedIndexes: format u8 = 1, index ids u32
//! ```

use holdfast_base::codec::{Reader, Writer as _};
use holdfast_base::{IndexId, PageNo, SpaceId};

/// A table in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRecord {
    /// The file.
    pub space: SpaceId,
    /// Survives a rename; never reused.
    pub table_id: u32,
    /// Counts changes of the definition.
    pub version: u64,
    /// Name of the key type.
    pub key_type: String,
    /// Name of the value type.
    pub value_type: String,
    /// Bytes that a layer above keeps with the table.
    pub options: Vec<u8>,
    /// The clustered index.
    pub clustered: IndexId,
    /// Its root.
    pub root: PageNo,
    /// The secondary indexes.
    pub indexes: Vec<IndexRecord>,
    /// The table ends with the run of the database that made it.
    pub temporary: bool,
}

/// A secondary index in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexRecord {
    pub id: IndexId,
    pub root: PageNo,
    pub unique: bool,
    pub name: String,
    pub key_type: String,
}

/// The ids that the next table gets; none is ever used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextIds {
    pub space: u32,
    /// Space ids below this one are given out as far as the catalog says, which is durable: the
    /// number of a file proves that the file is one that this database made.
    pub granted: u32,
    pub index: u32,
    pub table: u32,
}

const FORMAT: u8 = 1;
/// The space of a record that cannot be decoded: no table has it.
const UNREADABLE: SpaceId = SpaceId(u32::MAX);
/// The index that old versions are in; tables have lower ones.
const VERSIONS: u32 = u32::MAX;

/// The catalog key of `NextIds`.
pub(crate) const NEXT_IDS_KEY: &[u8] = b"n";

/// The catalog key of a table.
pub(crate) fn table_key(name: &str) -> Vec<u8> {
    [b"t", name.as_bytes()].concat()
}

/// The name in a catalog key, or `None` if it is no table's.
pub(crate) fn table_name(key: &[u8]) -> Option<String> {
    String::from_utf8(key.strip_prefix(b"t")?.to_vec()).ok()
}

/// The catalog key of a space's unused indexes.
pub(crate) fn unused_key(space: SpaceId) -> Vec<u8> {
    [b"u", &space.0.to_be_bytes()[..]].concat()
}

/// The space in a catalog key, or `None` if it is not that of unused indexes.
pub(crate) fn unused_space(key: &[u8]) -> Option<SpaceId> {
    let id = key.strip_prefix(b"u")?.try_into().ok()?;
    Some(SpaceId(u32::from_be_bytes(id)))
}

pub(crate) fn encode_unused(indexes: &[IndexId]) -> Vec<u8> {
    let mut out = vec![FORMAT];
    indexes.iter().for_each(|id| out.u32(id.0));
    out
}

pub(crate) fn decode_unused(bytes: &[u8]) -> Option<Vec<IndexId>> {
    let mut r = Reader::new(bytes);
    if r.u8()? != FORMAT {
        return None;
    }
    let mut indexes = Vec::new();
    while !r.is_empty() {
        indexes.push(IndexId(r.u32()?));
    }
    Some(indexes)
}

/// A byte that is 0 or 1.
fn flag(byte: u8) -> Option<bool> {
    (byte <= 1).then_some(byte == 1)
}

impl TableRecord {
    /// All its indexes, the clustered one first.
    pub(crate) fn index_ids(&self) -> impl Iterator<Item = IndexId> {
        std::iter::once(self.clustered).chain(self.indexes.iter().map(|i| i.id))
    }

    /// Stands for a record that cannot be decoded: of no file, without indexes.
    pub(crate) fn unreadable() -> TableRecord {
        TableRecord {
            space: UNREADABLE,
            table_id: 0,
            version: 0,
            key_type: String::new(),
            value_type: String::new(),
            options: Vec::new(),
            clustered: IndexId(0),
            root: PageNo(0),
            indexes: Vec::new(),
            temporary: false,
        }
    }

    /// True if the record could be decoded. One that could not must not be written.
    pub(crate) fn is_readable(&self) -> bool {
        self.space != UNREADABLE
    }

    /// True if the numbers are a table's, and not the engine's own.
    pub(crate) fn is_possible(&self) -> bool {
        let first = NextIds::FIRST;
        (first.space..UNREADABLE.0).contains(&self.space.0)
            && self.index_ids().all(|id| (first.index..VERSIONS).contains(&id.0))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.u32(self.space.0);
        out.u32(self.table_id);
        out.u64(self.version);
        out.bytes_with_len(self.key_type.as_bytes());
        out.bytes_with_len(self.value_type.as_bytes());
        out.bytes_with_len(&self.options);
        out.u32(self.root.0);
        out.u32(self.clustered.0);
        out.varint(self.indexes.len() as u64);
        for index in &self.indexes {
            out.u32(index.id.0);
            out.u32(index.root.0);
            out.u8(u8::from(index.unique));
            out.bytes_with_len(index.name.as_bytes());
            out.bytes_with_len(index.key_type.as_bytes());
        }
        if self.temporary {
            out.u8(1);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<TableRecord> {
        let mut r = Reader::new(bytes);
        if r.u8()? != FORMAT {
            return None;
        }
        let text = |r: &mut Reader<'_>| String::from_utf8(r.bytes_with_len()?.to_vec()).ok();
        let mut table = TableRecord {
            space: SpaceId(r.u32()?),
            table_id: r.u32()?,
            version: r.u64()?,
            key_type: text(&mut r)?,
            value_type: text(&mut r)?,
            options: r.bytes_with_len()?.to_vec(),
            root: PageNo(r.u32()?),
            clustered: IndexId(r.u32()?),
            indexes: Vec::new(),
            temporary: false,
        };
        for _ in 0..r.varint()? {
            table.indexes.push(IndexRecord {
                id: IndexId(r.u32()?),
                root: PageNo(r.u32()?),
                unique: flag(r.u8()?)?,
                name: text(&mut r)?,
                key_type: text(&mut r)?,
            });
        }
        table.temporary = match r.rest() {
            [] => false,
            [1] => true,
            _ => return None,
        };
        Some(table)
    }
}

impl NextIds {
    /// A new database's: ids below are the engine's own.
    pub(crate) const FIRST: NextIds = NextIds { space: 16, granted: 16, index: 16, table: 1 };

    /// True if none of these numbers is one that a table, or the engine, has.
    pub(crate) fn are_above<'r>(self, records: impl IntoIterator<Item = &'r TableRecord>) -> bool {
        let first = NextIds::FIRST;
        let is_above = |record: &TableRecord| {
            !record.is_readable() || record.space.0 < self.granted && record.index_ids().all(|id| id.0 < self.index)
        };
        self.granted >= first.granted && self.index >= first.index && records.into_iter().all(is_above)
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.u32(self.space.max(self.granted));
        out.u32(self.index);
        out.u32(self.table);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<NextIds> {
        let mut r = Reader::new(bytes);
        if r.u8()? != FORMAT {
            return None;
        }
        let space = r.u32()?;
        let ids = NextIds { space, granted: space, index: r.u32()?, table: r.u32()? };
        r.is_empty().then_some(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_cut_ones_are_refused() {
        let table = TableRecord {
            space: SpaceId(16),
            table_id: 4,
            version: 9,
            key_type: "u64".into(),
            value_type: "str".into(),
            options: vec![1, 2],
            clustered: IndexId(20),
            root: PageNo(5),
            indexes: vec![IndexRecord {
                id: IndexId(21),
                root: PageNo(6),
                unique: true,
                name: "by".into(),
                key_type: "str".into(),
            }],
            temporary: false,
        };
        let bytes = table.encode();
        let temporary = TableRecord { temporary: true, ..table.clone() };
        assert_eq!(TableRecord::decode(&temporary.encode()), Some(temporary));
        assert_eq!(TableRecord::decode(&bytes), Some(table));
        assert!((0..bytes.len()).all(|n| TableRecord::decode(&bytes[..n]).is_none()));
        // Bytes behind the record that say nothing; flags of the index that mean nothing.
        for behind in [&[0][..], &[2], &[1, 1]] {
            assert_eq!(TableRecord::decode(&[&bytes[..], behind].concat()), None);
        }
        let flags = bytes.len() - 8;
        for wrong in [2, 3, 0x81] {
            assert_eq!(TableRecord::decode(&[&bytes[..flags], &[wrong], &bytes[flags + 1..]].concat()), None);
        }
        let ids = NextIds { space: 17, granted: 32, index: 18, table: 3 };
        assert_eq!(NextIds::decode(&ids.encode()), Some(NextIds { space: 32, ..ids }));
        assert_eq!(table_name(&table_key("people")).as_deref(), Some("people"));
        assert_eq!(table_name(NEXT_IDS_KEY), None);
        let unused = encode_unused(&[IndexId(7), IndexId(u32::MAX)]);
        assert_eq!(decode_unused(&unused), Some(vec![IndexId(7), IndexId(u32::MAX)]));
        assert_eq!((decode_unused(&unused[..8]), decode_unused(&[])), (None, None));
        assert_eq!(unused_space(&unused_key(SpaceId(258))), Some(SpaceId(258)));
        assert_eq!((unused_space(&table_key("u")), table_name(&unused_key(SpaceId(1)))), (None, None));
    }
}
