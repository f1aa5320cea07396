//! Values of all sizes, around every limit at which they are stored differently.

use holdfast::{Database, TableDefinition};

use crate::common;

const BLOBS: TableDefinition<u32, &[u8]> = TableDefinition::new("blobs");

fn content(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
}

fn check(db: &Database, sizes: &[usize]) {
    let txn = db.begin_read().unwrap();
    let blobs = txn.open_table(&BLOBS).unwrap();
    let mut buffer = Vec::new();
    for (i, &len) in (0..).zip(sizes) {
        assert!(blobs.get_into(i, &mut buffer).unwrap());
        assert!(buffer == content(i, len), "value of {len} bytes");
    }
    assert!(blobs.iter().unwrap().zip(sizes).all(|(row, &len)| row.unwrap().1.len() == len));
}

#[test]
fn across_a_reopen_and_an_update() {
    let (disk, db) = common::on_memory_disk();
    let mut sizes: Vec<usize> = vec![0, 1, 900, 1_900, 2_000, 2_048, 4_000, 4_096, 70_000, 1 << 20, (1 << 20) + 1];
    sizes.push(5 << 20);
    for (i, &len) in (0..).zip(&sizes) {
        db.transact(|txn| txn.open_table(&BLOBS)?.insert(i, &content(i, len))).unwrap();
    }
    check(&db, &sizes);
    common::assert_sound(&db);
    drop(db);
    let db = common::open_on(&disk);
    check(&db, &sizes);

    let before = db.begin_read().unwrap();
    db.transact(|txn| {
        let blobs = txn.open_table(&BLOBS)?;
        (0..sizes.len() as u32).try_for_each(|i| blobs.update(i, b"short").map(drop))
    })
    .unwrap();
    let old = before.open_table(&BLOBS).unwrap();
    for (i, &len) in (0..).zip(&sizes) {
        assert!(old.get(i).unwrap().unwrap() == content(i, len), "old value of {len} bytes");
    }
    let txn = db.begin_read().unwrap();
    assert!(txn.open_table(&BLOBS).unwrap().iter().unwrap().all(|row| row.unwrap().1 == b"short"));
    drop(before);
    common::assert_sound(&db);
}

#[test]
fn a_rolled_back_value_gives_its_pages_back() {
    let (_disk, db) = common::on_memory_disk();
    let value = content(1, 3 << 20);
    db.create_table(&BLOBS).unwrap();
    let bytes = |db: &Database| db.stats().spaces.iter().map(|s| s.file_bytes).sum::<u64>();
    let mut sizes = Vec::new();
    for _ in 0..6 {
        let txn = db.begin_write().unwrap();
        txn.open_table(&BLOBS).unwrap().insert(1, &value).unwrap();
        txn.rollback().unwrap();
        sizes.push(bytes(&db));
    }
    assert!(sizes[5] <= sizes[0] + (4 << 20), "{sizes:?}");
    common::assert_sound(&db);
}
