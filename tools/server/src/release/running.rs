//! A running release: its own tables are made first, then it is started, started again, ended. It
//! listens on its socket only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::{Origin, Release};
use crate::cache::Cache;
use crate::hold::hold;
use crate::process::ended_within;
use crate::run::{bound_to_us, check};
use crate::server::copy_folder;

/// The socket of a server, beside its data.
const SOCKET: &str = "socket";
/// The folder of its temporary tables, beside its data: a server that starts removes the temporary
/// tables that it finds, also those of another running server.
const TEMPORARY: &str = "tmp";
/// The longest time that a server may take to start.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest time that it may take to shut down: it writes all changed pages, to a slow disk,
/// too.
const SHUTDOWN: Duration = Duration::from_secs(600);

impl Release {
    /// The server whose data is in the folder `name` of the release. It does not run.
    #[must_use]
    pub fn server(self, cache: &Cache, name: &str) -> ReleasedServer {
        let run = self.folder(cache).join(name);
        ReleasedServer { release: self, cache: cache.clone(), run, child: None }
    }

    fn command(self, cache: &Cache, folder: &Path, run: &Path) -> Command {
        let mut command = self.program(folder, self.daemon());
        let base = match self.origin() {
            Origin::Maven(_) => {
                command.env("LD_LIBRARY_PATH", cache.library_path());
                folder.to_owned()
            }
            Origin::Debian(_) => folder.join("root/usr"),
        };
        command.env("TMPDIR", run.join(TEMPORARY));
        command.args(["--no-defaults", "--user=root"]);
        command.arg(format!("--basedir={}", base.display()));
        command.arg(format!("--datadir={}", run.join("data").display()));
        command.arg(format!("--lc-messages-dir={}", self.share(folder).display()));
        match self {
            Release::Mysql80 | Release::Mysql97 => {
                // Without X Protocol there is one socket only.
                command.args(["--mysqlx=OFF", "--secure-file-priv=NULL"]);
                command.arg(format!("--pid-file={}", run.join("pid").display()));
            }
            Release::MariaDb114 | Release::MariaDb118 => {
                command.arg(format!("--pid-file={}", run.join("pid").display()));
            }
            Release::Mysql55 | Release::Mysql56 => {}
        }
        command
    }

    /// Creates the tables of the schema `mysql`.
    fn install(self, cache: &Cache, folder: &Path, run: &Path) -> anyhow::Result<()> {
        match self {
            Release::Mysql55 => check(Command::new("cp").arg("-a").arg(folder.join("system/.")).arg(run.join("data"))),
            Release::Mysql56 => {
                let scripts = ["mysql_system_tables.sql", "mysql_system_tables_data.sql"];
                fs::create_dir_all(run.join("data/mysql"))?;
                self.bootstrap(cache, folder, run, "USE mysql;\n", &scripts)
            }
            Release::MariaDb114 | Release::MariaDb118 => {
                let scripts =
                    ["mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql"];
                // The user root has no password.
                let before = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n";
                self.bootstrap(cache, folder, run, before, &scripts)
            }
            Release::Mysql80 | Release::Mysql97 => {
                let log = fs::File::create(run.join(ERROR_LOG))?;
                let mut command = self.command(cache, folder, run);
                command.arg("--initialize-insecure").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
                check(&mut command).with_context(|| log_in(run))
            }
        }
    }

    /// Runs the text `before`, then the scripts of the server, without clients.
    fn bootstrap(self, cache: &Cache, folder: &Path, run: &Path, before: &str, scripts: &[&str]) -> anyhow::Result<()> {
        let mut sql = before.to_owned();
        for part in scripts {
            sql.push_str(&fs::read_to_string(self.share(folder).join(part))?);
        }
        let script = run.join("system.sql");
        fs::write(&script, sql)?;
        let log = fs::File::create(run.join(ERROR_LOG))?;
        let mut command = self.command(cache, folder, run);
        command.arg("--bootstrap").stdin(fs::File::open(&script)?).stdout(Stdio::null()).stderr(log);
        check(&mut command).with_context(|| log_in(run))
    }
}

/// A release with data of its own, which stays until [`ReleasedServer::remove`].
#[derive(Debug)]
pub struct ReleasedServer {
    release: Release,
    cache: Cache,
    run: PathBuf,
    /// The process, while it runs.
    child: Option<Child>,
}

impl ReleasedServer {
    /// Makes new data, in place of what there may be. The server does not run.
    ///
    /// # Errors
    /// If it was not fetched, or cannot make its own tables; if another process has its data.
    pub fn make_data(&self) -> anyhow::Result<()> {
        self.remove()?;
        fs::create_dir_all(self.run.join("data"))?;
        fs::create_dir_all(self.run.join(TEMPORARY))?;
        self.release.install(&self.cache, &self.release.folder(&self.cache), &self.run)
    }

