//! The split of a node logs more than the smallest log buffer let through at once with large pages:
//! the change was refused when pages had been changed already, which stopped the database.

use holdfast::{Database, TableDefinition};

use crate::common;

const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");

#[test]
fn nodes_of_every_page_size_split_with_the_smallest_log_buffer() {
    for page_size in [4096, 8192, 16384, 32768, 65536] {
        let builder = Database::builder().page_size(page_size).cache_size_bytes(16 << 20).log_buffer_bytes(64 << 10);
        let db = builder.in_memory().unwrap();
        // In a shuffled order, so that nodes split in the middle, where most is logged.
        for key in (0..97).map(|n| n * 41 % 97) {
            let value = vec![key as u8; page_size / 5 + key as usize * 7];
            let done = db.transact(|txn| txn.open_table(&ROWS)?.upsert(key, &value));
            done.unwrap_or_else(|error| panic!("pages of {page_size} bytes, key {key}: {error}"));
        }
        common::assert_sound(&db);
    }
}
