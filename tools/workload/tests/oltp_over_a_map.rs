//! The OLTP transactions over a `BTreeMap` return the results of queries that are written out by
//! hand.

use std::collections::BTreeMap;

use holdfast_workload::dist::{Distribution, Kind};
use holdfast_workload::dump::{Formatter, dump};
use holdfast_workload::sysbench::{Client, Mix, RowSql, SbRow, Sql, generate, key, schema};
use holdfast_workload::{Failure, Result, RowSink, Rows, Scan, TableNo};

const ROWS: u32 = 2_000;

#[derive(Default)]
struct Map {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    fail_next: bool,
    ended: (u32, u32),
}

impl Map {
    fn loaded() -> Map {
        let mut map = Map::default();
        generate::<Failure>(1, ROWS, 1..=ROWS, |key, row| {
            map.rows.insert(key.to_vec(), row.to_vec());
            Ok(())
        })
        .unwrap();
        map
    }
}

impl Rows for Map {
    fn begin(&mut self, _: bool) -> Result<()> {
        Ok(())
    }
    fn commit(&mut self) -> Result<()> {
        self.ended.0 += 1;
        Ok(())
    }
    fn rollback(&mut self) -> Result<()> {
        self.ended.1 += 1;
        Ok(())
    }
    fn get(&mut self, _: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool> {
        row.clear();
        Ok(self.rows.get(key).map(|r| row.extend_from_slice(r)).is_some())
    }
    fn get_for_update(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool> {
        if std::mem::take(&mut self.fail_next) {
            return Err(Failure::Retry("deadlock".into()));
        }
        self.get(table, key, row)
    }
    fn range(&mut self, _: TableNo, from: Option<&[u8]>, to: Option<&[u8]>, _: Scan, sink: RowSink<'_>) -> Result<()> {
        for (key, row) in &self.rows {
            let inside = from.is_none_or(|f| key.as_slice() >= f) && to.is_none_or(|t| key.as_slice() <= t);
            if inside && !sink(key, row)? {
                break;
            }
        }
        Ok(())
    }
    fn put(&mut self, _: TableNo, key: &[u8], row: &[u8]) -> Result<()> {
        self.rows.insert(key.to_vec(), row.to_vec());
        Ok(())
    }
    fn delete(&mut self, _: TableNo, key: &[u8]) -> Result<bool> {
        Ok(self.rows.remove(key).is_some())
    }
}

fn client(mix: Mix) -> Client {
    Client::new(mix, ROWS, Distribution::new(Kind::Uniform, u64::from(ROWS)), 5, 0)
}

#[test]
fn a_read_only_transaction_reads_its_rows() {
    let mut sql = RowSql::new(Map::loaded(), TableNo(0));
    let (mut a, mut b) = (client(Mix::READ_ONLY), client(Mix::READ_ONLY));
    let event = a.event(&mut sql).unwrap();
    assert_eq!((event.statements.reads, event.statements.writes), (14, 0));
    assert!((12..=311).contains(&event.rows), "{event:?}");
    let mut again = RowSql::new(Map::loaded(), TableNo(0));
    b.event(&mut again).unwrap();
    assert_eq!(sql.checksum(), again.checksum(), "same seed, same rows, same result");
}

#[test]
fn ranges_are_not_clamped_and_distinct_removes_duplicates() {
    let mut sql = RowSql::new(Map::loaded(), TableNo(0));
    assert_eq!(sql.simple_range(ROWS - 9..=ROWS + 90).unwrap(), 10);
    let mut twin = SbRow::initial(1, 1, ROWS);
    twin.id = 2;
    sql.insert(&twin).unwrap();
    assert_eq!(sql.order_range(1..=100).unwrap(), 100);
    assert_eq!(sql.distinct_range(1..=100).unwrap(), 99);
}

#[test]
fn updates_change_one_column() {
    let mut sql = RowSql::new(Map::loaded(), TableNo(0));
    let before = SbRow::initial(1, 3, ROWS);
    sql.index_update(3).unwrap();
    sql.non_index_update(3, b"new").unwrap();
    let schema = schema();
    let bytes = sql.rows_mut().rows[&key(3).to_vec()].clone();
    let row = schema.read(&bytes);
    assert_eq!((row.int(0).unwrap(), row.text(1).unwrap()), (before.k + 1, &b"new"[..]));
    assert_eq!(row.text(2).unwrap(), before.pad);
}

#[test]
fn a_conflict_is_rolled_back_and_repeated() {
    let mut sql = RowSql::new(Map::loaded(), TableNo(0));
    sql.rows_mut().fail_next = true;
    let event = client(Mix::READ_WRITE).event(&mut sql).unwrap();
    assert_eq!((event.retries, event.statements.reads, event.statements.writes), (1, 14, 4));
    assert_eq!(sql.rows_mut().ended, (1, 1));
    assert_eq!(sql.rows_mut().rows.len(), ROWS as usize);
}

#[test]
fn a_dump_writes_every_row_and_can_be_ended() {
    let mut map = Map::loaded();
    let mut formatter = Formatter::new("sbtest1", schema());
    let all = dump(&mut map, TableNo(0), &mut formatter, Scan::Declared, &mut |_| true).unwrap();
    assert_eq!((all.rows, all.statements), (u64::from(ROWS), 1));
    let mut formatter = Formatter::new("sbtest1", schema());
    let some = dump(&mut map, TableNo(0), &mut formatter, Scan::Declared, &mut |w| w.rows < 10).unwrap();
    assert_eq!(some.rows, 10);
}
