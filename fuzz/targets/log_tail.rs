//! Any bytes behind a log that was synced: recovery returns the groups that were acknowledged and
//! then stops, or says that the log is damaged; never a panic, never a wrong group.
#![no_main]

use std::sync::Arc;

use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_metrics::Metrics;
use holdfast_wal::{Wal, WalConfig};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (Vec<u8>, u16)| {
    let (garbage, shift) = data;
    let disk = Arc::new(MemoryDisk::new());
    let config = WalConfig { capacity_bytes: 4 << 20, buffer_bytes: 64 << 10, ..WalConfig::default() };
    let uuid = [7; 16];
    let wal = Wal::create(disk.clone(), uuid, config.clone(), Metrics::new()).expect("a log");
    let mut end = wal.next_lsn();
    for n in 0..3u8 {
        end = wal.append(&[n; 40]).expect("append").1;
    }
    wal.flush_to(end).expect("flush");
    drop(wal);
    let names = disk.list().expect("list");
    let name = names.iter().find(|name| name.starts_with("wal.")).expect("a segment");
    let file = disk.open(name, OpenOptions::new(FileKind::Log)).expect("open");
    // Behind the acknowledged bytes, whose place is found by content: the last group's payload.
    let mut bytes = vec![0; 8192];
    file.read_at(0, &mut bytes).expect("read");
    let last = bytes.windows(40).rposition(|window| window == [2; 40]).expect("the last group") + 40;
    let at = last.next_multiple_of(32) + usize::from(shift % 64);
    if at + garbage.len() <= 64 << 10 {
        file.write_at(at as u64, &garbage).expect("write");
    }
    match Wal::open(disk, uuid, config, Metrics::new()) {
        Err(error) => assert!(error.is_damage(), "{error}"),
        Ok((_wal, mut recovery)) => {
            for n in 0..3u8 {
                let group = recovery.next().expect("an acknowledged group").expect("an acknowledged group");
                assert_eq!(group.payload, &[n; 40][..]);
            }
        }
    }
});