    /// Copies all data to `other`, of the same release; neither runs.
    ///
    /// # Errors
    /// If another process has the data of `other`, or it cannot be written.
    pub fn copy_data_to(&self, other: &ReleasedServer) -> anyhow::Result<()> {
        other.remove()?;
        fs::create_dir_all(other.run.join(TEMPORARY))?;
        copy_folder(&self.run.join("data"), &other.run.join("data"))
    }

    /// Removes the data of the server, which does not run.
    ///
    /// # Errors
    /// If another process has it, or it cannot be removed.
    pub fn remove(&self) -> anyhow::Result<()> {
        hold(&self.run)?;
        if self.run.exists() { fs::remove_dir_all(&self.run).map_err(Into::into) } else { Ok(()) }
    }

    /// Starts the server on its data, with its own defaults and `options`. A running one is shut
    /// down before. It ends when this is dropped.
    ///
    /// # Errors
    /// If it does not end, or does not start; if another process has its data.
    pub fn restart(&mut self, options: &[String]) -> anyhow::Result<()> {
        hold(&self.run)?;
        self.shut_down()?;
        self.launch(options, PATIENCE)
    }

    /// Shuts the server down, if it runs.
    ///
    /// # Errors
    /// If it does not end without an error, or not in time: then it is killed.
    pub fn shut_down(&mut self) -> anyhow::Result<()> {
        self.shut_down_within(SHUTDOWN)
    }

    fn shut_down_within(&mut self, limit: Duration) -> anyhow::Result<()> {
        let name = self.release.name();
        let Some(child) = &mut self.child else { return Ok(()) };
        let told = kill_process(Pid::from_child(child), Signal::TERM).is_ok();
        let Some(status) = ended_within(child, limit)? else {
            self.kill();
            bail!("{name} did not shut down in {} s and was killed:\n{}", limit.as_secs(), log_in(&self.run));
        };
        self.child = None;
        if !told || !status.success() {
            bail!("{name} did not shut down ({status}):\n{}", log_in(&self.run));
        }
        Ok(())
    }

    /// Kills the server, if it runs.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts the server on its present data. One that does not answer in time is killed: its data
    /// may be removed, or it may be started again.
    fn launch(&mut self, options: &[String], patience: Duration) -> anyhow::Result<()> {
        let name = self.release.name();
        let log = fs::File::create(self.run.join(ERROR_LOG))?;
        let folder = self.release.folder(&self.cache);
        let mut command = self.release.command(&self.cache, &folder, &self.run);
        command.arg("--skip-networking").arg(format!("--socket={}", self.socket_path().display())).args(options);
        let mut command = bound_to_us(&command, "KILL");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = self.child.insert(command.spawn().with_context(|| format!("{name} could not be started"))?);
        let started = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.run.join(SOCKET)).is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("{name} ended ({status}):\n{}", log_in(&self.run));
            }
            if started.elapsed() > patience {
                self.kill();
                bail!("{name} does not answer:\n{}", log_in(&self.run));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The server's socket; the user is root without a password.
    #[must_use]
    pub fn socket_path(&self) -> PathBuf {
        self.run.join(SOCKET)
    }

    /// The server's process; `None` if it does not run.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

/// The log of errors, beside the data.
const ERROR_LOG: &str = "error.log";

fn log_in(run: &Path) -> String {
    let text = fs::read(run.join(ERROR_LOG)).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

impl Drop for ReleasedServer {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::write_program;

    /// The lab waited for its end for good, and its progress stood still.
    #[test]
    fn a_server_that_does_not_shut_down_in_time_is_killed() {
        let run = std::env::temp_dir().join(format!("holdfast-release-{}", std::process::id()));
        fs::create_dir_all(&run).unwrap();
        let deaf = "trap '' TERM; echo; while :; do sleep 1; done";
        let mut child = Command::new("sh").args(["-c", deaf]).stdout(Stdio::piped()).spawn().unwrap();
        // It hears nothing from here on.
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let cache = Cache::of_the_project();
        let mut server = ReleasedServer { release: Release::Mysql80, cache, run, child: Some(child) };
        let error = server.shut_down_within(Duration::from_millis(100)).unwrap_err().to_string();
        assert!(error.contains("and was killed"), "{error}");
        assert_eq!(server.pid(), None);
        server.shut_down().unwrap();
        fs::remove_dir_all(&server.run).unwrap();
    }

    /// It went on with its data, which was removed under it.
    #[test]
    fn a_server_that_does_not_answer_in_time_is_killed() {
        let dir = std::env::temp_dir().join(format!("holdfast-silent-{}", std::process::id()));
        let cache = Cache::at(&dir);
        let release = Release::Mysql80;
        let mut server = release.server(&cache, "run");
        fs::create_dir_all(&server.run).unwrap();
        let folder = release.folder(&cache);
        let program = PathBuf::from(release.program(&folder, release.daemon()).get_program());
        write_program(&program, "#!/bin/sh\nexec sleep 1000");
        let error = server.launch(&[], Duration::ZERO).unwrap_err().to_string();
        assert!(error.starts_with("MySQL 8.0.33 does not answer"), "{error}");
        assert_eq!(server.pid(), None);
        fs::remove_dir_all(dir).unwrap();
    }
}
