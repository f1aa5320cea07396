//! sysbench's OLTP workload: the `sbtest` table and the transactions of `oltp_read_only`,
//! `oltp_read_write` and similar scripts, as sysbench 1.0 runs them.
//!
//! `sbtest (id INT UNSIGNED PRIMARY KEY, k INT UNSIGNED, c CHAR(120), pad CHAR(60), KEY k (k))`:
//! `k` is a random id, `c` ten groups of eleven random digits (119 characters), `pad` five (59).
//! Ranges are not clamped at the end of the table, as in 1.0 (0.4 did clamp them).

mod mix;
mod sql;

use std::ops::RangeInclusive;

pub use mix::{Client, Event, Mix, Statements};
pub use sql::{RowSql, Sql};

use crate::rng::Rng;
use crate::row::{Schema, Type, Value};
use crate::{Failure, Result};

/// Number of column `k` in [`schema`].
pub const K: usize = 0;
/// Number of column `c` in [`schema`].
pub const C: usize = 1;
/// Number of column `pad` in [`schema`].
pub const PAD: usize = 2;

/// Characters of `c` as generated.
pub const C_LEN: usize = 119;
/// Characters of `pad` as generated.
pub const PAD_LEN: usize = 59;

/// The columns of `sbtest` besides the key `id`.
#[must_use]
pub fn schema() -> Schema {
    Schema::new(&[("k", Type::Int), ("c", Type::Char(120)), ("pad", Type::Char(60))])
}

/// The primary key of row `id`: big-endian, so that byte order is key order.
#[must_use]
pub fn key(id: u32) -> [u8; 4] {
    id.to_be_bytes()
}

/// The id in a primary key.
///
/// # Errors
/// [`Failure::Fatal`] if `key` is no key of the table.
pub fn id_of(key: &[u8]) -> Result<u32> {
    let key = key.try_into().map_err(|_| Failure::fatal("a key of sbtest has 4 bytes"))?;
    Ok(u32::from_be_bytes(key))
}

/// The key of the secondary index `k` for a row; `None` if the bytes are no row.
#[must_use]
pub fn index_key(row: &[u8]) -> Option<[u8; 4]> {
    holdfast_base::codec::get_u32(row, 0).map(u32::to_be_bytes)
}

/// A row of `sbtest`, generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SbRow {
    /// Primary key.
    pub id: u32,
    /// A random id.
    pub k: u32,
    /// Ten groups of digits.
    pub c: [u8; C_LEN],
    /// Five groups of digits.
    pub pad: [u8; PAD_LEN],
}

/// Groups of eleven random digits joined by `-`.
pub(crate) fn digits<const N: usize>(rng: &mut Rng) -> [u8; N] {
    std::array::from_fn(|i| if i % 12 == 11 { b'-' } else { b'0' + rng.below(10) as u8 })
}

impl SbRow {
    /// A random row `id` of a table of `rows` rows.
    #[must_use]
    pub fn random(id: u32, rows: u32, rng: &mut Rng) -> SbRow {
        SbRow { id, k: 1 + rng.below(u64::from(rows)) as u32, c: digits(rng), pad: digits(rng) }
    }

    /// Row `id` of the initial content of a table: it depends on its arguments only.
    #[must_use]
    pub fn initial(seed: u64, id: u32, rows: u32) -> SbRow {
        SbRow::random(id, rows, &mut Rng::for_part(seed, u64::from(id)))
    }

    /// Encodes the row, without its key, into `out` (cleared first).
    pub fn encode(&self, schema: &Schema, out: &mut Vec<u8>) {
        schema.encode(&[Value::Int(self.k), Value::Text(&self.c), Value::Text(&self.pad)], out);
    }
}

/// Calls `each` with key and row of the ids `ids` of the initial content of a table of `rows` rows,
/// in key order.
///
/// # Errors
/// What `each` returns.
pub fn generate<E>(
    seed: u64,
    rows: u32,
    ids: RangeInclusive<u32>,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let schema = schema();
    let mut bytes = Vec::with_capacity(200);
    for id in ids {
        SbRow::initial(seed, id, rows).encode(&schema, &mut bytes);
        each(&key(id), &bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_look_like_sysbench_and_depend_on_the_seed_only() {
        let row = SbRow::initial(42, 7, 1000);
        assert_eq!(row, SbRow::initial(42, 7, 1000));
        assert_ne!(row.c, SbRow::initial(43, 7, 1000).c);
        assert_ne!(row.c, SbRow::initial(42, 8, 1000).c);
        assert!((1..=1000).contains(&row.k));
        let groups = |text: &[u8]| text.split(|&b| b == b'-').map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(groups(&row.c), [11; 10]);
        assert_eq!(groups(&row.pad), [11; 5]);
    }

    #[test]
    fn rows_decode_to_what_was_generated() {
        let schema = schema();
        let mut ids = Vec::new();
        generate::<Failure>(1, 100, 5..=9, |key, bytes| {
            let row = SbRow::initial(1, id_of(key)?, 100);
            let read = schema.read(bytes);
            assert_eq!((read.int(K)?, read.text(C)?, read.text(PAD)?), (row.k, &row.c[..], &row.pad[..]));
            assert_eq!(index_key(bytes), Some(row.k.to_be_bytes()));
            ids.push(row.id);
            Ok(())
        })
        .unwrap();
        assert_eq!(ids, [5, 6, 7, 8, 9]);
    }
}
