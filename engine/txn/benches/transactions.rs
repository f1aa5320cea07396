//! Time per transaction when all pages are in the pool: `cargo bench -p holdfast-txn`. Log and
//! files in memory, durability "lazy", purge in the background; each line is the best of three
//! runs.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use holdfast_base::{IndexId, SpaceId};
use holdfast_io::{Disk, MemoryDisk};
use holdfast_metrics::Metrics;
use holdfast_pool::{AccessKind, Pool, PoolConfig};
use holdfast_tree::{SpaceFile, Store, Tree};
use holdfast_txn::*;
use holdfast_wal::{Wal, WalConfig};

const ROWS: u64 = 100_000;
const UUID: [u8; 16] = [1; 16];

struct Bed {
    sys: Arc<TxnSystem>,
    rows: Arc<TableIndex>,
}

fn bed() -> Bed {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let metrics = Metrics::new();
    let config = WalConfig { capacity_bytes: 4 << 30, buffer_bytes: 64 << 20, ..WalConfig::default() };
    let wal = Wal::create(disk.clone(), UUID, config, metrics.clone()).unwrap();
    let pool = Pool::new(PoolConfig::new(disk.clone(), 16384, 1 << 30), wal.clone(), metrics.clone()).unwrap();
    pool.set_checkpoint_payload(|_| Vec::new());
    let store = Store::new(pool, wal, metrics);
    let undo = SpaceFile::create(&store, disk.as_ref(), SpaceId(1), "undo.hf", UUID).unwrap();
    let space = SpaceFile::create(&store, disk.as_ref(), SpaceId(16), "t16.hf", UUID).unwrap();
    let sys = TxnSystem::create(&store, &undo, TxnConfig::default()).unwrap();
    let acc = store.pool().access(AccessKind::Point);
    let root = Tree::create(&space, IndexId(5), &acc).unwrap();
    drop(acc);
    let rows = TableIndex::new(Tree::open(&space, IndexId(5), root), IndexKind::Rows);
    sys.register(&rows);
    sys.start().unwrap();
    Bed { sys, rows }
}

fn key(n: u64) -> [u8; 8] {
    (n * 61_803 % ROWS).to_be_bytes()
}

fn time(name: &str, n: u64, mut run: impl FnMut()) {
    let best = (0..3)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_nanos() as f64 / n as f64
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<52} {best:>9.1} ns");
}

fn updates(bed: &Bed, from: u64, n: u64) {
    for i in from..from + n {
        let mut txn = bed.sys.begin(TxnOptions::default());
        txn.update(&bed.rows, &key(i), &[i as u8; 100], None).unwrap();
        txn.commit(FlushAtCommit::Lazy).unwrap();
    }
}

/// What a statement over all rows does: locks each, calls `change` with it, and commits.
fn statement(bed: &Bed, change: impl Fn(&mut Txn, &[u8])) {
    let mut txn = bed.sys.begin(TxnOptions { snapshot_isolation: false, ..TxnOptions::default() });
    let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
    let mut cursor = txn.cursor(&bed.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
    let mut row = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        row.clear();
        row.extend_from_slice(key);
        change(&mut txn, &row);
    }
    drop(cursor);
    txn.commit(FlushAtCommit::Lazy).unwrap();
}

fn reads(bed: &Bed) {
    let mut value = Vec::new();
    time("get, one snapshot", ROWS, || {
        let mut txn = bed.sys.begin(TxnOptions::snapshot());
        for i in 0..ROWS {
            assert!(txn.get(&bed.rows, &key(i), &mut value).unwrap());
        }
    });
    time("get, a transaction each", ROWS, || {
        for i in 0..ROWS {
            let mut txn = bed.sys.begin(TxnOptions::snapshot());
            assert!(txn.get(&bed.rows, &key(i), &mut value).unwrap());
            txn.commit(FlushAtCommit::Lazy).unwrap();
        }
    });
    time("scan, per row", ROWS, || {
        let mut txn = bed.sys.begin(TxnOptions::snapshot());
        let options = CursorOptions::default();
        let mut cursor = txn.cursor(&bed.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
        while cursor.next().unwrap().is_some() {}
    });
}

/// Changes and locks, many in one transaction.
fn statements(bed: &Bed) {
    time("update in one transaction", ROWS, || {
        let mut txn = bed.sys.begin(TxnOptions::default());
        for i in 0..ROWS {
            txn.update(&bed.rows, &key(i), &[i as u8; 100], None).unwrap();
        }
        txn.commit(FlushAtCommit::Lazy).unwrap();
    });
    time("a statement that locks all rows, per row", ROWS, || statement(bed, |_, _| {}));
    time("a statement that updates all rows, per row", ROWS, || {
        statement(bed, |txn, row| assert!(txn.update(&bed.rows, row, &[9; 100], None).unwrap()));
    });
    time("a lock on a range of one row, in one transaction", ROWS, || {
        let mut txn = bed.sys.begin(TxnOptions { snapshot_isolation: false, ..TxnOptions::default() });
        let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
        for i in 0..ROWS {
            let row = key(i);
            let one = Bound::Included(row.as_slice());
            let mut cursor = txn.cursor(&bed.rows, one, one, options).unwrap();
            while cursor.next().unwrap().is_some() {}
        }
        txn.commit(FlushAtCommit::Lazy).unwrap();
    });
}

fn main() {
    let bed = bed();
    let mut txn = bed.sys.begin(TxnOptions::default());
    let start = Instant::now();
    for i in 0..ROWS {
        txn.insert(&bed.rows, &key(i), &[7; 100]).unwrap();
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
    println!(
        "{:<52} {:>9.1} ns",
        "insert, scattered, one transaction",
        start.elapsed().as_nanos() as f64 / ROWS as f64
    );
    reads(&bed);
    statements(&bed);
    time("update and commit", ROWS, || updates(&bed, 0, ROWS));
    time("update and commit, 2 threads", ROWS, || {
        std::thread::scope(|s| {
            s.spawn(|| updates(&bed, 0, ROWS / 2));
            s.spawn(|| updates(&bed, ROWS / 2, ROWS / 2));
        });
    });
    let mut value = Vec::new();
    let mut dump = bed.sys.begin(TxnOptions::snapshot());
    dump.take_snapshot();
    time("update and commit beside a long snapshot", ROWS, || updates(&bed, 0, ROWS));
    println!("{:?}", bed.sys.stats());
    time("get, old version, by the long snapshot", ROWS, || {
        for i in 0..ROWS {
            assert!(dump.get(&bed.rows, &key(i), &mut value).unwrap());
        }
    });
    drop(dump);
    bed.sys.shutdown();
}
