//! The tree that the server's runner works in: links to the unpacked packages, which it can write
//! to.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use holdfast_server::Cache;
use holdfast_server::run::check;

/// The tree that the runner works in. The plugins are copied: a build meanwhile does not disturb a
/// run.
pub fn farm(cache: &Cache, name: &str) -> anyhow::Result<PathBuf> {
    let farm = cache.path(name);
    if !farm.join("mysql-test").exists() {
        fs::create_dir_all(farm.join("lib/mysql"))?;
        for (name, to) in [("bin", "usr/bin"), ("sbin", "usr/sbin"), ("share", "usr/share/mysql")] {
            let link = farm.join(name);
            if !link.exists() {
                symlink(cache.root(to), link)?;
            }
        }
        let tests = cache.root("usr/share/mysql/mysql-test");
        check(Command::new("cp").arg("-rs").arg(tests).arg(farm.join("mysql-test")))?;
    }
    let plugins = farm.join("lib/mysql/plugin");
    fs::create_dir_all(&plugins)?;
    for entry in fs::read_dir(cache.root("usr/lib/mysql/plugin"))? {
        let entry = entry?;
        if entry.path().is_file() {
            fs::copy(entry.path(), plugins.join(entry.file_name()))?;
        }
    }
    Ok(farm)
}
