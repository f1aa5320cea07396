//! The folder of the files.

use std::path::{Path, PathBuf};

use super::options::Options;
use crate::folder::Folder;

const MEMORY: &str = "/dev/shm";
const DISK: &str = ".lab";
/// Begins the names of the folders; the id of the process follows.
const NAME: &str = "holdfast-scale-";

/// Bytes of an engine's files for each row, and beside them: log and appended rows.
const BYTES_A_ROW: u64 = 400;
const BYTES_BESIDE: u64 = 2 << 30;

/// A folder that is removed when it is dropped.
pub struct Place {
    folder: Folder,
    says: String,
}

impl Place {
    /// A folder in `dir`; without one in memory, if there is room for the files.
    pub fn new(dir: Option<&Path>, options: &Options) -> anyhow::Result<Place> {
        let needed = options.engines.len() as u64 * (options.rows * BYTES_A_ROW + BYTES_BESIDE);
        let (top, says): (PathBuf, _) = match dir {
            Some(dir) => (dir.to_path_buf(), format!("files in {}", dir.display())),
            None if room(Path::new(MEMORY)).is_some_and(|room| room >= needed) => {
                (MEMORY.into(), format!("files in memory ({MEMORY})"))
            }
            None => {
                let gib = needed as f64 / f64::from(1 << 30);
                (DISK.into(), format!("files in {DISK}: {MEMORY} does not have the {gib:.1} GiB that they may take"))
            }
        };
        Ok(Place { folder: Folder::new(&top, NAME)?, says })
    }

    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Where it is, and why.
    pub fn says(&self) -> &str {
        &self.says
    }
}

/// Free bytes of the file system of `dir`.
fn room(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}
