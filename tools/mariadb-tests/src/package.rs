//! The Debian package: the engine, its configuration, and a dependency on the exact version of the
//! server. The files for dpkg are in `mariadb/package`, with `$NAME` where a value is filled in.
//!
//! It is tried before it is done: unpacked, and a private server started with what is in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use holdfast_server::Cache;
use holdfast_server::Server;
use holdfast_server::run::{check, root};

const PORT: u16 = 13318;
const PLUGIN_DIR: &str = "usr/lib/mysql/plugin";
const CONFIGURATION: &str = "etc/mysql/mariadb.conf.d/holdfast.cnf";
const DOC_DIR: &str = "usr/share/doc/mariadb-plugin-holdfast";

/// Makes the package of `plugin`, which was built for `server`, and tries it.
pub fn run(cache: &Cache, plugin: &Path, server: &str) -> anyhow::Result<()> {
    let stage = cache.path("package/stage");
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    let library = stage.join(PLUGIN_DIR).join("ha_holdfast.so");
    fs::create_dir_all(stage.join(PLUGIN_DIR))?;
    fs::copy(plugin, &library)?;
    check(Command::new("strip").arg("--strip-unneeded").arg(&library))?;
    fs::set_permissions(&library, fs::Permissions::from_mode(0o644))?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let version = version(server);
    let fill =
        Fill { version: &version, server, architecture: &architecture, kib: fs::metadata(&library)?.len() / 1024 };
    fill.copy("holdfast.cnf", &stage.join(CONFIGURATION), 0o644)?;
    fill.copy("copyright", &stage.join(DOC_DIR).join("copyright"), 0o644)?;
    fill.copy("control", &stage.join("DEBIAN/control"), 0o644)?;
    fill.copy("triggers", &stage.join("DEBIAN/triggers"), 0o644)?;
    fill.copy("postinst", &stage.join("DEBIAN/postinst"), 0o755)?;
    fs::write(stage.join("DEBIAN/conffiles"), format!("/{CONFIGURATION}\n"))?;
    let package = cache.path(format!("package/mariadb-plugin-holdfast_{version}_{architecture}.deb"));
    check(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&stage).arg(&package))?;
    test(cache, &package, server)?;
    println!("{}", package.display());
    Ok(())
}

/// The package's version: the engine's, and the server's without its epoch.
fn version(server: &str) -> String {
    let server = server.split_once(':').map_or(server, |(_, rest)| rest);
    format!("{}+{}", env!("CARGO_PKG_VERSION"), server.replace('-', "+"))
}

/// What is filled in for `$NAME`.
struct Fill<'a> {
    version: &'a str,
    server: &'a str,
    architecture: &'a str,
    kib: u64,
}

impl Fill<'_> {
    fn copy(&self, name: &str, to: &Path, mode: u32) -> anyhow::Result<()> {
        let from = root().join("mariadb/package").join(name);
        let text = fs::read_to_string(&from).with_context(|| format!("{} is missing", from.display()))?;
        let text = text.replace("$VERSION", self.version).replace("$SERVER", self.server);
        let text = text.replace("$ARCHITECTURE", self.architecture).replace("$KIB", &self.kib.to_string());
        fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        fs::write(to, text)?;
        fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(Into::into)
    }
}

/// Unpacks the package and starts a server with its configuration and its engine.
fn test(cache: &Cache, package: &Path, server: &str) -> anyhow::Result<()> {
    let depends = output(Command::new("dpkg-deb").arg("--field").arg(package).arg("Depends"))?;
    if !depends.contains(&format!("mariadb-server (= {server})")) {
        bail!("the package does not depend on the server's exact version: {depends}");
    }
    let unpacked: PathBuf = cache.path("package/unpacked");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    check(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&unpacked))?;
    let server =
        Server::new(cache, "package/server").with_engine(unpacked.join(PLUGIN_DIR), unpacked.join(CONFIGURATION));
    server.up(PORT, true, &[])?;
    let sql =
        "CREATE DATABASE p; CREATE TABLE p.t (a INT PRIMARY KEY) ENGINE=HOLDFAST; INSERT INTO p.t VALUES (1), (2);
        SELECT CONCAT_WS(' ', COUNT(*), SUM(a), (SELECT PLUGIN_STATUS FROM information_schema.PLUGINS
        WHERE PLUGIN_NAME = 'HOLDFAST')) FROM p.t";
    let found = output(server.client_command().args(["--batch", "--skip-column-names", "-e", sql]));
    let stopped = server.down();
    let found = found.with_context(|| server.log_tail())?;
    if found != "2 3 ACTIVE" {
        bail!("the server with the package's engine answers `{found}`");
    }
    stopped
}

/// What a program prints.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?} could not be started"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_names_engine_and_server() {
        let version = super::version("1:10.11.18-0+deb12u1");
        assert_eq!(version, format!("{}+10.11.18+0+deb12u1", env!("CARGO_PKG_VERSION")));
    }
}
