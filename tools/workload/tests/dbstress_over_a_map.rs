//! dbSTRESS runs over maps: every table has its rows, READs write nothing, and WRITEs keep the
//! number of rows and the length of each row. This holds with HISTORY clustered by its pair and by
//! a hidden row id, and both return the same rows.

use std::collections::BTreeMap;

use holdfast_workload::dbstress::{AntiDead, Options, Session, Statement, Table, generate, table_names};
use holdfast_workload::{Failure, Result, RowSink, Rows, Scan, TableNo};

const OBJECTS: u32 = 400;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Maps {
    tables: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
    refuse: u32,
    rolled_back: u32,
}

impl Maps {
    fn loaded(options: &Options) -> Maps {
        let mut maps = Maps { tables: vec![BTreeMap::new(); Table::ALL.len()], ..Maps::default() };
        for table in Table::ALL {
            let into = &mut maps.tables[table as usize];
            let mut last = Vec::new();
            generate::<Failure>(options, table, 7, |key, row| {
                assert!(last.as_slice() < key, "{table:?} is generated in key order");
                last = key.to_vec();
                into.insert(key.to_vec(), row.to_vec());
                Ok(())
            })
            .unwrap();
        }
        maps
    }

    fn lens(&self) -> Vec<usize> {
        self.tables.iter().map(BTreeMap::len).collect()
    }
}

impl Rows for Maps {
    fn begin(&mut self, _: bool) -> Result<()> {
        Ok(())
    }
    fn commit(&mut self) -> Result<()> {
        Ok(())
    }
    fn rollback(&mut self) -> Result<()> {
        self.rolled_back += 1;
        Ok(())
    }
    fn get(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool> {
        row.clear();
        Ok(self.tables[table.0].get(key).map(|r| row.extend_from_slice(r)).is_some())
    }
    fn get_for_update(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool> {
        if self.refuse > 0 {
            self.refuse -= 1;
            return Err(Failure::Retry("deadlock".into()));
        }
        self.get(table, key, row)
    }
    fn range(
        &mut self,
        table: TableNo,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        _: Scan,
        sink: RowSink<'_>,
    ) -> Result<()> {
        let (from, to) = (from.unwrap_or(&[]).to_vec(), to.unwrap_or(&[0xff; 32]).to_vec());
        for (key, row) in self.tables[table.0].range(from..=to) {
            if !sink(key, row)? {
                break;
            }
        }
        Ok(())
    }
    fn put(&mut self, table: TableNo, key: &[u8], row: &[u8]) -> Result<()> {
        self.tables[table.0].insert(key.to_vec(), row.to_vec());
        Ok(())
    }
    fn delete(&mut self, table: TableNo, key: &[u8]) -> Result<bool> {
        Ok(self.tables[table.0].remove(key).is_some())
    }
}

fn options(hpk: bool) -> Options {
    Options { delete_inserts: 1, hpk, ..Options::light(OBJECTS, 4, 1) }
}

/// Runs `events` transactions of session 1. Returns how often each statement was run, and the
/// checksum of the results.
fn run(maps: &mut Maps, options: Options, events: usize) -> (Vec<(Statement, usize)>, u32) {
    let mut session = Session::new(options, 1, 5);
    let mut done = Vec::new();
    for _ in 0..events {
        session.event(maps, &mut |statement| done.push(statement)).unwrap();
    }
    use Statement::{Delete, Insert, Select1, Select2, Update};
    let count = |s| (s, done.iter().filter(|&&d| d == s).count());
    ([Select1, Select2, Update, Delete, Insert].map(count).to_vec(), session.checksum())
}

#[test]
fn the_tables_have_their_rows() {
    let lens = Maps::loaded(&options(true)).lens();
    assert_eq!(lens, [10, 100, 1000, 400, 8000, 0]);
    assert_eq!(Maps::loaded(&options(false)).lens(), [10, 100, 1000, 400, 8000, 8000]);
    assert_eq!((table_names(true).len(), table_names(false).len()), (5, 6));
}

#[test]
fn writes_keep_the_number_and_the_length_of_rows() {
    for hpk in [true, false] {
        let mut maps = Maps::loaded(&options(hpk));
        let before = maps.clone();
        let (counts, _) = run(&mut maps, options(hpk), 200);
        assert!(counts.iter().all(|(_, n)| *n == 100), "one READ for each WRITE: {counts:?}");
        assert_eq!(maps.lens(), before.lens());
        assert_ne!(maps, before);
        let history = |maps: &Maps| maps.tables[Table::History as usize].values().map(Vec::len).max();
        assert_eq!(history(&maps), history(&before));
        assert!(maps.tables[Table::History as usize].values().all(|row| Some(row.len()) == history(&before)));
    }
}

#[test]
fn a_read_only_run_writes_nothing_and_depends_on_its_seed_only() {
    let read_only = Options { rw_ratio: 0, ..options(true) };
    let mut maps = Maps::loaded(&read_only);
    let before = maps.clone();
    let (counts, checksum) = run(&mut maps, read_only, 50);
    assert_eq!(counts.iter().map(|c| c.1).collect::<Vec<_>>(), [50, 50, 0, 0, 0]);
    assert_eq!(maps, before);
    assert_eq!(run(&mut maps, read_only, 50).1, checksum);
}

#[test]
fn ten_reads_come_with_one_write() {
    let ratio = Options { rw_ratio: 10, ..options(true) };
    let counts = run(&mut Maps::loaded(&ratio), ratio, 110).0;
    assert_eq!(counts.iter().map(|c| c.1).collect::<Vec<_>>(), [100, 100, 10, 10, 10]);
}

#[test]
fn a_conflict_repeats_the_transaction() {
    let mut maps = Maps { refuse: 3, ..Maps::loaded(&options(true)) };
    let mut undisturbed = Maps::loaded(&options(true));
    let (disturbed_run, plain_run) = (run(&mut maps, options(true), 40), run(&mut undisturbed, options(true), 40));
    assert_eq!((maps.rolled_back, disturbed_run.1), (3, plain_run.1));
    assert_eq!(maps.tables, undisturbed.tables, "as in a run without conflicts");
}

#[test]
fn without_same_ref_a_transaction_visits_several_objects() {
    let apart = Options { same_ref: false, anti_dead: AntiDead::Blocks(50), ..options(true) };
    let mut maps = Maps::loaded(&apart);
    run(&mut maps, apart, 100);
}
