//! The folder of a run, in one that has other things.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// A folder that is removed when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A folder in `top`, whose name begins with `name` and ends with the id of this process. Those
    /// of processes that were killed are removed; what else is there stays.
    pub fn new(top: &Path, name: &str) -> anyhow::Result<Folder> {
        remove_leftovers(top, name);
        let dir = top.join(format!("{name}{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| format!("{} cannot be created", dir.display()))?;
        Ok(Folder(std::path::absolute(dir)?))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A later run removes what cannot be removed now.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of processes that were killed.
fn remove_leftovers(top: &Path, name: &str) {
    let entries = std::fs::read_dir(top).into_iter().flatten().flatten();
    for entry in entries {
        let found = entry.file_name().to_string_lossy().into_owned();
        let id = found.strip_prefix(name).filter(|id| !id.is_empty() && id.chars().all(|c| c.is_ascii_digit()));
        let Some(id) = id else { continue };
        if !Path::new("/proc").join(id).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "holdfast-test-";

    #[test]
    fn folders_of_processes_that_have_ended_are_removed_and_nothing_else() {
        let top = std::env::temp_dir().join(format!("folder-{}", std::process::id()));
        // No process has an id this large.
        let (dead, alive, others) =
            (format!("{NAME}999999999"), format!("{NAME}{}", std::process::id()), ["holdfast-test-x", NAME, "data"]);
        for name in [dead.as_str(), &alive].into_iter().chain(others) {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        let folder = Folder::new(&top, NAME).unwrap();
        assert_eq!(folder.path(), top.join(&alive));
        drop(folder);
        assert!(!top.join(&dead).exists() && !top.join(&alive).exists());
        assert!(others.iter().all(|name| top.join(name).exists()), "other programs made them");
        std::fs::remove_dir_all(&top).unwrap();
    }
}
