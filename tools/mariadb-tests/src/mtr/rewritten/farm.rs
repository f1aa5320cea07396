//! The farm of the rewritten suites: the tree of the runner, in which every file that names InnoDB
//! as an engine is a file of its own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use holdfast_server::Cache;

use super::words::rewrite;

/// The files that are rewritten; others are programs and data.
const KINDS: [&str; 8] = ["test", "inc", "result", "rdiff", "opt", "cnf", "combinations", "sql"];

/// Combinations that run a test once for each of InnoDB's file formats.
const FORMATS: [&str; 8] = [
    "include/innodb_checksum_algorithm.combinations",
    "include/innodb_encrypt_log.combinations",
    "include/innodb_encrypt_tables.combinations",
    "include/innodb_page_size.combinations",
    "include/innodb_page_size_small.combinations",
    "include/innodb_prefix_index_cluster_optimization.combinations",
    "include/innodb_row_format.combinations",
    "include/innodb_undo_tablespaces.combinations",
];

/// The name of the folder in the cache.
pub const NAME: &str = "mtr-rewritten";

/// Makes the farm, or brings it up to date.
pub fn make(cache: &Cache) -> anyhow::Result<PathBuf> {
    let farm = super::super::farm::farm(cache, NAME)?;
    let (from, to) = (cache.root("usr/share/mysql/mysql-test"), farm.join("mysql-test"));
    for part in ["include", "main", "suite"] {
        rewrite_folder(&from.join(part), &to.join(part))?;
    }
    for file in FORMATS {
        let _ = fs::remove_file(to.join(file));
    }
    Ok(farm)
}

fn rewrite_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            rewrite_folder(&path, &to)?;
        } else if path.extension().and_then(OsStr::to_str).is_some_and(|kind| KINDS.contains(&kind)) {
            rewrite_file(&path, &to)?;
            if to.extension() == Some(OsStr::new("rdiff")) {
                let name = to.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let base = name.split(',').next().unwrap_or_default();
                own(&to.with_file_name(format!("{base}.result")))?;
            }
        }
    }
    Ok(())
}

/// Makes a file of a link: what differences are applied to has to be one.
fn own(file: &Path) -> anyhow::Result<()> {
    if file.is_symlink() && file.exists() {
        let text = fs::read(file)?;
        fs::remove_file(file)?;
        fs::write(file, text)?;
    }
    Ok(())
}

/// A file that stays as it is remains a link.
fn rewrite_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    let text = fs::read(from)?;
    let (rewritten, _) = rewrite(&text);
    if fs::read(to).ok().as_ref() != Some(&rewritten) {
        let _ = fs::remove_file(to);
        fs::write(to, rewritten)?;
    }
    Ok(())
}
