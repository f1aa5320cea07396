//! A metered disk counts requests and bytes of data files, and leaves those of the log to the log.

use std::sync::Arc;

use holdfast_io::{Create, Disk, FileKind, MemoryDisk, MeteredDisk, OpenOptions, ReadAt, WriteAt};
use holdfast_metrics::{Counter, Metrics};

#[test]
fn requests_are_counted_by_kind_of_file() {
    let metrics = Metrics::new();
    let disk = MeteredDisk::new(Arc::new(MemoryDisk::new()), metrics.clone());
    let data = disk.open("t", OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
    let page = [0; 4096];
    data.write_at(0, &page).unwrap();
    data.write_batch(&[WriteAt::new(4096, &page), WriteAt::new(8192, &page)]).unwrap();
    data.read_at(0, &mut [0; 100]).unwrap();
    data.read_batch(&mut [ReadAt { offset: 0, buf: &mut [0; 50] }]).unwrap();
    assert!(data.read_at(1 << 20, &mut [0; 100]).is_err());
    data.sync().unwrap();
    let log = disk.open("wal", OpenOptions::new(FileKind::Log).create(Create::New)).unwrap();
    log.write_at(0, &page).unwrap();
    log.sync().unwrap();

    let s = metrics.snapshot();
    assert_eq!((s.get(Counter::DataWrites), s.get(Counter::DataWritten)), (3, 3 * 4096));
    assert_eq!((s.get(Counter::DataReads), s.get(Counter::DataRead)), (3, 150), "a failed read moved no bytes");
    assert_eq!(s.get(Counter::DataFsyncs), 1);
}
