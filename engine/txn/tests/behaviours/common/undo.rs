//! Damage of undo logs.

use holdfast_base::page::{PageHeader, PageType};
use holdfast_io::{FileKind, OpenOptions};

use super::Db;

/// Closes a database cleanly, with transactions that are not ended, and damages an extension of an
/// undo log before it is opened again.
pub fn reopen_damaged(db: Db) -> Db {
    let (disk, setup) = db.close();
    let _ = disk.remove("doublewrite");
    let undo = disk.open("undo.hf", OpenOptions::new(FileKind::Data)).unwrap();
    let is_extension = |page: &u64| {
        let mut bytes = [0; 80];
        undo.read_at(page * 4096, &mut bytes).unwrap();
        let header = PageHeader::decode(&bytes[..64]);
        header.is_some_and(|header| header.page_type == PageType::Undo && bytes[76] == 2)
    };
    let extensions: Vec<u64> = (2..undo.len().unwrap() / 4096).filter(is_extension).collect();
    undo.write_at(extensions[extensions.len() / 2] * 4096 + 1_000, &[0xa5; 8]).unwrap();
    Db::open(disk, setup).unwrap()
}
