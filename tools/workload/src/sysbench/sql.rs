//! The statements of sysbench's OLTP transactions, and their execution over a store of rows.

use std::ops::RangeInclusive;

use super::{C, K, PAD, SbRow, digits, key, schema};
use crate::rng::Rng;
use crate::row::{Schema, Value};
use crate::{Result, Rows, Scan, TableNo};

/// Executes sysbench's statements on one table: a server that gets their text, or [`RowSql`]. Each
/// `select` returns the number of rows of its result.
pub trait Sql {
    /// `BEGIN`, or its read-only form.
    fn begin(&mut self, read_only: bool) -> Result<()>;
    /// `COMMIT`.
    fn commit(&mut self) -> Result<()>;
    /// `ROLLBACK`.
    fn rollback(&mut self) -> Result<()>;
    /// `SELECT c WHERE id = ?`.
    fn point_select(&mut self, id: u32) -> Result<u64>;
    /// `SELECT c WHERE id BETWEEN ? AND ?`.
    fn simple_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64>;
    /// `SELECT SUM(k) WHERE id BETWEEN ? AND ?`.
    fn sum_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64>;
    /// `SELECT c WHERE id BETWEEN ? AND ? ORDER BY c`.
    fn order_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64>;
    /// `SELECT DISTINCT c WHERE id BETWEEN ? AND ? ORDER BY c`.
    fn distinct_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64>;
    /// `UPDATE SET k = k + 1 WHERE id = ?`.
    fn index_update(&mut self, id: u32) -> Result<()>;
    /// `UPDATE SET c = ? WHERE id = ?`.
    fn non_index_update(&mut self, id: u32, c: &[u8]) -> Result<()>;
    /// `DELETE WHERE id = ?`.
    fn delete(&mut self, id: u32) -> Result<()>;
    /// `INSERT`.
    fn insert(&mut self, row: &SbRow) -> Result<()>;
}

/// Executes the statements over [`Rows`] as a server would. It decodes every row of a range and
/// copies the selected column into the result. ORDER BY sorts the result, and DISTINCT removes
/// duplicates. The result is checksummed, so that no work can be left out.
#[derive(Debug)]
pub struct RowSql<R> {
    rows: R,
    table: TableNo,
    schema: Schema,
    row: Vec<u8>,
    encoded: Vec<u8>,
    result: ResultSet,
    checksum: u32,
}

/// Text values in one buffer.
#[derive(Debug, Default)]
struct ResultSet {
    bytes: Vec<u8>,
    values: Vec<(u32, u32)>,
}

impl ResultSet {
    fn clear(&mut self) {
        self.bytes.clear();
        self.values.clear();
    }

    fn push(&mut self, value: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.values.push((start, self.bytes.len() as u32));
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.values.sort_unstable_by(|a, b| slice(bytes, *a).cmp(slice(bytes, *b)));
    }

    fn dedup_sorted(&mut self) {
        let bytes = &self.bytes;
        self.values.dedup_by(|a, b| slice(bytes, *a) == slice(bytes, *b));
    }

    fn checksum(&self, crc: u32) -> u32 {
        self.values.iter().fold(crc, |crc, &v| holdfast_base::checksum_append(crc, slice(&self.bytes, v)))
    }
}

fn slice(bytes: &[u8], (start, end): (u32, u32)) -> &[u8] {
    &bytes[start as usize..end as usize]
}

impl<R: Rows> RowSql<R> {
    /// Statements on `table` of `rows`, whose rows are those of [`schema`].
    pub fn new(rows: R, table: TableNo) -> RowSql<R> {
        let (row, encoded) = (Vec::new(), Vec::new());
        RowSql { rows, table, schema: schema(), row, encoded, result: ResultSet::default(), checksum: 0 }
    }

    /// The store underneath.
    pub fn rows_mut(&mut self) -> &mut R {
        &mut self.rows
    }

    /// Checksum of all results so far.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    fn collect_c(&mut self, ids: RangeInclusive<u32>) -> Result<()> {
        self.result.clear();
        let RowSql { rows, table, schema, result, .. } = self;
        let (from, to) = (key(*ids.start()), key(*ids.end()));
        rows.range(*table, Some(&from), Some(&to), Scan::Undeclared, &mut |_, row| {
            result.push(schema.read(row).text(C)?);
            Ok(true)
        })
    }

    fn finish_result(&mut self) -> u64 {
        self.checksum = self.result.checksum(self.checksum);
        self.result.values.len() as u64
    }

    fn update(&mut self, id: u32, change: impl FnOnce(u32, &[u8], &mut Vec<u8>, &Schema, &[u8])) -> Result<()> {
        if !self.rows.get_for_update(self.table, &key(id), &mut self.row)? {
            return Ok(());
        }
        let old = self.schema.read(&self.row);
        change(old.int(K)?, old.text(C)?, &mut self.encoded, &self.schema, old.text(PAD)?);
        self.rows.put(self.table, &key(id), &self.encoded)
    }
}

impl<R: Rows> Sql for RowSql<R> {
    fn begin(&mut self, read_only: bool) -> Result<()> {
        self.rows.begin(read_only)
    }

    fn commit(&mut self) -> Result<()> {
        self.rows.commit()
    }

    fn rollback(&mut self) -> Result<()> {
        self.rows.rollback()
    }

    fn point_select(&mut self, id: u32) -> Result<u64> {
        self.result.clear();
        if self.rows.get(self.table, &key(id), &mut self.row)? {
            self.result.push(self.schema.read(&self.row).text(C)?);
        }
        Ok(self.finish_result())
    }

    fn simple_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64> {
        self.collect_c(ids)?;
        Ok(self.finish_result())
    }

    fn sum_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64> {
        let RowSql { rows, table, schema, .. } = self;
        let (from, to) = (key(*ids.start()), key(*ids.end()));
        let mut sum = 0u64;
        rows.range(*table, Some(&from), Some(&to), Scan::Undeclared, &mut |_, row| {
            sum += u64::from(schema.read(row).int(K)?);
            Ok(true)
        })?;
        self.checksum = holdfast_base::checksum_append(self.checksum, &sum.to_le_bytes());
        Ok(1)
    }

    fn order_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64> {
        self.collect_c(ids)?;
        self.result.sort();
        Ok(self.finish_result())
    }

    fn distinct_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64> {
        self.collect_c(ids)?;
        self.result.sort();
        self.result.dedup_sorted();
        Ok(self.finish_result())
    }

    fn index_update(&mut self, id: u32) -> Result<()> {
        self.update(id, |k, c, out, schema, pad| {
            schema.encode(&[Value::Int(k.wrapping_add(1)), Value::Text(c), Value::Text(pad)], out);
        })
    }

    fn non_index_update(&mut self, id: u32, c: &[u8]) -> Result<()> {
        self.update(id, |k, _, out, schema, pad| {
            schema.encode(&[Value::Int(k), Value::Text(c), Value::Text(pad)], out);
        })
    }

    fn delete(&mut self, id: u32) -> Result<()> {
        self.rows.delete(self.table, &key(id)).map(|_| ())
    }

    fn insert(&mut self, row: &SbRow) -> Result<()> {
        row.encode(&self.schema, &mut self.encoded);
        self.rows.put(self.table, &key(row.id), &self.encoded)
    }
}

/// A new value of column `c`.
pub(super) fn random_c(rng: &mut Rng) -> [u8; super::C_LEN] {
    digits(rng)
}
