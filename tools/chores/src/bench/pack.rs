//! The measurements of scaling as an archive for another machine with Linux and any glibc.
//!
//! ```text
//! run.sh           measures everything within a number of seconds
//! tools/           programs for the PATH: the measurement, the lab, the simulator, this program,
//!                  taskset, setpriv
//! real/            the programs themselves; what lies elsewhere starts them with the loader below
//! lib/             the loader and all shared libraries
//! .cache/mariadb/  the server, the engine and sysbench, where this program looks for them
//! ```
//!
//! The archive is tried before it is done: unpacked, and run with an empty environment.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use holdfast_server::{Cache, Profile, apt, build_as};

use super::peers::{BINDGEN, ROCKSDB, peers};
use crate::packages;
use crate::run::{ROOT, built, cargo, check, root};

const NAME: &str = "holdfast-scale";
/// So much can be carried to most machines.
const MOST_BYTES: u64 = 64 << 20;
/// Seconds of the trial.
const TRIAL: &str = "240";
const MEASUREMENT: &str = "holdfast-compare";
/// The packages of the lab and of the simulator, and their programs.
const OWN: [(&str, &str); 2] = [("holdfast-cli", "holdfast"), ("holdfast-sim", "holdfast-sim")];

/// The server's programs, below `usr`; scripts among them are copied as they are.
const PROGRAMS: [&str; 7] = [
    "sbin/mariadbd",
    "bin/mariadb",
    "bin/mariadb-admin",
    "bin/mariadb-install-db",
    "bin/my_print_defaults",
    "bin/resolveip",
    "bin/sysbench",
];

/// What the server and sysbench read, below `usr/share`.
const SHARED: [&str; 3] = ["mysql/english", "mysql/charsets", "sysbench"];

/// Packs `file`, with or without the server, and tries it.
pub fn run(file: &Path, with_server: bool) -> anyhow::Result<()> {
    packages::provide(&[BINDGEN, ROCKSDB])?;
    check(&mut peers("build --release", ""))?;
    let top = root().join(".cache/pack");
    let _ = fs::remove_dir_all(&top);
    let mut pack = Pack { top: top.join(NAME), libraries: BTreeSet::new(), extra: String::new() };
    pack.add(&root().join("tools/bench-compare/target/release").join(MEASUREMENT), "tools", MEASUREMENT)?;
    for (package, program) in OWN {
        let built = built(&mut cargo(&format!("build --release --package {package} --message-format=json")))?;
        pack.add(&built, "tools", program)?;
    }
    pack.add_tool("taskset")?;
    if with_server {
        pack.add_server(&Cache::of_the_project())?;
    }
    pack.add_libraries()?;
    pack.write("run.sh", include_str!("run.sh"))?;
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let compress = if file.extension().is_some_and(|end| end == "gz" || end == "tgz") { "-czf" } else { "-cf" };
    check(Command::new("tar").args(["--owner=0", "--group=0", compress]).arg(file).arg("-C").arg(&top).arg(NAME))?;
    let bytes = fs::metadata(file)?.len();
    ensure!(bytes < MOST_BYTES, "{} has {bytes} bytes; name it .tar.gz to compress it", file.display());
    test(&top.join("trial"), file, with_server)?;
    println!("{}: {} MiB; there `tar -xf`, then `{NAME}/run.sh SECONDS`", file.display(), bytes >> 20);
    Ok(())
}

/// The folder that is packed.
struct Pack {
    top: PathBuf,
    /// Programs and libraries whose libraries are needed.
    libraries: BTreeSet<PathBuf>,
    /// Where libraries lie that the machine lacks, for the dynamic linker.
    extra: String,
}

impl Pack {
    /// Adds a program, stripped, and in the folder `to` the script that starts it.
    fn add(&mut self, program: &Path, to: &str, name: &str) -> anyhow::Result<()> {
        if !fs::read(program).with_context(|| format!("{} is missing", program.display()))?.starts_with(b"\x7fELF") {
            return self.copy(program, &format!("{to}/{name}"));
        }
        let real = format!("real/{name}");
        self.copy(program, &real)?;
        check(Command::new("strip").arg("--strip-all").arg(self.top.join(&real)))?;
        self.libraries.insert(program.to_path_buf());
        let start = format!(
            "#!/bin/sh\nexec \"${ROOT}/lib/loader\" --library-path \"${ROOT}/lib\" --argv0 \"$0\" \"${ROOT}/{real}\" \"$@\"\n"
        );
        self.write(&format!("{to}/{name}"), &start)
    }

