//! The header of a table was being written while the table was dropped. The drop marked the file as
//! one that may go, and the older header came behind the mark: a file that then could not be
//! removed, or came back by a power cut, was that of a stranger.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use holdfast_testkit::{Fault, FaultDisk, FaultOp, HookedDisk};

use crate::common;

/// How long the older write waits for one that comes before it. None should.
const PATIENCE: Duration = Duration::from_millis(300);

#[test]
fn the_file_says_that_it_may_go() {
    let hooked = HookedDisk::default();
    let disk = FaultDisk::new(Arc::new(hooked.clone()));
    let db = common::create_on(&disk);
    common::fill(&db, 0, 100);
    let name = db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file;
    db.checkpoint().unwrap();
    // Pages are allocated, which the header says.
    common::fill(&db, 100, 3_000);

    let (begins, has_begun) = mpsc::channel();
    let (writes, of_table) = (AtomicU32::new(0), name.clone());
    hooked.on_write(move |file| {
        if file == of_table && writes.fetch_add(1, Ordering::SeqCst) == 0 {
            begins.send(()).unwrap();
            let end = Instant::now() + PATIENCE;
            while writes.load(Ordering::SeqCst) == 1 && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(20)); // The other one ends.
        }
    });
    disk.schedule(Fault::nth(FaultOp::Remove, 1).sticky().on(&name));
    std::thread::scope(|scope| {
        scope.spawn(|| db.checkpoint().unwrap());
        has_begun.recv().unwrap();
        db.drop_table("rows").unwrap();
    });
    hooked.on_write(|_| ());
    disk.clear();
    db.checkpoint().unwrap();
    drop(db);

    let db = common::open_on(&hooked);
    common::assert_sound(&db);
}
