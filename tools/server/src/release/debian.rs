//! Releases in a suite of Debian that is newer than the machine's: server, client and all their
//! libraries, the C library and the dynamic linker included. Nothing of the machine's own packages
//! is used.
//!
//! The archive is the one from which the machine has its own Debian packages; only the suite
//! differs. apt verifies the suite's signature against Debian's keys, and the checksum of each
//! package.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::apt::{PrivateApt, unpack};
use crate::cache::Cache;
use crate::run::say;

/// Packages of a suite.
pub struct Packages {
    /// The suite.
    suite: &'static str,
    /// The packages that are wanted, the server first. Their dependencies are fetched too.
    names: &'static [&'static str],
    /// How the server's version begins.
    version: &'static str,
}

pub const MARIADB_11_8: Packages = Packages { suite: "trixie", names: &["mariadb-server-core"], version: "11.8." };

pub const MYSQL_9_7: Packages =
    Packages { suite: "sid", names: &["mysql-server-core", "mysql-client-core"], version: "9.7." };

/// Debian's keys, for machines whose apt does not trust all of them.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

impl Packages {
    /// Downloads and unpacks the packages and their dependencies into `folder/root`.
    pub fn fetch(&self, cache: &Cache, folder: &Path) -> anyhow::Result<()> {
        let archive = machines_archive(cache)?;
        let apt = PrivateApt::of_new_system(&folder.join("download"))?;
        fs::write(apt.path("apt/sources/suite.sources"), sources(&archive, self.suite, Path::new(KEYS).exists()))?;
        let what = || format!("{} of Debian's suite {} at {archive}", self.names.join(", "), self.suite);
        apt.update().with_context(what)?;
        let packages = apt.lacking(self.names).with_context(what)?;
        let (name, version) = packages.iter().find(|(name, _)| name == self.names[0]).with_context(what)?;
        ensure!(
            is_of(version, self.version),
            "Debian's suite {} has {name} {version} now, not {}x",
            self.suite,
            self.version
        );
        // Perl is for programs that are not used here.
        let names: Vec<String> = packages.into_iter().map(|(name, _)| name).filter(|n| !n.contains("perl")).collect();
        say(&format!("downloading {} packages of Debian's suite {}", names.len(), self.suite));
        apt.download(&names).with_context(what)?;
        unpack(&apt.path("deb"), &folder.join("root"), |_, _| true)?;
        fs::remove_dir_all(folder.join("download")).map_err(Into::into)
    }
}

/// A list of archives with one suite.
fn sources(archive: &str, suite: &str, with_keys: bool) -> String {
    let mut text = format!("Types: deb\nURIs: {archive}\nSuites: {suite}\nComponents: main\n");
    if with_keys {
        text += &format!("Signed-By: {KEYS}\n");
    }
    text
}

/// True if a package's version, without its epoch, begins with `wanted`.
fn is_of(version: &str, wanted: &str) -> bool {
    version.split_once(':').map_or(version, |(_, rest)| rest).starts_with(wanted)
}

/// A program of the packages that are unpacked in `folder`, run by their own dynamic linker with
/// their own libraries.
pub fn program(folder: &Path, name: &str) -> Command {
    let usr = folder.join("root/usr");
    let mut command = Command::new(usr.join("lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(usr.join("lib/x86_64-linux-gnu"));
    let sbin = usr.join("sbin").join(name);
    command.arg(if sbin.exists() { sbin } else { usr.join("bin").join(name) });
    command
}

/// The address of the archive that the machine's own Debian packages come from.
///
/// # Errors
/// If apt cannot be started, or names no such archive.
pub fn machines_archive(cache: &Cache) -> anyhow::Result<String> {
    let mut command = PrivateApt::new(cache)?.command("apt-get");
    command.args(["indextargets", "--format", "$(LABEL) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]);
    let output = command.output().context("apt-get could not be started")?;
    match archive_of_debian(&String::from_utf8_lossy(&output.stdout)) {
        Some(archive) => Ok(archive.to_owned()),
        None => bail!("the machine's apt names no archive of Debian, from which packages would be fetched"),
    }
}

/// The first archive that calls itself Debian in lines of label, component and address.
fn archive_of_debian(targets: &str) -> Option<&str> {
    targets.lines().find_map(|line| line.strip_prefix("Debian main ")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_the_machines_own() {
        let targets = "nodejs main http://n.example/\nDebian-Security main http://s.example/\nDebian main http://d.example/debian/\n";
        assert_eq!(archive_of_debian(targets), Some("http://d.example/debian/"));
        assert_eq!(archive_of_debian("Ubuntu main http://u.example/\n"), None);
    }

    #[test]
    fn the_suite_is_signed_by_debians_keys() {
        let text = sources("http://d.example/debian/", "trixie", true);
        assert!(text.contains("Suites: trixie\n") && text.contains("Signed-By: /usr/share/keyrings/"), "{text}");
        assert!(!sources("http://d.example/", "sid", false).contains("Signed-By"));
    }

    #[test]
    fn another_version_is_recognised() {
        assert!(is_of("1:11.8.9+ds-0+deb13u1", "11.8."));
        assert!(is_of("9.7.4-2", "9.7."));
        assert!(!is_of("9.70.1-1", "9.7."));
        assert!(!is_of("1:12.3.1-1", "11.8."));
    }
}
