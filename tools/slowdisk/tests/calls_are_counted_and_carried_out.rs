//! The reads, writes and syncs of a supervised program in the folder are counted and carried out;
//! those elsewhere are not counted. The program is this test, started again.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use holdfast_slowdisk::{Disk, Traffic};
use holdfast_testkit::DiskModel;

const FOLDER: &str = "SLOWDISK_TEST_FOLDER";

/// The program's part. A test without the variable does nothing.
#[test]
fn program() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let inside = Path::new(&folder).join("inside");
    let file = File::options().read(true).write(true).create_new(true).open(&inside).unwrap();
    file.write_all_at(&[7; 8192], 0).unwrap();
    file.sync_data().unwrap();
    let mut back = [0; 4096];
    file.read_exact_at(&mut back, 0).unwrap();
    file.read_exact_at(&mut back, 4096).unwrap();
    assert_eq!(back, [7; 4096]);
    file.read_exact_at(&mut back, 100).unwrap();
    let (first, second) = back.split_at_mut(1000);
    let mut parts = [IoSliceMut::new(first), IoSliceMut::new(&mut second[..500])];
    assert_eq!(rustix::io::preadv(&file, &mut parts, 4196).unwrap(), 1500);
    file.read_exact_at(&mut back[..100], 4196 + 1500).unwrap();
    let outside = File::open(std::env::current_exe().unwrap()).unwrap();
    outside.read_exact_at(&mut back, 0).unwrap();
}

/// Runs the program on a modelled disk; `None` where programs cannot be supervised.
fn run(folder: &Path, switch: Option<&Path>) -> Option<Traffic> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program", "--exact", "--test-threads=1"]).env(FOLDER, folder);
    let model = DiskModel { seek: Duration::from_micros(100), bytes_per_second: 1_000_000_000 };
    match holdfast_slowdisk::run(&mut command, &Disk { folder, model, switch, cpus: &[] }) {
        Ok((status, traffic)) => {
            assert!(status.success(), "{status}");
            Some(traffic)
        }
        // Some sandboxes do not have the notifications; elsewhere this must work.
        Err(error) if error.to_string().contains("does not let a program be supervised") => {
            eprintln!("not tested: {error:#}");
            None
        }
        Err(error) => panic!("{error:#}"),
    }
}

#[test]
fn calls_are_counted_and_carried_out() {
    let dir = tempfile::tempdir().unwrap();
    let Some(traffic) = run(dir.path(), None) else { return };
    assert_eq!((traffic.reads, traffic.writes, traffic.syncs), (5, 1, 1));
    // The write, the sync, the first read and the one that goes back cost a seek. The second read
    // follows the first, the one into two parts follows the one that went back, and the last one
    // follows both parts.
    assert_eq!(traffic.seeks, 4);
    assert_eq!(std::fs::read(dir.path().join("inside")).unwrap(), [7; 8192]);
}

#[test]
fn calls_go_past_a_disk_that_is_switched_off() {
    let (dir, switch) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let Some(traffic) = run(dir.path(), Some(&dir.path().join("no such file"))) else { return };
    assert_eq!(traffic, Traffic::default());
    std::fs::remove_file(dir.path().join("inside")).unwrap();
    assert_eq!(run(dir.path(), Some(switch.path())).unwrap().writes, 1);
}