    /// Adds a program of this system.
    fn add_tool(&mut self, name: &str) -> anyhow::Result<()> {
        let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(name)).into_iter().find(|path| path.exists());
        self.add(&found.with_context(|| format!("{name} is missing"))?, "tools", name)
    }

    fn add_server(&mut self, cache: &Cache) -> anyhow::Result<()> {
        const USR: &str = ".cache/mariadb/root/usr";
        let engine = build_as(cache, Profile::Release)?;
        apt::fetch_sysbench(cache)?;
        self.extra = cache.library_path();
        self.add(&std::env::current_exe()?, "tools", "xtask")?;
        self.add_tool("setpriv")?;
        for program in PROGRAMS {
            let (folder, name) = program.split_once('/').context("a program lies in a folder")?;
            self.add(&cache.root(&format!("usr/{program}")), &format!("{USR}/{folder}"), name)?;
        }
        let plugin = format!("{USR}/lib/mysql/plugin/ha_holdfast.so");
        self.copy(&engine, &plugin)?;
        check(Command::new("strip").arg("--strip-unneeded").arg(self.top.join(plugin)))?;
        self.libraries.insert(engine);
        for folder in SHARED {
            let to = self.top.join(USR).join("share").join(folder);
            fs::create_dir_all(to.parent().context("a folder lies in a folder")?)?;
            check(Command::new("cp").arg("-rL").arg(cache.root(&format!("usr/share/{folder}"))).arg(to))?;
        }
        let scripts = fs::read_dir(cache.root("usr/share/mysql"))?.map(|entry| entry.map(|entry| entry.path()));
        for script in scripts.collect::<Result<Vec<_>, _>>()? {
            let name = script.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".sql") {
                self.copy(&script, &format!("{USR}/share/mysql/{name}"))?;
            }
        }
        Ok(())
    }

    /// The loader, and every library that one of the programs is linked with.
    fn add_libraries(&self) -> anyhow::Result<()> {
        for program in &self.libraries {
            let output = Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", &self.extra).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(!text.contains("not found"), "{} lacks libraries:\n{text}", program.display());
            for (name, path) in linked(&text) {
                let to = self.top.join("lib").join(if name.starts_with("ld-linux") { "loader" } else { name });
                if !to.exists() {
                    self.copy(
                        Path::new(path),
                        &format!("lib/{}", to.file_name().unwrap_or_default().to_string_lossy()),
                    )?;
                }
            }
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &str) -> anyhow::Result<()> {
        let to = self.top.join(to);
        fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        fs::copy(from, to).with_context(|| format!("{} cannot be copied", from.display())).map(drop)
    }

    /// Writes a script.
    fn write(&self, to: &str, text: &str) -> anyhow::Result<()> {
        let to = self.top.join(to);
        fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        fs::write(&to, text)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(Into::into)
    }
}

/// Names and paths in what `ldd` prints; the kernel's own library has no path.
fn linked(text: &str) -> Vec<(&str, &str)> {
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.filter_map(|path| Some((path.rsplit_once('/')?.1, path))).collect()
}

/// Unpacks the archive and runs it with nothing of this environment.
fn test(dir: &Path, file: &Path, with_server: bool) -> anyhow::Result<()> {
    fs::create_dir_all(dir)?;
    check(Command::new("tar").arg("-xf").arg(file).arg("-C").arg(dir))?;
    let small = [
        ("SCALE_OPTIONS", "--rows 2000 --threads 1,2 --turns 2 --seconds 0.1 --operations get,put,append --modes lazy"),
        ("RECOVERY_OPTIONS", "--tails-mib 1 --rows 2000"),
        ("SIDELOAD_OPTIONS", "--quick --scale 100 --threads 2"),
        // The same program as that of the side load.
        ("SESSIONS_OPTIONS", "skip"),
        ("SERVER_OPTIONS", "--tables 1x1000 --threads 1,2 --pairs 2 --seconds 1 oltp_point_select oltp_insert"),
    ];
    check(Command::new(dir.join(NAME).join("run.sh")).arg(TRIAL).env_clear().env("PATH", "/usr/bin:/bin").envs(small))?;
    let results = dir.join(NAME).join("results");
    let read = |name: &str| fs::read(results.join(name)).with_context(|| format!("no {name}"));
    let expected = [("scale.json", "/cells/0"), ("sideload.json", "/runs/0"), ("mariadb.json", "/reports/0/cells/0")];
    for (name, figure) in &expected[..if with_server { 3 } else { 2 }] {
        let result: serde_json::Value = serde_json::from_slice(&read(name)?)?;
        ensure!(result.pointer(figure).is_some(), "{name} has no {figure}");
    }
    let one_core = read("recovery-one-core.txt")?;
    ensure!(one_core.starts_with(b"1 core,"), "{}", String::from_utf8_lossy(&one_core));
    fs::remove_dir_all(dir).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    #[test]
    fn libraries_are_found_in_what_ldd_prints() {
        let text =
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let expected = [("libc.so.6", "/lib/x/libc.so.6"), ("ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2")];
        assert_eq!(super::linked(text), expected);
    }
}
