//! The server's packages and source, of one version, from the archives that the machine is
//! configured for.
//!
//! The server refuses an engine that was built for another version, and headers of another version
//! load silently and crash later. So exactly the newest version is taken of which *all* packages
//! and the source are available.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::cache::Cache;
use crate::run::{check, works};

/// The packages of the chosen version.
const PACKAGES: [&str; 10] = [
    "mariadb-server",
    "mariadb-server-core",
    "mariadb-client",
    "mariadb-client-core",
    "libmariadb3",
    "libmariadbd-dev",
    "libmariadb-dev",
    "mariadb-test",
    "mariadb-test-data",
    "mariadb-plugin-rocksdb",
];

/// The shared libraries that the server and its programs need, by package. Those that the machine
/// lacks are fetched.
const LIBRARIES: [(&str, &str); 9] = [
    ("liburing.so.2", "liburing2"),
    ("libaio.so.1", "libaio1"),
    ("libnuma.so.1", "libnuma1"),
    ("libpmem.so.1", "libpmem1"),
    ("libsnappy.so.1", "libsnappy1v5"),
    ("liblz4.so.1", "liblz4-1"),
    ("libzstd.so.1", "libzstd1"),
    ("libncurses.so.6", "libncurses6"),
    ("libpcre2-posix.so.3", "libpcre2-posix3"),
];

/// The load generator. It has a version of its own.
const SYSBENCH: &str = "sysbench";

/// The libraries of sysbench that a machine may lack. Its MariaDB library comes with the server.
const SYSBENCH_LIBRARIES: [(&str, &str); 9] = [
    ("libluajit-5.1.so.2", "libluajit-5.1-2"),
    ("libpq.so.5", "libpq5"),
    ("libldap-2.5.so.0", "libldap-2.5-0"),
    ("libsasl2.so.2", "libsasl2-2"),
    ("libgssapi_krb5.so.2", "libgssapi-krb5-2"),
    ("libkrb5.so.3", "libkrb5-3"),
    ("libk5crypto.so.3", "libk5crypto3"),
    ("libkrb5support.so.0", "libkrb5support0"),
    ("libkeyutils.so.1", "libkeyutils1"),
];

/// Downloads and unpacks what is missing. Returns the version of the packages.
pub fn fetch(cache: &Cache) -> anyhow::Result<String> {
    let stamp = cache.path("version");
    if let Ok(version) = fs::read_to_string(&stamp) {
        let version = version.trim().to_string();
        let missing = missing(cache, &LIBRARIES);
        if !missing.is_empty() {
            PrivateApt::new(cache)?.download(&missing)?;
            unpack(cache, |package, _| missing.iter().any(|m| m == package))?;
        }
        return Ok(version);
    }
    let apt = PrivateApt::new(cache)?;
    let candidates = apt.versions()?;
    if candidates.is_empty() {
        bail!("apt knows no version of mariadb-server that has its source in the same archives");
    }
    for version in &candidates {
        match apt.download_server(version) {
            Ok(libraries) => {
                println!("unpacking version {version}");
                unpack(cache, |package, v| v == version || libraries.iter().any(|l| l == package))?;
                fs::write(&stamp, version)?;
                return Ok(version.clone());
            }
            Err(error) => println!("version {version} is not available completely ({error}); trying an older one"),
        }
    }
    bail!(
        "no version of MariaDB is available completely (tried {}): packages {} and the source `mariadb`",
        candidates.join(", "),
        PACKAGES.join(", ")
    )
}

/// Downloads and unpacks sysbench, if that was not done before. The server's packages must be
/// present.
pub fn fetch_sysbench(cache: &Cache) -> anyhow::Result<()> {
    if cache.root("usr/bin/sysbench").exists() {
        return Ok(());
    }
    let mut packages = missing(cache, &SYSBENCH_LIBRARIES);
    packages.push(SYSBENCH.into());
    PrivateApt::new(cache)?.download(&packages).context("sysbench is not available")?;
    unpack(cache, |package, _| packages.iter().any(|p| p == package))
}

