//! A server's folder belongs to one process at a time: a second run would end the server of the
//! first one, or remove its data, and the first one would measure that. Whatever starts, ends or
//! changes a server takes the folder first.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};

/// Takes the folder `dir` of a server for this process, until its end.
///
/// # Errors
/// If another process has it.
pub(crate) fn hold(dir: &Path) -> anyhow::Result<()> {
    static HELD: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if !held.contains_key(dir) {
        held.insert(dir.to_owned(), locked(dir)?);
    }
    Ok(())
}

/// The file beside the folder, locked. The folder itself comes and goes.
fn locked(dir: &Path) -> anyhow::Result<File> {
    let mut name = dir.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another run uses the server in {}; start this one when that has ended", dir.display())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_of_one_run_at_a_time() {
        let dir = std::env::temp_dir().join(format!("holdfast-hold-{}", std::process::id()));
        let first = locked(&dir).unwrap();
        let error = locked(&dir).unwrap_err().to_string();
        assert!(error.contains("another run uses the server in") && error.contains("holdfast-hold-"), "{error}");
        drop(first);
        hold(&dir).unwrap();
        hold(&dir).unwrap();
        assert!(locked(&dir).is_err(), "it is held until the process ends");
        fs::remove_file(dir.with_extension("lock")).unwrap();
    }
}
