//! Indexes of one space keep their pages together, although they grow at the same time.
//!
//! A page that split in an index that grows everywhere once took a free extent for itself alone.
//! When there was none, it took the next pages of the extent that the index beside it was filling,
//! because the file grew only when it was full. A table filled by INSERTs had two or three pages of
//! its rows in sequence, and a dump of it on a spinning disk made a seek for each of these groups.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::IndexId;
use holdfast_io::{ManualClock, MemoryDisk};
use holdfast_testkit::{DiskModel, ModelDisk, SplitMix64};
use holdfast_tree::{Direction, Tree};

use crate::common::*;

const ROWS: u32 = 30_000;

#[test]
fn an_index_that_grows_at_its_end_beside_one_that_grows_everywhere_lies_in_a_row() {
    let model = ModelDisk::new(Arc::new(MemoryDisk::new()), DiskModel::spinning(), Arc::new(ManualClock::new()));
    model.set_enabled(false);
    let bed = Bed::create(Arc::new(model.clone()), Setup { frames: 4096, ..Setup::default() }).unwrap();
    let rows = bed.new_tree();
    let root = Tree::create(&bed.space, IndexId(6), &bed.access()).unwrap();
    let everywhere = Tree::open(&bed.space, IndexId(6), root);
    let mut random = SplitMix64::new(5);
    for i in 0..ROWS {
        put(&rows, &i.to_be_bytes(), &[7; 150], &bed.access()).unwrap();
        put(&everywhere, &random.next_u64().to_be_bytes(), &i.to_be_bytes(), &bed.access()).unwrap();
    }
    let pages = bed.space.info(&bed.access()).unwrap();
    assert!(pages.free_pages < pages.pages / 4, "{pages:?}: keeping apart must not cost much room");
    let root = rows.root();
    drop((rows, everywhere));
    let bed = bed.reopen();
    let tree = bed.tree(root);
    let leaves = tree.stats(&bed.access()).unwrap().levels[0].pages;
    let bed = bed.reopen();
    model.set_enabled(true);
    let before = model.traffic()[FILE].seeks;
    let tree = bed.tree(root);
    let acc = bed.access();
    let mut cursor = tree.cursor(&acc);
    cursor.seek(Bound::Unbounded, Direction::Forward);
    let mut found = 0;
    while cursor.next().unwrap().is_some() {
        found += 1;
    }
    assert_eq!(found, ROWS);
    let seeks = model.traffic()[FILE].seeks - before;
    assert!(seeks < leaves / 12, "{seeks} seeks for {leaves} leaves");
}
