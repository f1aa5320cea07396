//! Hundreds of tables with indexes: what is stored per checkpoint does not grow with them.

use holdfast::{IndexDefinition, TableDefinition};

use crate::common;

const BY_VALUE: IndexDefinition<u64, u64, u64> =
    IndexDefinition::new("by_value", |_: &u64, v: &u64, keys| keys.push(*v));

fn table(i: u64) -> TableDefinition<u64, u64> {
    TableDefinition::named(format!("table {i:03}")).index(&BY_VALUE)
}

#[test]
fn across_a_checkpoint_and_a_reopen() {
    let (disk, db) = common::on_memory_disk();
    for i in 0..900 {
        db.transact(|txn| txn.open_table(&table(i))?.insert(i, i * 2)).unwrap();
    }
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = common::open_on(&disk);
    assert_eq!(db.list_tables().len(), 900);
    let txn = db.begin_read().unwrap();
    for i in 0..900 {
        let table = txn.open_table(&table(i)).unwrap();
        assert_eq!(table.get(i).unwrap(), Some(i * 2));
        assert_eq!(table.index(&BY_VALUE).unwrap().keys(..).unwrap().count(), 1);
    }
}
