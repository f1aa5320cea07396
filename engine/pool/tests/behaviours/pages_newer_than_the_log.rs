//! A page is written after its log, so one that is newer than the end of the log says that the log
//! has lost its end. Its rows were once shown, even of transactions that the log did not have.

use holdfast_base::{Lsn, PageNo, SpaceId, page};
use holdfast_io::{FileKind, OpenOptions};
use holdfast_pool::restore_torn_pages;

use crate::common::{Bed, PAGE, open_space, read};

/// A page of another space, of LSN `lsn`, at its place on the disk.
fn written_at(bed: &Bed, lsn: Lsn) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    bed.pool.flush_all().unwrap();
    bed.space.file().read_at(0, &mut bytes).unwrap();
    bytes[page::OFF_SPACE..][..4].copy_from_slice(&17u32.to_le_bytes());
    page::set_lsn(&mut bytes, lsn);
    page::seal(&mut bytes);
    bytes
}

#[test]
fn are_damaged() {
    let bed = Bed::new(64);
    bed.create_many(1);
    let end = bed.wal.end_lsn();
    for (no, lsn) in [(17, end), (18, Lsn(end.0 + 32))] {
        let other = open_space(&bed.pool, &bed.disk, SpaceId(no));
        let mut bytes = written_at(&bed, lsn);
        bytes[page::OFF_SPACE..][..4].copy_from_slice(&no.to_le_bytes());
        page::seal(&mut bytes);
        other.file().write_at(0, &bytes).unwrap();
        let (found, checked) = (read(&bed.pool, &other, 0), bed.pool.check_page(&other, &bytes, PageNo(0)));
        if lsn == end {
            assert!(found.is_ok() && checked.is_ok(), "{found:?}, {checked:?}");
        } else {
            let error = found.unwrap_err();
            assert!(error.is_damage() && error.to_string().contains("the end of the log is lost"), "{error}");
            assert!(checked.is_err());
        }
    }
}

#[test]
fn are_read_where_another_log_has_them() {
    let bed = Bed::new(64);
    bed.create_many(1);
    let bytes = written_at(&bed, Lsn(bed.wal.end_lsn().0 + 32));
    let file = bed.disk.open("t17.hf", OpenOptions::new(FileKind::Data).create(holdfast_io::Create::New)).unwrap();
    file.write_at(0, &bytes).unwrap();
    let other = bed.pool.open_space_of_another_log(SpaceId(17), file).unwrap();
    read(&bed.pool, &other, 0).unwrap();
}

#[test]
fn keep_the_database_shut_if_there_are_images_of_them() {
    let bed = Bed::new(64);
    bed.create_many(4);
    bed.pool.flush_all().unwrap();
    let file = bed.space.file().clone();
    let restore = |end| {
        let log = bed.wal.checkpoint_lsn()..end;
        restore_torn_pages(&*bed.disk, PAGE, log, &mut |_| Ok(Some(file.clone())))
    };
    restore(bed.wal.end_lsn()).unwrap();
    file.write_at(2048, &[0xee; 2048]).unwrap();
    let error = restore(Lsn(bed.wal.end_lsn().0 - 32)).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("its end is lost"), "{error}");
    let mut bytes = vec![0; PAGE];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes[2048], 0xee, "nothing was changed");
}
