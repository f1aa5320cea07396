//! io_uring and the thread pool give the same files and the same errors for the same batches.

use holdfast_io::{
    AlignedBuf, BatchMethod, Create, Disk, FileDisk, FileDiskOptions, FileKind, FlushMethod, OpenOptions, ReadAt,
    WriteAt,
};
use holdfast_testkit::SplitMix64;

fn image(dir: &std::path::Path, options: FileDiskOptions) -> Option<Vec<u8>> {
    // Without io_uring there is nothing to compare.
    let disk = FileDisk::open_with(dir, options).ok()?;
    let file = disk.open("t", OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
    let mut rng = SplitMix64::new(42);
    for round in 0..20 {
        let mut slots: Vec<u64> = (0..256).collect();
        let mut pages: Vec<(u64, AlignedBuf)> = (0..rng.below(200))
            .map(|_| {
                let slot = slots.swap_remove(rng.below(slots.len() as u64) as usize);
                let mut page = AlignedBuf::zeroed(4096);
                page.fill_with(|| rng.next_u64() as u8);
                (slot * 4096, page)
            })
            .collect();
        if round % 2 == 1 {
            // Many of them are adjacent now.
            pages.sort_by_key(|page| page.0);
        }
        let writes: Vec<_> = pages.iter().map(|(offset, page)| WriteAt::new(*offset, page)).collect();
        file.write_batch(&writes).unwrap();
    }
    let len = file.len().unwrap() as usize;
    let mut image = AlignedBuf::zeroed(len);
    let chunks = image.chunks_mut(4096).enumerate();
    let mut reads: Vec<_> = chunks.map(|(i, buf)| ReadAt { offset: i as u64 * 4096, buf }).collect();
    file.read_batch(&mut reads).unwrap();
    let mut past = AlignedBuf::zeroed(8192);
    let (a, b) = past.split_at_mut(4096);
    let mut reads = [ReadAt { offset: 0, buf: a }, ReadAt { offset: len as u64, buf: b }];
    let error = file.read_batch(&mut reads).unwrap_err();
    // The last page of the file, and the bytes behind it.
    let mut end = AlignedBuf::zeroed(8192);
    let (a, b) = end.split_at_mut(4096);
    let mut reads = [ReadAt { offset: len as u64 - 4096, buf: a }, ReadAt { offset: len as u64, buf: b }];
    assert_eq!(file.read_batch(&mut reads).unwrap_err().to_string(), error.to_string());
    assert_eq!(end[..4096], image[len - 4096..]);
    let mut image = image.to_vec();
    image.extend_from_slice(error.to_string().as_bytes());
    Some(image)
}

#[test]
fn they_leave_the_same_bytes_behind() {
    for flush_method in [FlushMethod::ODirect, FlushMethod::Fsync] {
        let by = |batch| {
            let dir = tempfile::tempdir().unwrap();
            image(dir.path(), FileDiskOptions { flush_method, batch, ..FileDiskOptions::default() })
        };
        let threads = by(BatchMethod::Threads).unwrap();
        if let Some(uring) = by(BatchMethod::IoUring) {
            assert!(uring == threads, "{flush_method:?}");
        }
        assert!(by(BatchMethod::Auto).unwrap() == threads, "{flush_method:?}");
    }
}
