//! The directory of undo logs named fewer logs than there are, on a page with the right checksum:
//! an unfinished transaction that is not in the directory is not undone, and its rows are taken for
//! committed ones. A check counted the logs' pages as lost space and called the database sound.

use holdfast::VerifyOptions;
use holdfast::io::{Disk, FileKind, OpenOptions};
use holdfast_base::page::{self, PageHeader, PageType};

use crate::common;

const PAGE: usize = 4096;
/// Where a page of the directory says how many entries it has.
const COUNT: std::ops::Range<usize> = 64..68;

#[test]
fn that_the_directory_lacks() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 100);
    common::assert_sound(&db);
    db.close().unwrap();
    let disk = common::copy(&disk);
    let _ = disk.remove("doublewrite");
    let file = disk.open("undo.hf", OpenOptions::new(FileKind::Data)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    let mut logs = 0;
    for sheet in bytes.chunks_exact_mut(PAGE) {
        if PageHeader::decode(sheet).is_some_and(|header| header.page_type == PageType::UndoDirectory) {
            logs += u32::from_le_bytes(sheet[COUNT].try_into().unwrap());
            sheet[COUNT].fill(0);
            page::seal(sheet);
        }
    }
    assert!(logs > 0);
    file.write_at(0, &bytes).unwrap();
    let db = common::open_on(&disk);
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    let lost = report.findings.iter().filter(|finding| finding.what.contains("nothing leads to it")).count();
    assert_eq!(lost, logs as usize, "{:?}", report.findings);
}
