//! What a chore needs from the system, by package name: looked for first, installed where we may.

use std::path::Path;
use std::process::Command;

use anyhow::bail;

use crate::run::{check, works};

/// Something that the system has to provide.
#[derive(Clone, Copy)]
pub struct Need {
    /// The package of Debian and its relatives that has it.
    pub package: &'static str,
    /// What it is needed for, in the words of a message.
    pub reason: &'static str,
    /// Whether the machine has it.
    pub is_there: fn() -> bool,
}

/// Installs what is missing, if this process may; else says what to do.
pub fn provide(needs: &[Need]) -> anyhow::Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !(need.is_there)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for need in &missing {
        println!("the package {} is missing: {}", need.package, need.reason);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let install = format!("apt-get install --no-install-recommends {}", packages.join(" "));
    if !is_root() || !works(Command::new("apt-get").arg("--version")) {
        bail!("please install them, e.g. with `sudo {install}`, and run this again");
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-q");
        command
    };
    // Stale lists name versions that the archive no longer has.
    check(apt().arg("update"))?;
    check(apt().args(["-y", "install", "--no-install-recommends"]).args(&packages))
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// True if a `libclang` lies where bindgen looks for it.
pub fn has_libclang() -> bool {
    let is_libclang = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix("libclang").unwrap_or_default();
        // `libclang.so.1`, `libclang-14.so.14`, but not `libclang-cpp.so.14`.
        rest.starts_with(".so") || rest.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
    };
    let holds_one = |dir: &Path| children(dir).iter().any(|file| is_libclang(file));
    let llvm = children(Path::new("/usr/lib")).into_iter().flat_map(|dir| [dir.join("lib"), dir]);
    std::env::var_os("LIBCLANG_PATH").is_some()
        || llvm.chain(["/usr/lib".into(), "/usr/lib64".into()]).any(|dir| holds_one(&dir))
}

/// What lies in `dir`; nothing if it cannot be read.
fn children(dir: &Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(dir).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}
