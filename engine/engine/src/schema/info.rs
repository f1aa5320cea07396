//! Tables and indexes as listings name them.

/// A table in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// The file that it lives in.
    pub file: String,
    /// Number of its space.
    pub space_id: u32,
    /// Its number, which survives a rename.
    pub table_id: u32,
    /// Name of its key type.
    pub key_type: String,
    /// Name of its value type.
    pub value_type: String,
    /// Its secondary indexes: name, key type, whether unique.
    pub indexes: Vec<IndexInfo>,
}

/// An index in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexInfo {
    /// Its name.
    pub name: String,
    /// Its number, as in page headers.
    pub index_id: u32,
    /// Name of its key type.
    pub key_type: String,
    /// True if it refuses a key that it has.
    pub unique: bool,
}
