//! A drop gives the file of its table back, which takes as long as the file is large. It did that
//! under the lock of the numbers that tables count up, which the open of each table takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use holdfast::raw::{Lifetime, RawDatabase};
use holdfast_testkit::HookedDisk;

use crate::common;

/// How long the file waits for the open of another table.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

#[test]
fn another_table_is_opened_meanwhile() {
    let disk = HookedDisk::default();
    let raw = RawDatabase::new(common::create_on(&disk));
    for name in ["dropped", "other"] {
        raw.create_table(name, &[], b"", Lifetime::Lasting).unwrap();
    }
    // From here on its numbers are known.
    drop(raw.open_table("dropped").unwrap());
    let tables = raw.database().list_tables();
    let file = tables.into_iter().find(|table| table.name == "dropped").unwrap().file;
    let [goes, is_open, in_time] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let (begins, opened, told) = (Arc::clone(&goes), Arc::clone(&is_open), Arc::clone(&in_time));
    // Its pages may be written before, by the threads of the cache.
    disk.on_remove(move |name| {
        if name == file {
            begins.store(true, Ordering::SeqCst);
            let end = Instant::now() + PATIENCE;
            while !opened.load(Ordering::SeqCst) && Instant::now() < end {
                sleep(PAUSE);
            }
            told.store(opened.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !goes.load(Ordering::SeqCst) {
                sleep(PAUSE);
            }
            raw.open_table("other").unwrap();
            is_open.store(true, Ordering::SeqCst);
        });
        raw.drop_table("dropped", common::WAIT).unwrap();
        goes.store(true, Ordering::SeqCst);
    });
    assert!(in_time.load(Ordering::SeqCst), "the open waited for the file");
}
