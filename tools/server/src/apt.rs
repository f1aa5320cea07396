//! The server's packages and source, of one version, from the archives that the machine is
//! configured for.
//!
//! The server refuses an engine that was built for another version, and headers of another version
//! load silently and crash later. So exactly the newest version is taken of which *all* packages
//! and the source are available.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::cache::Cache;
use crate::run::{check_aside, say, works};

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
            unpack_into(cache, |package, _| missing.iter().any(|m| m == package))?;
        }
        return Ok(version);
    }
    let apt = PrivateApt::new(cache)?;
    let candidates = apt.versions()?;
    if candidates.is_empty() {
        bail!("apt knows no version of mariadb-server that has its source in the same archives");
    }
    for version in &candidates {
        match apt.download_server(cache, version) {
            Ok(libraries) => {
                say(&format!("unpacking version {version}"));
                unpack_into(cache, |package, v| v == version || libraries.iter().any(|l| l == package))?;
                fs::write(&stamp, version)?;
                return Ok(version.clone());
            }
            Err(error) => {
                say(&format!("version {version} is not available completely ({error}); trying an older one"));
            }
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
    unpack_into(cache, |package, _| packages.iter().any(|p| p == package))
}

/// Downloads and unpacks fio with the libraries that the machine lacks, if it runs from neither the
/// machine nor the cache.
pub fn fetch_fio(cache: &Cache) -> anyhow::Result<()> {
    const PACKAGE: &str = "fio";
    if works(cache.fio_command().arg("--version")) {
        return Ok(());
    }
    let apt = PrivateApt::new(cache)?;
    let packages: Vec<String> = apt.lacking(&[PACKAGE])?.into_iter().map(|(name, _)| name).collect();
    apt.download(&packages).context("fio is not available")?;
    unpack_into(cache, |package, _| packages.iter().any(|p| p == package))?;
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
    unpack_into(cache, |package, v| package == PACKAGE && v == version)
}

/// Downloads and unpacks Galera, by which servers form a cluster, if that was not done before. It
/// has a version of its own. Returns the path of its library.
pub fn fetch_galera(cache: &Cache) -> anyhow::Result<PathBuf> {
    const PACKAGE: &str = "galera-4";
    let library = cache.root("usr/lib/galera/libgalera_smm.so");
    if !library.exists() {
        PrivateApt::new(cache)?.download(&[PACKAGE.into()]).context("Galera is not available")?;
        unpack_into(cache, |package, _| package == PACKAGE)?;
    }
    Ok(library)
}

/// apt with its own lists and archives, in a folder of its own: over the machine's configured
/// archives with `deb-src` switched on, or over others.
pub(crate) struct PrivateApt {
    top: PathBuf,
    /// True if the machine's packages do not count as installed.
    new_system: bool,
}

impl PrivateApt {
    pub(crate) fn new(cache: &Cache) -> anyhow::Result<PrivateApt> {
        let apt = PrivateApt { top: cache.path(""), new_system: false };
        apt.make_folders()?;
        apt.write_sources()?;
        apt.run_update(&[]).context("the lists of the machine's archives could not be fetched")?;
        Ok(apt)
    }

    /// apt for a system without a single package, in the folder `top`. Its archives are those of
    /// the files in `top/apt/sources`.
    pub(crate) fn of_new_system(top: &Path) -> anyhow::Result<PrivateApt> {
        let apt = PrivateApt { top: top.to_owned(), new_system: true };
        apt.make_folders()?;
        fs::write(apt.path("apt/status"), "")?;
        Ok(apt)
    }

    /// A path in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    fn make_folders(&self) -> anyhow::Result<()> {
        for dir in ["apt/lists/partial", "apt/archives/partial", "apt/sources", "deb"] {
            fs::create_dir_all(self.path(dir))?;
        }
        Ok(())
    }

    /// Fetches the lists of packages alone; one that cannot be fetched is an error.
    pub(crate) fn update(&self) -> anyhow::Result<()> {
        self.run_update(&[
            "APT::Update::Error-Mode=any",
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        ])
    }

    fn run_update(&self, options: &[&str]) -> anyhow::Result<()> {
        let mut command = self.command("apt-get");
        command.args(options.iter().flat_map(|option| ["-o", option])).args(["-q", "update"]);
        check_aside(&mut command)
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
            fs::write(self.path("apt/sources").join(name), text).map_err(Into::into)
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

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let option = |name: &str, path: &str| format!("{name}={}", self.path(path).display());
        command.args(["-o", "Dir::Etc::sourcelist=/dev/null"]);
        command.arg("-o").arg(option("Dir::Etc::sourceparts", "apt/sources"));
        command.arg("-o").arg(option("Dir::State::lists", "apt/lists"));
        command.arg("-o").arg(option("Dir::Cache", "apt"));
        // Without it apt warns that its unprivileged user cannot write here.
        command.args(["-o", "APT::Sandbox::User="]).current_dir(self.path("deb"));
        if self.new_system {
            command.arg("-o").arg(option("Dir::State::status", "apt/status"));
        }
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
    fn download_server(&self, cache: &Cache, version: &str) -> anyhow::Result<Vec<String>> {
        // The source first: it is most often the missing part.
        check_aside(
            self.command("apt-get").args(["-q", "--download-only", "source"]).arg(format!("mariadb={version}")),
        )?;
        self.download(&PACKAGES.map(|p| format!("{p}={version}")))?;
        let libraries = missing(cache, &LIBRARIES);
        self.download(&libraries)?;
        Ok(libraries)
    }

    /// `packages` and their dependencies, as far as they are not installed, with their versions.
    pub(crate) fn lacking(&self, packages: &[&str]) -> anyhow::Result<Vec<(String, String)>> {
        let mut command = self.command("apt-get");
        command.args(["-q", "--simulate", "--no-install-recommends", "install"]).args(packages);
        let output = command.output().context("apt-get could not be started")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("apt would not install {}: {}", packages.join(", "), said.trim());
        }
        Ok(to_be_installed(&String::from_utf8_lossy(&output.stdout)))
    }

    pub(crate) fn download(&self, packages: &[String]) -> anyhow::Result<()> {
        if packages.is_empty() {
            Ok(())
        } else {
            check_aside(self.command("apt-get").args(["-q", "download"]).args(packages))
        }
    }
}

