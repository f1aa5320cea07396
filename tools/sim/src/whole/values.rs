//! What the rows of a run hold: each version of a row has a number of its own, so that a read says
//! whose version it saw.

use anyhow::ensure;
use holdfast::{IndexDefinition, TableDefinition};

use super::history::Version;

pub(super) type Rows = TableDefinition<u64, &'static [u8]>;

pub(super) const BY_GROUP: IndexDefinition<u64, &[u8], u64> =
    IndexDefinition::new("by_group", |_: &u64, value: &Vec<u8>, keys| keys.push(number_at(value, 8)));
pub(super) const BY_TAG: IndexDefinition<u64, &[u8], u64> =
    IndexDefinition::unique("by_tag", |_: &u64, value: &Vec<u8>, keys| keys.push(tag_of(value)));

/// Groups of rows; the secondary index has so many keys.
pub(super) const GROUPS: u64 = 5;

/// The table called `name`.
pub(super) fn table(name: &str) -> Rows {
    TableDefinition::named(name).index(&BY_GROUP).index(&BY_TAG)
}

pub(super) fn number_at(value: &[u8], at: usize) -> u64 {
    value.get(at..at + 8).map_or(u64::MAX, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// What the unique index has of a value.
pub(super) fn tag_of(value: &[u8]) -> u64 {
    number_at(value, 16)
}

/// A value: version, group, tag, then bytes that follow from the version.
pub(super) fn value(version: Version, group: u64, tag: u64, len: usize) -> Vec<u8> {
    let mut value: Vec<u8> = [version.0, group, tag].iter().flat_map(|n| n.to_le_bytes()).collect();
    value.reserve(len);
    for n in 0..len.div_ceil(PIECE) {
        value.resize(value.len() + PIECE.min(len - n * PIECE), filler(version, n));
    }
    value
}

/// Neighbouring bytes of a value that are equal.
const PIECE: usize = 7;

fn filler(version: Version, n: usize) -> u8 {
    (version.0.wrapping_mul(31) as usize + n) as u8
}

/// The version that a value says it is.
///
/// # Errors
/// If its bytes are not those that were written.
pub(super) fn version_of(value: &[u8]) -> anyhow::Result<Version> {
    ensure!(value.len() >= 24, "a value of {} bytes is too short", value.len());
    let version = Version(number_at(value, 0));
    let is_wrong = |(n, piece): &(usize, &[u8])| {
        let right = [filler(version, *n); PIECE];
        **piece != right[..piece.len()]
    };
    let wrong = value[24..].chunks(PIECE).enumerate().find(is_wrong);
    let at = wrong.map(|(n, _)| 24 + n * PIECE);
    ensure!(wrong.is_none(), "a value of version {version:?} is wrong in the seven bytes from {at:?} on");
    Ok(version)
}
