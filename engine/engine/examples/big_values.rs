//! Values of many megabytes: stored in chains of pages of their own, read into a buffer that is
//! used again.
//!
//! ```sh
//! cargo run --release -p holdfast-engine --example big_values
//! ```

use holdfast::{Database, Result, TableDefinition};

const FILES: TableDefinition<&str, &[u8]> = TableDefinition::new("files");

fn content(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 251) as u8 ^ (i as u8).wrapping_mul(seed)).collect()
}

fn main() -> Result<()> {
    let db = Database::builder().cache_size_bytes(16 << 20).in_memory()?;
    let sizes = [("empty", 0), ("small", 100), ("page", 16 << 10), ("large", 3 << 20), ("larger", 12 << 20)];
    for (seed, (name, len)) in (1..).zip(sizes) {
        db.transact(|txn| txn.open_table(&FILES)?.insert(name, &content(seed, len)))?;
    }

    // The old value stays readable for snapshots until none needs it.
    let before = db.begin_read()?;
    db.transact(|txn| txn.open_table(&FILES)?.upsert("large", b"replaced").map(drop))?;

    let mut buffer = Vec::new();
    let files = before.open_table(&FILES)?;
    for (seed, (name, len)) in (1..).zip(sizes) {
        assert!(files.get_into(name, &mut buffer)?);
        assert!(buffer == content(seed, len), "{name}");
        println!("{name}: {} bytes", buffer.len());
    }
    let now = db.begin_read()?;
    assert_eq!(now.open_table(&FILES)?.get("large")?.as_deref(), Some(b"replaced".as_slice()));
    Ok(())
}