/// The packages of `libraries` that neither the machine nor the cache has.
fn missing(cache: &Cache, libraries: &[(&str, &str)]) -> Vec<String> {
    let folders = cache.library_dirs();
    let fetched = |so: &str| folders.iter().any(|folder| folder.join(so).exists());
    let missing = libraries.iter().filter(|(so, _)| !installed(so) && !fetched(so));
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

/// The packages that a simulated installation names, with their versions.
fn to_be_installed(simulation: &str) -> Vec<(String, String)> {
    // "Inst fio (3.33-3 Debian:12 [amd64])"
    let package = |line: &str| {
        let mut words = line.strip_prefix("Inst ")?.split(' ');
        Some((words.next()?.to_owned(), words.next()?.trim_start_matches('(').to_owned()))
    };
    simulation.lines().filter_map(package).collect()
}

/// Unpacks the packages in the folder `from` whose name and version `wanted` accepts.
pub(crate) fn unpack(from: &Path, root: &Path, wanted: impl Fn(&str, &str) -> bool) -> anyhow::Result<()> {
    fs::create_dir_all(root)?;
    let mut debs: Vec<_> = fs::read_dir(from)?.collect::<Result<Vec<_>, _>>()?;
    debs.sort_by_key(fs::DirEntry::path);
    for deb in debs.iter().map(fs::DirEntry::path).filter(|p| p.extension().is_some_and(|e| e == "deb")) {
        let name = deb.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (package, version) = package_of(&name);
        if wanted(&package, &version) {
            let status = Command::new("dpkg").arg("-x").arg(&deb).arg(root).status()?;
            if !status.success() {
                bail!("{name} could not be unpacked");
            }
        }
    }
    Ok(())
}

/// Unpacks the downloaded packages that `wanted` accepts among those of the cache.
fn unpack_into(cache: &Cache, wanted: impl Fn(&str, &str) -> bool) -> anyhow::Result<()> {
    unpack(&cache.path("deb"), &cache.path("root"), wanted)
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
    fn a_library_is_there_in_either_folder() {
        let top = std::env::temp_dir().join(format!("holdfast-libraries-{}", std::process::id()));
        let cache = Cache::at(&top);
        let libraries = [("libholdfast-a.so.1", "a"), ("libholdfast-b.so.1", "b"), ("libholdfast-c.so.1", "c")];
        for (folder, (so, _)) in cache.library_dirs().iter().zip(libraries) {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(so), "").unwrap();
        }
        let missing = missing(&cache, &libraries);
        fs::remove_dir_all(top).unwrap();
        assert_eq!(missing, ["c"]);
    }

    #[test]
    fn sources_are_switched_on_in_both_forms() {
        assert_eq!(with_sources_deb822("Types: deb\nSuites: a\n"), "Types: deb deb-src\nSuites: a\n");
        assert_eq!(with_sources_lines("# x\ndeb u s m\n"), "# x\ndeb u s m\ndeb-src u s m\n");
    }

    #[test]
    fn a_simulated_installation_names_its_packages() {
        let text =
            "Inst libaio1 (0.3.113-4 Debian:12 [amd64])\nInst fio (3.33-3 Debian:12 [amd64])\nConf fio (3.33-3)\n";
        let named = [("libaio1", "0.3.113-4"), ("fio", "3.33-3")].map(|(p, v)| (p.to_owned(), v.to_owned()));
        assert_eq!(to_be_installed(text), named);
    }

    #[test]
    fn package_and_version_are_in_the_name_of_the_file() {
        let (package, version) = package_of("mariadb-server_1%3a10.11.18-0+deb12u1_amd64.deb");
        assert_eq!((package.as_str(), version.as_str()), ("mariadb-server", "1:10.11.18-0+deb12u1"));
    }
}
