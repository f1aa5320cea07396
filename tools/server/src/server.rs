//! Private servers, each with its own data, socket and loopback port.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::cache::Cache;
use crate::hold::hold;
use crate::port::{address, is_in_use};
use crate::process::{end_of, ended_within, runs};
use crate::run::{aside, behind, bound_to_us, say};
use crate::{apt, sanitizers};

/// The longest time that a server may take to start (recovery included) and to stop.
const PATIENCE: Duration = Duration::from_secs(120);

/// The port of a server that listens on its socket alone.
pub const SOCKET_ONLY: u16 = 0;

/// A server, which may or may not be running.
#[derive(Clone)]
pub struct Server<'c> {
    cache: &'c Cache,
    dir: PathBuf,
    /// The engine's folder if it is not in the cache, and the configuration that loads it.
    engine: Option<(PathBuf, PathBuf)>,
    /// True if the server is killed when the thread that started it ends.
    bound_to_us: bool,
    /// The process of such a server, once it has answered, until it is known how it has ended.
    child: Arc<Mutex<Option<Child>>>,
    /// The program that starts the server, with its arguments. The server's command is appended.
    starter: Vec<OsString>,
    /// The fault that its engine shows.
    planted: Option<&'static str>,
}

impl<'c> Server<'c> {
    /// The server whose files are in the folder `name` of the cache.
    pub fn new(cache: &'c Cache, name: &str) -> Server<'c> {
        Server {
            cache,
            dir: cache.path(name),
            engine: None,
            bound_to_us: false,
            child: Arc::default(),
            starter: Vec::new(),
            planted: None,
        }
    }

    /// Returns the server with the engine of the folder `plugins`, loaded by the file
    /// `configuration`.
    pub fn with_engine(self, plugins: PathBuf, configuration: PathBuf) -> Server<'c> {
        Server { engine: Some((plugins, configuration)), ..self }
    }

