//! The disk in memory, in tests small enough for Miri: the suite that all disks pass is too long
//! for it.

use holdfast_io::{AlignedBuf, Create, Disk, FileKind, MemoryDisk, OpenOptions, ReadAt, WriteAt};

fn new_file(disk: &MemoryDisk, name: &str) -> std::sync::Arc<dyn holdfast_io::File> {
    disk.open(name, OpenOptions::new(FileKind::Data).create(Create::New)).unwrap()
}

#[test]
fn batches_through_aligned_buffers() {
    let file = new_file(&MemoryDisk::new(), "t");
    let mut page = AlignedBuf::from_slice(b"one");
    page.resize(600);
    file.write_batch(&[WriteAt::new(600, &page), WriteAt::new(0, b"two")]).unwrap();
    let (mut a, mut b) = (AlignedBuf::zeroed(3), AlignedBuf::zeroed(4));
    file.read_batch(&mut [ReadAt { offset: 0, buf: &mut a }, ReadAt { offset: 600, buf: &mut b }]).unwrap();
    assert_eq!((&a[..], &b[..]), (&b"two"[..], &b"one\0"[..]));
    file.set_len(601).unwrap();
    file.read_at(0, &mut a).unwrap();
    assert_eq!(&a[..], b"two");
    assert!(file.read_at(600, &mut b).is_err());
}

#[test]
fn threads_use_files_and_names_at_once() {
    let disk = MemoryDisk::new();
    let shared = new_file(&disk, "shared");
    std::thread::scope(|s| {
        for t in 0..3u8 {
            let (disk, shared) = (&disk, &shared);
            s.spawn(move || {
                let own = new_file(disk, &format!("own{t}"));
                for i in 0..4 {
                    let offset = (i * 3 + u64::from(t)) * 16;
                    shared.write_at(offset, &[t; 16]).unwrap();
                    let mut back = [0; 16];
                    shared.read_at(offset, &mut back).unwrap();
                    assert_eq!(back, [t; 16]);
                    own.write_at(offset, &back).unwrap();
                }
                disk.rename(&format!("own{t}"), &format!("done{t}")).unwrap();
            });
        }
    });
    assert_eq!(shared.len().unwrap(), 12 * 16);
    assert_eq!(disk.list().unwrap(), ["done0", "done1", "done2", "shared"]);
}
