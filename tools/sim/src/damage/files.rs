//! The files of a database, outside of any disk.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use holdfast::io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};

/// Names and bytes.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Bytes written at a time: a run of zeros of this length stays a hole.
const PIECE: usize = 64 << 10;

/// The files of a disk.
///
/// # Errors
/// The errors of the disk.
#[cfg(any(sim, test))]
pub fn of_disk(disk: &dyn Disk) -> anyhow::Result<Files> {
    let read = |name: String| {
        let file = disk.open(&name, OpenOptions::new(FileKind::Meta))?;
        let mut bytes = vec![0; usize::try_from(file.len()?)?];
        file.read_at(0, &mut bytes)?;
        Ok((name, bytes))
    };
    disk.list()?.into_iter().map(read).collect()
}

/// A disk in memory with these files.
///
/// # Errors
/// The errors of the disk.
pub fn to_disk(files: &Files) -> anyhow::Result<MemoryDisk> {
    let disk = MemoryDisk::new();
    for (name, bytes) in files {
        let file = disk.open(name, OpenOptions::new(FileKind::Meta).create(Create::New))?;
        file.set_len(bytes.len() as u64)?;
        for (n, piece) in bytes.chunks(PIECE).enumerate() {
            if piece.iter().any(|&byte| byte != 0) {
                file.write_at((n * PIECE) as u64, piece)?;
            }
        }
    }
    Ok(disk)
}

/// Writes the files into a directory, which is made.
///
/// # Errors
/// The errors of the system.
pub fn save(files: &Files, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    for (name, bytes) in files {
        std::fs::write(dir.join(name), bytes).with_context(|| format!("write {name}"))?;
    }
    Ok(())
}

/// Reads the files of a directory.
///
/// # Errors
/// The errors of the system.
pub fn load(dir: &Path) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_go_to_a_disk_and_come_back() {
        let mut long = vec![0; 3 * PIECE + 7];
        long[PIECE + 1] = 9;
        long[3 * PIECE + 6] = 1;
        let files =
            Files::from([("a".to_owned(), vec![]), ("wal.000001".to_owned(), vec![1, 2]), ("t16.hf".to_owned(), long)]);
        assert!(of_disk(&to_disk(&files).unwrap()).unwrap() == files);
        let dir = tempfile::tempdir().unwrap();
        save(&files, &dir.path().join("new")).unwrap();
        assert!(load(&dir.path().join("new")).unwrap() == files);
    }
}
