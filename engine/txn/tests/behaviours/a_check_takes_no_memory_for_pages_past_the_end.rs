//! A check of the undo space takes memory for the pages that the file has, not for the numbers that
//! a damaged directory of undo logs names: it was half a gigabyte for one of them.

use holdfast_base::PageNo;
use holdfast_pool::AccessKind;
use holdfast_tree::PageSet;

use crate::common::Db;

/// Where a directory has the number of the next one, and the first log.
const NUMBERS: [usize; 2] = [68, 72];

#[test]
fn they_are_damage() {
    let db = Db::new();
    db.put(&[("1", "a")]);
    let acc = db.store.pool().access(AccessKind::Maintenance);
    let directory = PageNo(u32::try_from(db.files[0].mark(0, &acc).unwrap()).unwrap());
    {
        let mut page = db.store.pool().fix_exclusive(db.files[0].space(), directory, &acc).unwrap();
        for at in NUMBERS {
            page.bytes_mut()[at..at + 4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
        }
    }
    let (mut reached, mut findings) = (PageSet::new(), Vec::new());
    db.sys.verify(&acc, &mut reached, &mut |f| findings.push(f)).unwrap();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(reached.bytes() < 1 << 20, "{}", reached.bytes());
}