/// Downloads and unpacks fio with the libraries that the machine lacks, if it runs from neither the
/// machine nor the cache.
pub fn fetch_fio(cache: &Cache) -> anyhow::Result<()> {
    const PACKAGE: &str = "fio";
    if works(cache.fio_command().arg("--version")) {
        return Ok(());
    }
    let apt = PrivateApt::new(cache)?;
    let packages = apt.lacking(PACKAGE)?;
    apt.download(&packages).context("fio is not available")?;
    unpack(cache, |package, _| packages.iter().any(|p| p == package))?;
    anyhow::ensure!(works(cache.fio_command().arg("--version")), "fio was fetched, but does not run");
    Ok(())
}

/// Downloads and unpacks the Spider engine, of the server's version, if that was not done before.
pub fn fetch_spider(cache: &Cache) -> anyhow::Result<()> {
    const PACKAGE: &str = "mariadb-plugin-spider";
    if cache.root("usr/lib/mysql/plugin/ha_spider.so").exists() {
        return Ok(());
    }
    let version = fetch(cache)?;
    PrivateApt::new(cache)?.download(&[format!("{PACKAGE}={version}")]).context("Spider is not available")?;
    unpack(cache, |package, v| package == PACKAGE && v == version)
}

/// apt with its own lists and archives, over the machine's configured archives with `deb-src`
/// switched on.
struct PrivateApt<'c> {
    cache: &'c Cache,
}

impl<'c> PrivateApt<'c> {
    fn new(cache: &'c Cache) -> anyhow::Result<PrivateApt<'c>> {
        for dir in ["apt/lists/partial", "apt/archives/partial", "apt/sources", "deb"] {
            fs::create_dir_all(cache.path(dir))?;
        }
        let apt = PrivateApt { cache };
        apt.write_sources()?;
        check(apt.command("apt-get").args(["-q", "update"]))
            .context("the lists of the machine's archives could not be fetched")?;
        Ok(apt)
    }

    /// Copies the machine's list of archives, sources included.
    fn write_sources(&self) -> anyhow::Result<()> {
        let mut found = false;
        let mut copy = |from: &Path| -> anyhow::Result<()> {
            let text = fs::read_to_string(from)?;
            let name = from.file_name().context("a file has a name")?;
            let text = match from.extension().and_then(|e| e.to_str()) {
                Some("sources") => with_sources_deb822(&text),
                Some("list") => with_sources_lines(&text),
                _ => return Ok(()),
            };
            found = true;
            fs::write(self.cache.path("apt/sources").join(name), text).map_err(Into::into)
        };
        let main = Path::new("/etc/apt/sources.list");
        if main.exists() {
            copy(main)?;
        }
        for entry in fs::read_dir("/etc/apt/sources.list.d").context("this machine has no apt")? {
            copy(&entry?.path())?;
        }
        if !found {
            bail!("the machine's apt configuration names no archives");
        }
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let option = |name: &str, path: &str| format!("{name}={}", self.cache.path(path).display());
        command.args(["-o", "Dir::Etc::sourcelist=/dev/null"]);
        command.arg("-o").arg(option("Dir::Etc::sourceparts", "apt/sources"));
        command.arg("-o").arg(option("Dir::State::lists", "apt/lists"));
        command.arg("-o").arg(option("Dir::Cache", "apt"));
        // Without it apt warns that its unprivileged user cannot write here.
        command.args(["-o", "APT::Sandbox::User="]).current_dir(self.cache.path("deb"));
        command
    }

    /// The versions of which the archives list both the server and the source, newest first.
    fn versions(&self) -> anyhow::Result<Vec<String>> {
        let listed = |package: &str, what: &str| -> anyhow::Result<BTreeSet<String>> {
            let output = self.command("apt-cache").args(["madison", package]).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let lines = text.lines().filter(|l| l.trim_end().ends_with(what));
            Ok(lines.filter_map(|l| l.split('|').nth(1)).map(|v| v.trim().to_string()).collect())
        };
        let servers = listed("mariadb-server", "Packages")?;
        let sources = listed("mariadb", "Sources")?;
        let mut both: Vec<String> = servers.intersection(&sources).cloned().collect();
        both.sort_by(|a, b| if newer(a, b) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater });
        Ok(both)
    }

    /// Downloads source and packages of one version of the server, and the libraries that the
    /// machine lacks; returns these.
    fn download_server(&self, version: &str) -> anyhow::Result<Vec<String>> {
        // The source first: it is most often the missing part.
        check(self.command("apt-get").args(["-q", "--download-only", "source"]).arg(format!("mariadb={version}")))?;
        self.download(&PACKAGES.map(|p| format!("{p}={version}")))?;
        let libraries = missing(self.cache, &LIBRARIES);
        self.download(&libraries)?;
        Ok(libraries)
    }

