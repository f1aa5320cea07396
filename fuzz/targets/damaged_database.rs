//! A database with bytes changed anywhere in its files: every call answers or fails, none panics.
#![no_main]

use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use holdfast::{Database, TableDefinition, VerifyOptions};
use holdfast_io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};
use libfuzzer_sys::fuzz_target;

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("t");

#[derive(Arbitrary, Debug)]
struct Damage {
    file: u8,
    offset: u32,
    bytes: Vec<u8>,
}

/// The files of a sound database.
fn image() -> &'static Vec<(String, Vec<u8>)> {
    static IMAGE: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let disk = Arc::new(MemoryDisk::new());
        let db = builder().disk(disk.clone()).create("fuzz").expect("create");
        let txn = db.begin_write().expect("begin");
        {
            let table = txn.open_table(&TABLE).expect("open");
            for n in 0..500u64 {
                table.insert(n, &[n as u8; 60]).expect("insert");
            }
            table.insert(1_000, &[1; 20_000]).expect("insert");
        }
        txn.commit().expect("commit");
        db.checkpoint().expect("checkpoint");
        let txn = db.begin_write().expect("begin");
        txn.open_table(&TABLE).expect("open").delete(7).expect("delete");
        txn.commit().expect("commit");
        let files = disk.list().expect("list").into_iter().map(|name| {
            let file = disk.open(&name, OpenOptions::new(FileKind::Meta)).expect("open");
            let mut bytes = vec![0; file.len().expect("len") as usize];
            file.read_at(0, &mut bytes).expect("read");
            (name, bytes)
        });
        files.collect()
    })
}

fn builder() -> holdfast::Builder {
    Database::builder().page_size(4096).cache_size_bytes(5 << 20).log_capacity_bytes(4 << 20).log_buffer_bytes(64 << 10)
}

fuzz_target!(|damage: Vec<Damage>| {
    let disk = Arc::new(MemoryDisk::new());
    for (name, bytes) in image() {
        let file = disk.open(name, OpenOptions::new(FileKind::Meta).create(Create::New)).expect("create");
        file.write_at(0, bytes).expect("write");
    }
    for Damage { file, offset, bytes } in damage {
        let (name, content) = &image()[usize::from(file) % image().len()];
        let offset = u64::from(offset) % (content.len() as u64).max(1);
        let file = disk.open(name, OpenOptions::new(FileKind::Meta)).expect("open");
        file.write_at(offset, &bytes).expect("write");
    }
    let Ok(db) = builder().disk(disk).open("fuzz") else { return };
    if let Ok(txn) = db.begin_read()
        && let Ok(table) = txn.open_table(&TABLE)
    {
        let _ = table.get(3);
        let _ = table.get(1_000);
        if let Ok(range) = table.iter() {
            let _ = range.take_while(Result::is_ok).count();
        }
    }
    let _ = db.verify(&VerifyOptions::default(), &mut |_| {});
    if let Ok(txn) = db.begin_write() {
        if let Ok(table) = txn.open_table(&TABLE) {
            let _ = (table.upsert(3, b"new"), table.delete(4), table.insert(5_000, b"x"));
        }
        let _ = txn.commit();
    }
    let _ = db.close();
});
