//! The commands of the README on a bare machine: Debian 12 as debootstrap makes it, with a C
//! compiler, git and this machine's Rust, no locale, nothing else.
//!
//! The bare machine is a folder, in which a program is started by `chroot`, in mount and process
//! namespaces of its own: what it mounts and starts ends with it. It has a clone of the present
//! commit, an empty home, and this machine's way to the packages (apt's sources, Cargo's settings,
//! trusted certificates).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use holdfast_server::Cache;
use holdfast_server::release::machines_archive;

use crate::packages::{self, Need};
use crate::run::{check, root, works};

/// What a user types.
const COMMANDS: [&str; 2] = ["cargo run --release -- lab sideload --no-report", "cargo xtask test"];

/// What the machine has beyond the system itself.
const PACKAGES: &str = "ca-certificates,gcc,git,libc6-dev";
const RELEASE: &str = "bookworm";

/// Where the clone and the toolchain are, on the bare machine.
const PROJECT: &str = "root/holdfast";
const TOOLCHAIN: &str = "opt/rust";

const DEBOOTSTRAP: Need = Need {
    package: "debootstrap",
    reason: "it makes the bare machine",
    is_there: || Path::new("/usr/sbin/debootstrap").exists(),
};

/// Makes the machine, runs the commands there, and removes their results. `Some` if this machine
/// cannot make one.
///
/// # Errors
/// If a command fails. The clone stays as it is then.
pub fn run() -> anyhow::Result<Option<String>> {
    if !works(Command::new("unshare").args(["--mount", "--pid", "--fork", "true"])) {
        return Ok(Some("only the superuser may start programs in another root".into()));
    }
    if let Err(error) = packages::provide(&[DEBOOTSTRAP]) {
        return Ok(Some(format!("{error:#}")));
    }
    let machine = root().join(".cache/bare");
    if !machine.join("etc/debian_version").exists() {
        install(&machine)?;
    }
    let project = machine.join(PROJECT);
    if project.exists() {
        fs::remove_dir_all(&project)?;
    }
    check(Command::new("git").args(["clone", "--quiet", "--no-local", "."]).arg(&project))?;
    for command in COMMANDS {
        println!("on the bare machine: {command}");
        check(&mut within(&machine, command)?).with_context(|| format!("`{command}` on the bare machine"))?;
    }
    fs::remove_dir_all(&project)?;
    Ok(None)
}

/// Installs the system, and tells it where packages are.
fn install(machine: &Path) -> anyhow::Result<()> {
    if machine.exists() {
        fs::remove_dir_all(machine)?;
    }
    fs::create_dir_all(machine)?;
    check(
        Command::new("debootstrap")
            .args(["--variant=minbase", &format!("--include={PACKAGES}"), RELEASE])
            .arg(machine)
            // Its own default, if apt names none.
            .args(machines_archive(&Cache::of_the_project()).ok()),
    )?;
    for of in ["/etc/apt", "/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"] {
        let to = machine.join(Path::new(of).parent().unwrap_or(Path::new("/")).strip_prefix("/")?);
        check(Command::new("cp").args(["-aL", of]).arg(to))?;
    }
    fs::create_dir_all(machine.join(TOOLCHAIN))?;
    let cargo = machine.join("root/.cargo");
    fs::create_dir_all(&cargo)?;
    if let Some(settings) = cargo_home().map(|home| home.join("config.toml")).filter(|file| file.exists()) {
        fs::copy(settings, cargo.join("config.toml"))?;
    }
    Ok(())
}

fn cargo_home() -> Option<PathBuf> {
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

/// The command, ready to be started in the project on the machine.
fn within(machine: &Path, command: &str) -> anyhow::Result<Command> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().context("rustc")?;
    ensure!(sysroot.status.success(), "rustc does not say where it is");
    let sysroot = String::from_utf8(sysroot.stdout)?;
    let script = format!(
        "mount --bind {sysroot} {TOOLCHAIN} && mount -t proc proc proc && mount --rbind /dev dev && \
         mount -t sysfs sysfs sys && exec chroot . /usr/bin/env -i HOME=/root \
         PATH=/{TOOLCHAIN}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
         sh -c 'cd /{PROJECT} && {command}'",
        sysroot = sysroot.trim()
    );
    let mut start = Command::new("unshare");
    start.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script]).current_dir(machine);
    Ok(start)
}