    /// `package` and its dependencies, as far as they are not installed.
    fn lacking(&self, package: &str) -> anyhow::Result<Vec<String>> {
        let mut command = self.command("apt-get");
        command.args(["-q", "--simulate", "--no-install-recommends", "install", package]);
        let output = command.output().context("apt-get could not be started")?;
        if !output.status.success() {
            bail!("apt would not install {package}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(to_be_installed(&String::from_utf8_lossy(&output.stdout)))
    }

    fn download(&self, packages: &[String]) -> anyhow::Result<()> {
        if packages.is_empty() {
            Ok(())
        } else {
            check(self.command("apt-get").args(["-q", "download"]).args(packages))
        }
    }
}

/// The packages of `libraries` that neither the machine nor the cache has.
fn missing(cache: &Cache, libraries: &[(&str, &str)]) -> Vec<String> {
    let missing = libraries.iter().filter(|(so, _)| !installed(so) && !cache.library_dir().join(so).exists());
    missing.map(|(_, package)| (*package).to_string()).collect()
}

/// True if the loader finds `library`.
fn installed(library: &str) -> bool {
    let output = Command::new("/sbin/ldconfig").arg("-p").output();
    output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(library))
}

/// True if version `a` is newer than `b`, by Debian's rules.
fn newer(a: &str, b: &str) -> bool {
    Command::new("dpkg").args(["--compare-versions", a, "gt", b]).status().is_ok_and(|s| s.success())
}

/// The packages that a simulated installation names.
fn to_be_installed(simulation: &str) -> Vec<String> {
    let names = simulation.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
    names.map(str::to_owned).collect()
}

/// Unpacks the downloaded packages whose name and version `wanted` accepts.
fn unpack(cache: &Cache, wanted: impl Fn(&str, &str) -> bool) -> anyhow::Result<()> {
    let root = cache.path("root");
    fs::create_dir_all(&root)?;
    let mut debs: Vec<_> = fs::read_dir(cache.path("deb"))?.collect::<Result<Vec<_>, _>>()?;
    debs.sort_by_key(fs::DirEntry::path);
    for deb in debs.iter().map(fs::DirEntry::path).filter(|p| p.extension().is_some_and(|e| e == "deb")) {
        let name = deb.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (package, version) = package_of(&name);
        if wanted(&package, &version) {
            let status = Command::new("dpkg").arg("-x").arg(&deb).arg(&root).status()?;
            if !status.success() {
                bail!("{name} could not be unpacked");
            }
        }
    }
    Ok(())
}

/// Package and version of a downloaded file. apt writes the `:` of the epoch as `%3a` in the name.
fn package_of(file: &str) -> (String, String) {
    let mut parts = file.split('_');
    let mut next = || parts.next().unwrap_or_default();
    (next().to_string(), next().replace("%3a", ":"))
}

/// An archive list in the newer form, with sources.
fn with_sources_deb822(text: &str) -> String {
    let line = |l: &str| if l.starts_with("Types:") { "Types: deb deb-src".to_string() } else { l.to_string() };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// An archive list of one line each, with sources.
fn with_sources_lines(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        out += line;
        out.push('\n');
        if let Some(rest) = line.strip_prefix("deb ") {
            out += &format!("deb-src {rest}\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_switched_on_in_both_forms() {
        assert_eq!(with_sources_deb822("Types: deb\nSuites: a\n"), "Types: deb deb-src\nSuites: a\n");
        assert_eq!(with_sources_lines("# x\ndeb u s m\n"), "# x\ndeb u s m\ndeb-src u s m\n");
    }

    #[test]
    fn a_simulated_installation_names_its_packages() {
        let text =
            "Inst libaio1 (0.3.113-4 Debian:12 [amd64])\nInst fio (3.33-3 Debian:12 [amd64])\nConf fio (3.33-3)\n";
        assert_eq!(to_be_installed(text), ["libaio1", "fio"]);
    }

    #[test]
    fn package_and_version_are_in_the_name_of_the_file() {
        let (package, version) = package_of("mariadb-server_1%3a10.11.18-0+deb12u1_amd64.deb");
        assert_eq!((package.as_str(), version.as_str()), ("mariadb-server", "1:10.11.18-0+deb12u1"));
    }
}