    /// Returns the server so that it is killed when the thread that starts it ends: its data is for
    /// that thread alone.
    #[must_use]
    pub fn bound_to_us(self) -> Server<'c> {
        Server { bound_to_us: true, ..self }
    }

    /// Returns the server so that a program starts it. `starter` is the program with its arguments;
    /// the server's command is appended.
    #[must_use]
    pub fn started_by(self, starter: Vec<OsString>) -> Server<'c> {
        Server { starter, ..self }
    }

    /// Returns the server so that its engine, which is of [`Profile::Planted`](crate::Profile),
    /// has the fault that the engine's code calls `planted`.
    #[must_use]
    pub fn with_planted(self, planted: &'static str) -> Server<'c> {
        Server { planted: Some(planted), ..self }
    }

    /// The folder of the server's data.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Starts the server with the engine loaded. A running server is left unchanged.
    ///
    /// # Errors
    /// If another program has the port, or the server does not start; for a server that ends with
    /// this process, if another process has its folder.
    pub fn up(&self, port: u16, fresh: bool, options: &[String]) -> anyhow::Result<()> {
        self.hold()?;
        if self.answers() {
            if !fresh {
                return Ok(());
            }
            self.down()?;
        }
        if fresh && self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        let address = address(options)?;
        if port != SOCKET_ONLY && is_in_use(address, port) {
            bail!("port {port} of {address} is in use by another program; end that one, or give another port");
        }
        if !self.dir.join("data/mysql").exists() {
            self.install()?;
        }
        fs::create_dir_all(self.temporary_dir())?;
        let log = fs::File::create(self.log())?;
        let mut command = self.cache.program("usr/sbin/mariadbd");
        if self.cache.sanitizers {
            command.envs(sanitizers::environment()?);
        }
        if let Some(planted) = self.planted {
            command.env("HOLDFAST_PLANTED", planted);
        }
        match &self.engine {
            Some((_, configuration)) => command.arg(format!("--defaults-file={}", configuration.display())),
            None => command.arg("--no-defaults"),
        };
        command.args(self.common());
        match port {
            SOCKET_ONLY => command.arg("--skip-networking"),
            port => command.arg(format!("--port={port}")).arg("--bind-address=127.0.0.1"),
        };
        command.arg(format!("--pid-file={}", self.dir.join("pid").display()));
        if self.engine.is_none() {
            command.args(["--plugin-maturity=experimental", "--plugin-load-add=ha_holdfast.so"]);
        }
        command.arg("--loose-holdfast=FORCE");
        if self.cache.sanitizers {
            command.arg(sanitizers::STACK);
        }
        command.args(options);
        if let Some((program, arguments)) = self.starter.split_first() {
            command = behind(&command, program, arguments);
        }
        if self.bound_to_us {
            command = bound_to_us(&command, "KILL");
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A process group of its own, so that Ctrl-C in this terminal does not reach it.
        command.process_group(0);
        let program = command.get_program().to_owned();
        let mut child = command.spawn().with_context(|| format!("{} could not be started", program.display()))?;
        self.wait_for_answer(&mut child, PATIENCE)?;
        if self.bound_to_us {
            *self.child() = Some(child);
        }
        Ok(())
    }

    /// Waits until the server answers that `child` is. One that ends with this process is killed if
    /// it does not: the program that has its folder takes it for one that does not run, and may
    /// remove the data or start it again.
    fn wait_for_answer(&self, child: &mut Child, patience: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        while !self.answers() {
            if let Some(status) = child.try_wait()? {
                bail!("the server ended ({status}):\n{}", self.log_tail());
            }
            if started.elapsed() > patience {
                if self.bound_to_us {
                    child.kill()?;
                    child.wait()?;
                }
                bail!("the server does not answer:\n{}", self.log_tail());
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Takes the folder of a server that ends with this process.
    fn hold(&self) -> anyhow::Result<()> {
        if self.bound_to_us { hold(&self.dir) } else { Ok(()) }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the server, if it runs, and waits for its end.
    ///
    /// # Errors
    /// The errors of [`Server::shut_down`].
    pub fn down(&self) -> anyhow::Result<()> {
        if !self.shut_down()? {
            say("the server is not running");
        }
        Ok(())
    }

    /// Stops the server and waits for its end. False if it does not run.
    ///
    /// # Errors
    /// If it does not answer, or does not end; if it is that of another process. For a server that
    /// ends with this process, if it ended otherwise than by a shutdown without an error.
    pub fn shut_down(&self) -> anyhow::Result<bool> {
        self.hold()?;
        let pid = self.process().unwrap_or_default();
        if !self.answers() {
            if !pid.is_empty() {
                bail!("the server (process {pid}) runs, but does not answer:\n{}", self.log_tail());
            }
            self.ended_well()?;
            return Ok(false);
        }
        let mut command = self.cache.program("usr/bin/mariadb-admin");
        command.arg("--no-defaults").arg(self.socket()).args(["-uroot", "shutdown"]);
        if !aside(&mut command).status()?.success() {
            bail!("the server did not accept the command to shut down");
        }
        let started = Instant::now();
        while !pid.is_empty() && runs(&pid) {
            if started.elapsed() > PATIENCE {
                bail!("the server (process {pid}) does not end:\n{}", self.log_tail());
            }
            sleep(Duration::from_millis(100));
        }
        self.ended_well()?;
        Ok(true)
    }

    /// Waits for the end of a server that ends with this process, and fails if it was killed or
    /// ended with an error. What started the server ends as it does, a moment later.
    fn ended_well(&self) -> anyhow::Result<()> {
        let mut slot = self.child();
        let Some(child) = slot.as_mut() else { return Ok(()) };
        let status = ended_within(child, PATIENCE)?;
        let status = status.with_context(|| format!("the server does not end:\n{}", self.log_tail()))?;
        *slot = None;
        if status.success() { Ok(()) } else { bail!("the server ended ({status}):\n{}", self.log_tail()) }
    }

    /// Kills the server, as a crash does, and waits until the process is gone.
    ///
    /// # Errors
    /// If it does not run; if it is that of another process.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.hold()?;
        let pid = self.process().context("the server is not running")?;
        let process = pid.parse().ok().and_then(Pid::from_raw).context("the number of a process")?;
        kill_process(process, Signal::KILL).with_context(|| format!("process {pid} could not be killed"))?;
        let begun = Instant::now();
        while runs(&pid) && begun.elapsed() < PATIENCE {
            sleep(Duration::from_millis(10));
        }
        // How it ended is known.
        *self.child() = None;
        Ok(())
    }

    /// Copies all data to `other`; neither server is running.
    pub fn copy_data_to(&self, other: &Server<'_>) -> anyhow::Result<()> {
        other.hold()?;
        let to = other.dir.join("data");
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        fs::create_dir_all(&other.dir)?;
        copy_folder(&self.dir.join("data"), &to)
    }

    /// Removes everything of the server, which is not running.
    pub fn remove(&self) -> anyhow::Result<()> {
        self.hold()?;
        if self.dir.exists() { fs::remove_dir_all(&self.dir).map_err(Into::into) } else { Ok(()) }
    }

    /// The files of the server's data folder whose names begin with `prefix`.
    pub fn data_files(&self, prefix: &str) -> anyhow::Result<Vec<PathBuf>> {
        let files = fs::read_dir(self.dir.join("data"))?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
        let begins = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix));
        Ok(files.into_iter().filter(begins).collect())
    }

    /// The program that shows binary logs.
    pub fn binlog_command(&self) -> Command {
        let mut command = self.cache.program("usr/bin/mariadb-binlog");
        command.arg("--no-defaults");
        command
    }

    /// Replaces this process by the client.
    pub fn client(&self, args: &[String]) -> anyhow::Result<()> {
        if !self.answers() {
            bail!("the server is not running; `cargo xtask mariadb up` starts it");
        }
        Err(self.client_command().args(args).exec().into())
    }

    /// Replaces this process by sysbench, which is fetched if need be.
    pub fn sysbench(&self, args: &[String]) -> anyhow::Result<()> {
        apt::fetch_sysbench(self.cache)?;
        Err(self.sysbench_command().args(args).exec().into())
    }

    /// sysbench with the options to connect.
    #[must_use]
    pub fn sysbench_command(&self) -> Command {
        let mut command = self.cache.sysbench_command();
        command.arg(format!("--mysql-socket={}", self.socket_path().display())).arg("--mysql-user=root");
        command
    }

    /// The client with the options to connect.
    pub fn client_command(&self) -> Command {
        let mut command = self.cache.program("usr/bin/mariadb");
        // Without it the locale would decide, and it may be missing.
        command.args(["--no-defaults", "--default-character-set=utf8mb4"]).arg(self.socket()).arg("-uroot");
        command
    }

    /// The program that dumps schemas, with the options to connect.
    #[must_use]
    pub fn dump_command(&self) -> Command {
        let mut command = self.cache.program("usr/bin/mariadb-dump");
        command.arg("--no-defaults").arg(self.socket()).arg("-uroot");
        command
    }

    /// The server's own test client, which reads a script with several connections.
    pub fn test_command(&self) -> Command {
        let mut command = self.cache.program("usr/bin/mariadb-test");
        command.arg("--no-defaults").arg(self.socket()).arg("--user=root");
        // A script may change files below it only.
        command.env("MYSQLTEST_VARDIR", self.data_dir());
        command.arg(format!("--basedir={}", self.cache.root("usr/share/mysql/mysql-test/").display()));
        command
    }

    /// Runs statements and returns their results without column names. Fails with the error of the
    /// first one that fails.
    pub fn query(&self, sql: &str) -> anyhow::Result<String> {
        let output = self
            .client_command()
            .args(["--batch", "--skip-column-names", "-e", sql])
            .output()
            .context("the client could not be started")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    }

    /// Copies the content of the folder `from` into the data of the server, which is not running.
    /// Existing files of the same names are replaced.
    pub fn put_into_data(&self, from: &Path) -> anyhow::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let to = self.dir.join("data").join(entry.file_name());
            if to.exists() {
                fs::remove_dir_all(&to)?;
            }
            let status = Command::new("cp").arg("-a").arg(entry.path()).arg(&to).status()?;
            if !status.success() {
                bail!("{} could not be copied", entry.path().display());
            }
        }
        Ok(())
    }

    /// How to connect, in lines.
    ///
    /// # Errors
    /// If the server does not run.
    pub fn how_to_connect(&self) -> anyhow::Result<String> {
        let (socket, port, log) = (self.socket(), self.query("SELECT @@port")?, self.log());
        Ok(format!(
            "server is up; connect by `cargo xtask mariadb client`, or\n  {socket} -uroot\n  \
             --host=127.0.0.1 --port={port} -uroot\nits log is {}",
            log.display()
        ))
    }

    /// The process of the server, if it runs. A server that was killed leaves the file with its
    /// number, and the system may give the number to another process.
    fn process(&self) -> Option<String> {
        let pid = fs::read_to_string(self.dir.join("pid")).ok()?.trim().to_owned();
        let command = fs::read(Path::new("/proc").join(&pid).join("cmdline")).ok()?;
        String::from_utf8_lossy(&command).contains(&self.data_option()).then_some(pid)
    }

    fn data_option(&self) -> String {
        format!("--datadir={}", self.data_dir().display())
    }

    /// How the process of a server has ended that this process has started.
    #[must_use]
    pub fn end(&self) -> String {
        let pid = fs::read_to_string(self.dir.join("pid")).unwrap_or_default();
        match pid.trim() {
            // A server that stops removes the file.
            "" => "it was stopped".to_owned(),
            pid => end_of(pid),
        }
    }

    /// The error log, which a start begins anew.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.dir.join("error.log")
    }

    /// The last lines of the error log; all from a sanitizer's finding on if there is one.
    pub fn log_tail(&self) -> String {
        let text = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Some(finding) = sanitizers::finding(&text) {
            return finding.to_string();
        }
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// The server's socket.
    #[must_use]
    pub fn socket_path(&self) -> PathBuf {
        self.dir.join("socket")
    }

    /// The id of the server's process.
    pub fn pid(&self) -> anyhow::Result<u32> {
        let text = fs::read_to_string(self.dir.join("pid")).context("the server is not running")?;
        text.trim().parse().context("the file with the server's process id has something else in it")
    }

    fn socket(&self) -> String {
        format!("--socket={}", self.socket_path().display())
    }

    /// For its temporary tables: a server that starts removes those that it finds, whatever server
    /// made them.
    fn temporary_dir(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    fn common(&self) -> Vec<String> {
        let usr = self.cache.root("usr");
        let plugins = self.engine.as_ref().map_or_else(|| usr.join("lib/mysql/plugin"), |(plugins, _)| plugins.clone());
        vec![
            format!("--basedir={}", usr.display()),
            self.data_option(),
            format!("--tmpdir={}", self.temporary_dir().display()),
            format!("--plugin-dir={}", plugins.display()),
            format!("--lc-messages-dir={}", usr.join("share/mysql").display()),
            self.socket(),
            // The server refuses to run for root without it; for other users it has no effect.
            "--user=root".into(),
        ]
    }

    /// Puts the server's own tables into the empty data folder: copies of those that were made
    /// first.
    fn install(&self) -> anyhow::Result<()> {
        static MAKING: Mutex<()> = Mutex::new(());
        fs::create_dir_all(&self.dir)?;
        let made = self.cache.root("own-tables");
        {
            let _guard = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
            if !made.exists() {
                let making = self.dir.join("own-tables");
                self.make_own_tables(&making)?;
                // Another process may have come first.
                if fs::rename(&making, &made).is_err() && !made.exists() {
                    bail!("{} could not be moved to {}", making.display(), made.display());
                }
            }
        }
        copy_folder(&made, &self.data_dir())
    }

    fn make_own_tables(&self, data: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(self.temporary_dir())?;
        let output = self
            .cache
            .program("usr/bin/mariadb-install-db")
            .env("TMPDIR", self.temporary_dir())
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root"])
            .arg(format!("--basedir={}", self.cache.root("usr").display()))
            .arg(format!("--datadir={}", data.display()))
            .output()
            .context("mariadb-install-db could not be started")?;
        if !output.status.success() {
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            bail!("mariadb-install-db failed:\n{out}{err}");
        }
        Ok(())
    }

    /// True if the server runs and lets the user root in.
    #[must_use]
    pub fn answers(&self) -> bool {
        let mut command = self.cache.program("usr/bin/mariadb-admin");
        command.arg("--no-defaults").arg(self.socket()).args(["-uroot", "ping"]);
        command.output().is_ok_and(|o| o.status.success())
    }
}

pub(crate) fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !Command::new("cp").arg("-a").arg("--reflink=auto").arg(from).arg(to).status()?.success() {
        bail!("{} could not be copied", from.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::port::free_port;
    use crate::run::tests::write_program;

    #[test]
    fn a_port_that_another_program_has_is_not_taken() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        assert_ne!(free_port(port).unwrap(), port);
        let cache = Cache::of_the_project();
        let error = Server::new(&cache, "no-such-server").up(port, false, &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("port {port} of 127.0.0.1 is in use")), "{error}");
    }

    #[test]
    fn a_number_that_another_process_has_by_now_is_not_the_servers() {
        let dir = std::env::temp_dir().join(format!("holdfast-server-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        // That of the test itself.
        fs::write(dir.join("pid"), format!("{}\n", std::process::id())).unwrap();
        let cache = Cache::of_the_project();
        let server = Server { dir: dir.clone(), ..Server::new(&cache, "no-such-server") };
        assert_eq!(server.kill().unwrap_err().to_string(), "the server is not running");
        fs::remove_dir_all(dir).unwrap();
    }

    /// It went on with its data, which was removed under it.
    #[test]
    fn a_server_that_does_not_answer_in_time_is_killed_if_it_ends_with_us() {
        let cache = Cache::of_the_project();
        let server = Server::new(&cache, "no-such-server").bound_to_us();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let error = server.wait_for_answer(&mut child, Duration::ZERO).unwrap_err().to_string();
        assert!(error.starts_with("the server does not answer"), "{error}");
        assert!(!runs(&child.id().to_string()));
    }

    /// Shuts a server down, with the folder `dir`, whose process runs `script`. The clients'
    /// program runs `shutdown` for that; without it there is none, and the process has ended.
    fn shut_down(dir: &Path, script: &str, shutdown: Option<&str>) -> anyhow::Result<bool> {
        let cache = Cache::at(dir);
        let server = Server::new(&cache, "server").bound_to_us();
        fs::create_dir_all(&server.dir).unwrap();
        fs::write(server.log(), "the last line of its log\n").unwrap();
        let mut child = Command::new("sh").args(["-c", script]).current_dir(dir).spawn().unwrap();
        if let Some(shutdown) = shutdown {
            let program = cache.root("usr/bin/mariadb-admin");
            let (dir, pid) = (dir.display(), child.id());
            let text = format!("#!/bin/sh\nfor what; do :; done\ncd {dir}; pid={pid}; [ $what = ping ] || {shutdown}");
            write_program(&program, &text);
        } else {
            child.wait().unwrap();
        }
        *server.child() = Some(child);
        server.shut_down()
    }

    /// It was taken for one that was shut down, and what it had left was measured.
    #[test]
    fn a_server_that_crashed_was_not_shut_down() {
        let top = std::env::temp_dir().join(format!("holdfast-crashed-{}", std::process::id()));
        let dir = |name: &str| top.join(name);
        assert!(!shut_down(&dir("ended"), "exit 0", None).unwrap(), "it does not run");
        assert!(shut_down(&dir("runs"), "until [ -e stop ]; do sleep 0.01; done", Some("touch stop")).unwrap());
        for crashed in [
            shut_down(&dir("crashed"), "kill -KILL $$", None),
            shut_down(&dir("crashes"), "exec sleep 1000", Some("kill -KILL $pid")),
        ] {
            let error = crashed.unwrap_err().to_string();
            assert!(error.contains("signal: 9") && error.contains("the last line of its log"), "{error}");
        }
        fs::remove_dir_all(top).unwrap();
    }
}
