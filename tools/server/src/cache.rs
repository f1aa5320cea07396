//! The cache folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::root;

/// The cache folder and the paths in it.
#[derive(Clone, Debug)]
pub struct Cache {
    top: PathBuf,
    /// True if its servers load the engine that checks its memory accesses.
    pub(crate) sanitizers: bool,
}

impl Cache {
    /// The cache folder of the workspace.
    #[must_use]
    pub fn of_the_project() -> Cache {
        Cache::at(&root().join(".cache/mariadb"))
    }

    /// A cache in another folder, which exists.
    #[must_use]
    pub fn at(top: &Path) -> Cache {
        Cache { top: top.to_owned(), sanitizers: false }
    }

    /// For servers that load the engine of [`Profile::Sanitized`](crate::Profile::Sanitized).
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

    /// The folder of the server's own shared libraries.
    pub(crate) fn library_dir(&self) -> PathBuf {
        self.root("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))
    }

    /// The folders of all shared libraries of the packages: some are where the system's were before
    /// /lib became /usr/lib.
    pub(crate) fn library_dirs(&self) -> [PathBuf; 2] {
        [self.library_dir(), self.root("lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))]
    }

    /// These folders as a value of `LD_LIBRARY_PATH`. Private programs find there what the machine
    /// lacks.
    #[must_use]
    pub fn library_path(&self) -> String {
        library_path(&self.library_dirs())
    }

    /// A program of the unpacked packages.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.root(name));
        command.env("LD_LIBRARY_PATH", self.library_path());
        command
    }

    /// sysbench, which [`fetch_sysbench`](crate::apt::fetch_sysbench) has fetched. Its scripts are
    /// named by their names (`oltp_read_only`).
    #[must_use]
    pub fn sysbench_command(&self) -> Command {
        let mut command = self.program("usr/bin/sysbench");
        // MySQL's users sign in by a plugin of its library.
        command.env("MARIADB_PLUGIN_DIR", self.library_dir().join("libmariadb3/plugin"));
        // sysbench looks for scripts in the current folder first, then where its package would have
        // been installed.
        command.current_dir(self.root("usr/share/sysbench"));
        command
    }

    /// fio: the one that [`fetch_fio`](crate::apt::fetch_fio) has fetched, else the machine's own.
    #[must_use]
    pub fn fio_command(&self) -> Command {
        let fetched = self.root("usr/bin/fio");
        if !fetched.exists() {
            return Command::new("fio");
        }
        let mut command = Command::new(fetched);
        // Some of its libraries are in a folder of their own.
        let [libraries, of_system] = self.library_dirs();
        let ceph = libraries.join("ceph");
        command.env("LD_LIBRARY_PATH", library_path(&[libraries, ceph, of_system]));
        command
    }
}

/// A list of folders in the format of the dynamic linker.
fn library_path(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>().join(":")
}
