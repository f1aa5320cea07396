//! Time per operation of a tree whose pages are all in the pool: `cargo bench -p holdfast-tree`.
//! One thread, log and files in memory; each line is the best of three runs.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use holdfast_base::{IndexId, SpaceId};
use holdfast_io::{Disk, MemoryDisk};
use holdfast_metrics::Metrics;
use holdfast_pool::{AccessKind, Pool, PoolConfig};
use holdfast_tree::{Action, Direction, SpaceFile, Store, Tree};
use holdfast_wal::{Wal, WalConfig};

const ROWS: u64 = 1_000_000;
const UUID: [u8; 16] = [1; 16];
const PAYLOAD: [u8; 100] = [7; 100];

struct Bed {
    store: Arc<Store>,
    space: Arc<SpaceFile>,
    next_index: u32,
}

fn bed() -> Bed {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let metrics = Metrics::new();
    let config = WalConfig { capacity_bytes: 4 << 30, buffer_bytes: 64 << 20, ..WalConfig::default() };
    let wal = Wal::create(disk.clone(), UUID, config, metrics.clone()).unwrap();
    let pool = Pool::new(PoolConfig::new(disk.clone(), 16384, 2 << 30), wal.clone(), metrics.clone()).unwrap();
    pool.set_checkpoint_payload(|_| Vec::new());
    let store = Store::new(pool, wal, metrics);
    let space = SpaceFile::create(&store, disk.as_ref(), SpaceId(16), "t16.hf", UUID).unwrap();
    Bed { store, space, next_index: 1 }
}

impl Bed {
    fn tree(&mut self) -> Tree {
        self.next_index += 1;
        let index = IndexId(self.next_index);
        let acc = self.store.pool().access(AccessKind::Point);
        let root = Tree::create(&self.space, index, &acc).unwrap();
        Tree::open(&self.space, index, root)
    }
}

/// A permutation of `0..ROWS`.
fn scattered(n: u64) -> u64 {
    n * 618_033 % ROWS
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Best time of three runs over `n` operations, in ns per operation.
fn time(name: &str, n: u64, mut run: impl FnMut()) {
    let best = (0..3)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_nanos() as f64 / n as f64
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<44} {best:>9.1} ns");
}

fn main() {
    let only = std::env::args().nth(1).filter(|a| !a.starts_with("--"));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| name.contains(only));
    let mut bed = bed();
    let tree = bed.tree();
    let acc = bed.store.pool().access(AccessKind::Point);
    let mut loader = tree.bulk_loader(&acc).unwrap();
    (0..ROWS).for_each(|n| loader.push(&key(n), &PAYLOAD).unwrap());
    loader.finish().unwrap();
    println!("{:?}", tree.stats(&acc).unwrap());
    drop(acc);

    if wanted("get") {
        time_gets(&bed, &tree);
    }
    if wanted("range") {
        time_ranges(&bed, &tree);
    }
    if wanted("update") {
        time_updates(&bed, &tree);
    }
    if wanted("insert") {
        time_inserts(&mut bed);
    }
}

fn time_gets(bed: &Bed, tree: &Tree) {
    let mut out = Vec::new();
    time("get, random, resident", 500_000, || {
        let acc = bed.store.pool().access(AccessKind::Point);
        for n in 0..500_000 {
            assert!(tree.get(&key(scattered(n)), &acc, &mut out).unwrap());
        }
    });
    time("get, same 100 keys", 500_000, || {
        let acc = bed.store.pool().access(AccessKind::Point);
        for n in 0..500_000 {
            assert!(tree.get(&key(scattered(n % 100)), &acc, &mut out).unwrap());
        }
    });
    time("get, an access each", 500_000, || {
        for n in 0..500_000 {
            let acc = bed.store.pool().access(AccessKind::Point);
            assert!(tree.get(&key(scattered(n)), &acc, &mut out).unwrap());
        }
    });
}

fn time_ranges(bed: &Bed, tree: &Tree) {
    for (name, direction) in [("range, 100 rows", Direction::Forward), ("range, 100 rows, reverse", Direction::Reverse)]
    {
        time(name, 20_000, || {
            let acc = bed.store.pool().access(AccessKind::Range);
            let mut cursor = tree.cursor(&acc);
            for n in 0..20_000 {
                cursor.seek(Bound::Included(&key(scattered(n).clamp(200, ROWS - 200))), direction);
                for _ in 0..100 {
                    assert!(cursor.next().unwrap().is_some());
                }
            }
        });
    }
    time("range, whole tree, per row", ROWS, || {
        let acc = bed.store.pool().access(AccessKind::Range);
        let mut cursor = tree.cursor(&acc);
        cursor.seek(Bound::Unbounded, Direction::Forward);
        while cursor.next().unwrap().is_some() {}
    });
}

fn time_updates(bed: &Bed, tree: &Tree) {
    time("update, 100 bytes in place, random", 300_000, || {
        let acc = bed.store.pool().access(AccessKind::Point);
        for n in 0..300_000u64 {
            let mut decide = |old: Option<&[u8]>| {
                let mut new = old.unwrap().to_vec();
                new[50..58].copy_from_slice(&n.to_le_bytes());
                Ok(Action::Put(new))
            };
            tree.modify(&key(scattered(n)), &acc, &mut decide).unwrap();
        }
    });
}

fn time_inserts(bed: &mut Bed) {
    for (name, ascending) in [("insert, ascending", true), ("insert, random", false)] {
        let trees = [bed.tree(), bed.tree(), bed.tree()];
        let mut trees = trees.iter();
        time(name, 300_000, || {
            let tree = trees.next().unwrap();
            let acc = bed.store.pool().access(AccessKind::Point);
            for n in 0..300_000 {
                let n = if ascending { n } else { scattered(n) };
                tree.modify(&key(n), &acc, &mut |_| Ok(Action::Put(PAYLOAD.to_vec()))).unwrap();
            }
            println!("  leaf fill {:.2}", tree.stats(&acc).unwrap().leaf_fill());
        });
    }
}
