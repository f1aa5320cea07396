//! The folder of the files.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::options::Options;

const MEMORY: &str = "/dev/shm";
const DISK: &str = ".lab";
/// Begins the names of the folders; the id of the process follows.
const NAME: &str = "holdfast-scale-";

/// Bytes of an engine's files for each row, and beside them: log and appended rows.
const BYTES_A_ROW: u64 = 400;
const BYTES_BESIDE: u64 = 2 << 30;

/// A folder that is removed when it is dropped.
pub struct Place {
    dir: PathBuf,
    says: String,
}

impl Place {
    /// A folder in `dir`; without one in memory, if there is room for the files.
    pub fn new(dir: Option<&Path>, options: &Options) -> anyhow::Result<Place> {
        let needed = options.engines.len() as u64 * (options.rows * BYTES_A_ROW + BYTES_BESIDE);
        let (top, says) = match dir {
            Some(dir) => (dir.to_path_buf(), format!("files in {}", dir.display())),
            None if room(Path::new(MEMORY)).is_some_and(|room| room >= needed) => {
                (MEMORY.into(), format!("files in memory ({MEMORY})"))
            }
            None => {
                let gib = needed as f64 / f64::from(1 << 30);
                (DISK.into(), format!("files in {DISK}: {MEMORY} does not have the {gib:.1} GiB that they may take"))
            }
        };
        remove_leftovers(&top);
        let dir = top.join(format!("{NAME}{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| format!("{} cannot be created", dir.display()))?;
        Ok(Place { dir: std::path::absolute(dir)?, says })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where it is, and why.
    pub fn says(&self) -> &str {
        &self.says
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A later run removes what cannot be removed now.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Free bytes of the file system of `dir`.
fn room(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// Removes the folders of processes that were killed.
fn remove_leftovers(top: &Path) {
    let entries = std::fs::read_dir(top).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_prefix(NAME).filter(|id| id.chars().all(|c| c.is_ascii_digit())) else { continue };
        if !Path::new("/proc").join(id).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_processes_that_have_ended_are_removed() {
        let top = std::env::temp_dir().join(format!("place-{}", std::process::id()));
        // No process has an id this large.
        let (dead, alive, other) =
            (format!("{NAME}999999999"), format!("{NAME}{}", std::process::id()), "holdfast-scale-x");
        for name in [dead.as_str(), &alive, other] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        remove_leftovers(&top);
        assert!(!top.join(&dead).exists() && top.join(&alive).exists() && top.join(other).exists());
        std::fs::remove_dir_all(&top).unwrap();
    }
}
