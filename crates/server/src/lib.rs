//! Private MariaDB servers with the engine in them, for the chores and for the lab: the server's
//! packages by apt, the plugin compiled against them, servers started and stopped, sysbench and
//! fio.
//!
//! Everything lies under the ignored folder `.cache/mariadb`; nothing of the system is changed and
//! no root is needed:
//!
//! ```text
//! apt/    a private apt directory: the machine's own archives, with their sources switched on
//! deb/    packages and source as downloaded
//! root/   the unpacked packages: server, client, test suites, headers, sysbench, perhaps fio
//! src/    headers of the server's source
//! build/  objects, precompiled headers, and ha_holdfast.so of the profiles release and debug
//!         in sanitized/ the same with checks of every memory access
//! historic/  historic servers, which Maven downloads
//! run/    the private server of `cargo xtask mariadb up`: data, socket, log
//! ...     those of the tests and of the lab, and the Debian package
//! ```

#![forbid(unsafe_code)]

pub mod apt;
mod compile;
mod headers;
pub mod historic;
pub mod run;
mod sanitizers;
pub mod server;
pub mod statistics;

use std::path::{Path, PathBuf};
use std::process::Command;

pub use compile::{Plant, Profile};
pub use historic::{Historic, HistoricServer};
pub use server::Server;

/// Builds the plugin, and fetches what that needs. Returns its path.
///
/// # Errors
/// If packages are not available, or something does not compile.
pub fn build(cache: &Cache) -> anyhow::Result<PathBuf> {
    build_as(cache, Profile::Release)
}

/// As [`build`], with the engine built by `profile`.
///
/// # Errors
/// As [`build`].
pub fn build_as(cache: &Cache, profile: Profile) -> anyhow::Result<PathBuf> {
    let version = apt::fetch(cache)?;
    headers::extract(cache, &version)?;
    compile::plugin(cache, &version, profile)
}

/// As [`build_as`], with a fault planted in the shim. The next build is without it.
///
/// # Errors
/// As [`build_as`], and if the shim does not have what the fault replaces.
pub fn build_planted(cache: &Cache, profile: Profile, plant: Plant) -> anyhow::Result<()> {
    let version = apt::fetch(cache)?;
    headers::extract(cache, &version)?;
    compile::planted_plugin(cache, &version, profile, plant)
}

/// The cache folder and the paths in it.
#[derive(Clone, Debug)]
pub struct Cache {
    top: PathBuf,
    /// Whether its servers load the engine that checks its memory accesses.
    sanitizers: bool,
}

impl Cache {
    /// The cache folder of the workspace.
    #[must_use]
    pub fn of_the_project() -> Cache {
        Cache { top: run::root().join(".cache/mariadb"), sanitizers: false }
    }

    /// For servers that load the engine of [`Profile::Sanitized`].
    #[must_use]
    pub fn with_sanitizers(self) -> Cache {
        Cache { sanitizers: true, ..self }
    }

    /// A path in the cache folder.
    #[must_use]
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.top.join(name)
    }

    /// A file of the unpacked packages.
    #[must_use]
    pub fn root(&self, name: &str) -> PathBuf {
        self.top.join("root").join(name)
    }

    /// The folder of the packages' shared libraries. Private programs find there what the machine
    /// lacks.
    #[must_use]
    pub fn library_dir(&self) -> PathBuf {
        self.root("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))
    }

    /// The same for libraries of the system, from before /lib became /usr/lib.
    fn system_library_dir(&self) -> PathBuf {
        self.root("lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))
    }

    /// A program of the unpacked packages.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.root(name));
        command.env("LD_LIBRARY_PATH", library_path(&[&self.library_dir(), &self.system_library_dir()]));
        command
    }

    /// sysbench, which [`apt::fetch_sysbench`] has fetched. Its scripts are named by their names
    /// (`oltp_read_only`).
    #[must_use]
    pub fn sysbench_command(&self) -> Command {
        let mut command = self.program("usr/bin/sysbench");
        // sysbench looks for scripts in the current folder first, then where its package would have
        // been installed.
        command.current_dir(self.root("usr/share/sysbench"));
        command
    }

    /// fio: the one that [`apt::fetch_fio`] has fetched, else the machine's own.
    #[must_use]
    pub fn fio_command(&self) -> Command {
        let fetched = self.root("usr/bin/fio");
        if !fetched.exists() {
            return Command::new("fio");
        }
        let mut command = Command::new(fetched);
        // Some of its libraries are in a folder of their own.
        let libraries = self.library_dir();
        let path = library_path(&[&libraries, &libraries.join("ceph"), &self.system_library_dir()]);
        command.env("LD_LIBRARY_PATH", path);
        command
    }
}

/// A list of folders in the format of the dynamic linker.
fn library_path(folders: &[&Path]) -> String {
    folders.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>().join(":")
}
