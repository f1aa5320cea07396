//! Compiles and links `ha_holdfast.so`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, anyhow, bail};

use crate::cache::Cache;
use crate::run::{cargo, check_aside, root, say};

/// The build profile of the engine inside the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Optimized: the profile for use and for measurements.
    Release,
    /// With debug assertions, from what the tests have already built.
    Dev,
    /// As `Dev`, and the shim checks its memory accesses and arithmetic as it runs
    /// (AddressSanitizer, UndefinedBehaviorSanitizer). Only a server of [`Cache::with_sanitizers`]
    /// can load it.
    Sanitized,
    /// As `Dev`, and the engine has the faults that `planted!` names. The server's
    /// [`Server::with_planted`](crate::Server::with_planted) says which one it shows.
    Planted,
}

impl Profile {
    /// The folder under cargo's target folder.
    fn folder(self) -> &'static str {
        match self {
            Profile::Release => "release",
            Profile::Dev | Profile::Sanitized => "debug",
            Profile::Planted => "planted",
        }
    }

    /// Where in the cache its objects and the library that is made of them are.
    fn build_dir(self) -> &'static str {
        if self == Profile::Sanitized { "build/sanitized" } else { "build" }
    }

    /// How the compiler is to translate, and what the linker has to know of it.
    fn code_flags(self) -> &'static [&'static str] {
        match self {
            Profile::Release | Profile::Dev | Profile::Planted => &["-O2", "-g1"],
            Profile::Sanitized => &SANITIZED,
        }
    }
}

/// The server is compiled without the type information that the check of virtual calls (`vptr`)
/// reads. The first finding ends the server.
const SANITIZED: [&str; 7] = [
    "-O1",
    "-g1",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-fsanitize=address,undefined",
    "-fno-sanitize=vptr",
    "-fno-sanitize-recover=undefined",
];

/// A fault that is planted in the shim, to test whether a check of the server finds it.
#[derive(Clone, Copy, Debug)]
pub struct Plant {
    /// What is changed for that, each in a file of its own.
    pub edits: &'static [Edit],
}

/// A change of a file of the shim.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// The name of the file.
    pub file: &'static str,
    /// What stands there, once.
    pub sound: &'static str,
    /// What stands there instead.
    pub faulty: &'static str,
}

/// As [`plugin`], with a fault. The next [`plugin`] is without it.
pub fn planted_plugin(cache: &Cache, version: &str, profile: Profile, plant: Plant) -> anyhow::Result<()> {
    let engine = engine_library(profile)?;
    let mut objects = objects(cache, version, profile)?;
    let sources = sources();
    let headers = Headers::precompile(cache, version, profile, newest_header(&sources)?)?;
    let build = cache.path(profile.build_dir()).join("planted");
    fs::create_dir_all(&build)?;
    for edit in plant.edits {
        let object = compile_edited(&sources, &headers, &build, *edit)?;
        objects.retain(|other| other.file_name() != object.file_name());
        objects.push(object);
    }
    let linked = build.join("planted.so");
    link(cache, profile, &objects, &engine, &linked)?;
    install(cache, &linked).map(drop)
}

impl Plant {
    /// Checks that the shim has what the fault replaces: it may have been changed since.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(self) -> anyhow::Result<()> {
        let sources = sources();
        self.edits.iter().try_for_each(|edit| edit.apply(&sources).map(drop))
    }
}

impl Edit {
    /// The file, and what it has after the change.
    fn apply(self, sources: &Path) -> anyhow::Result<(PathBuf, String)> {
        let original = files(sources, "cc")?.into_iter().find(|file| file.ends_with(self.file));
        let original = original.with_context(|| format!("the shim has no file {}", self.file))?;
        let text = fs::read_to_string(&original)?;
        if text.matches(self.sound).count() != 1 {
            bail!("{} does not have once what the planted fault replaces: {}", self.file, self.sound);
        }
        Ok((original, text.replace(self.sound, self.faulty)))
    }
}

/// Compiles a file of the shim with a change into the folder `build`.
fn compile_edited(sources: &Path, headers: &Headers, build: &Path, edit: Edit) -> anyhow::Result<PathBuf> {
    let (original, text) = edit.apply(sources)?;
    let (source, object) = (build.join(edit.file), build.join(edit.file).with_extension("o"));
    fs::write(&source, text)?;
    let beside = original.parent().context("a file is in a folder")?;
    compile(headers.command().arg("-iquote").arg(beside).arg("-c").arg(&source), &object)?;
    Ok(object)
}

/// Builds the plugin and puts it into the plugin folder of the private servers.
pub fn plugin(cache: &Cache, version: &str, profile: Profile) -> anyhow::Result<PathBuf> {
    let engine = engine_library(profile)?;
    let objects = objects(cache, version, profile)?;
    let linked = cache.path(profile.build_dir()).join(profile.folder()).with_extension("so");
    let mut newest_part = modified(&engine)?;
    for object in &objects {
        newest_part = newest_part.max(modified(object)?);
    }
    if modified(&linked)? < newest_part {
        link(cache, profile, &objects, &engine, &linked)?;
    }
    install(cache, &linked)
}

/// Puts a library into the plugin folder.
fn install(cache: &Cache, linked: &Path) -> anyhow::Result<PathBuf> {
    let plugin = cache.root("usr/lib/mysql/plugin/ha_holdfast.so");
    // Written beside it first, then renamed: a running server has the old file mapped.
    let fresh = plugin.with_extension("so.new");
    fs::copy(linked, &fresh)?;
    fs::rename(&fresh, &plugin)?;
    Ok(plugin)
}

/// The folder of the shim. Its files name those of other folders by their paths from here.
fn sources() -> PathBuf {
    root().join("mariadb/src")
}

/// The time of the last change of any header of the shim.
fn newest_header(sources: &Path) -> anyhow::Result<SystemTime> {
    Ok(newest(sources, "h")?.max(newest(&root().join("engine/capi/include"), "h")?))
}

/// Builds the engine with its C interface as a static library.
fn engine_library(profile: Profile) -> anyhow::Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let built = target.join(profile.folder());
    let mut build = cargo("build -q -p holdfast-capi");
    let folder = match profile {
        Profile::Dev | Profile::Sanitized => built,
        Profile::Release => {
            build.arg("--release");
            built
        }
        Profile::Planted => {
            // The flag changes every crate, so they are in a target folder of their own.
            build.arg("--target-dir").arg(&built).env("RUSTFLAGS", "--cfg planted");
            built.join("debug")
        }
    };
    check_aside(&mut build)?;
    Ok(folder.join("libholdfast_capi.a"))
}

/// Compiles the sources of the shim whose objects are missing or older, as many at a time as there
/// are processors. Returns all objects.
fn objects(cache: &Cache, version: &str, profile: Profile) -> anyhow::Result<Vec<PathBuf>> {
    let build = cache.path(profile.build_dir());
    fs::create_dir_all(&build)?;
    let sources = sources();
    let newest_header = newest_header(&sources)?;
    let mut objects = Vec::new();
    let mut stale = Vec::new();
    for source in files(&sources, "cc")? {
        let object = build.join(source.file_name().context("a file has a name")?).with_extension("o");
        if modified(&object)? < newest_header.max(modified(&source)?) {
            stale.push((source, object.clone()));
        }
        objects.push(object);
    }
    if stale.is_empty() {
        return Ok(objects);
    }
    let headers = Headers::precompile(cache, version, profile, newest_header)?;
    let stale = Mutex::new(stale);
    let next = || stale.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let compile_all = || -> anyhow::Result<()> {
        while let Some((source, object)) = next() {
            say(&format!("compiling {}", source.strip_prefix(root()).unwrap_or(&source).display()));
            compile(headers.command().arg("-c").arg(&source), &object)?;
        }
        Ok(())
    };
    let at_a_time = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(compile_all)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a compiling thread died"))?)
    })?;
    Ok(objects)
}

/// The headers of the server. Reading them takes longer than compiling most sources, so they are
/// precompiled once and included first in every source.
struct Headers<'a> {
    cache: &'a Cache,
    version: &'a str,
    profile: Profile,
    prelude: PathBuf,
}

impl<'a> Headers<'a> {
    fn precompile(
        cache: &'a Cache,
        version: &'a str,
        profile: Profile,
        newest_header: SystemTime,
    ) -> anyhow::Result<Headers<'a>> {
        let prelude = cache.path(profile.build_dir()).join("prelude.h");
        let text = format!("#include \"{}\"\n", sources().join("plugin/server.h").display());
        if fs::read_to_string(&prelude).ok().as_ref() != Some(&text) {
            fs::write(&prelude, text)?;
        }
        let headers = Headers { cache, version, profile, prelude };
        let compiled = headers.prelude.with_extension("h.gch");
        if modified(&compiled)? < newest_header.max(modified(&headers.prelude)?) {
            say("compiling the server's headers");
            compile(headers.flags().args(["-x", "c++-header"]).arg(&headers.prelude), &compiled)?;
        }
        Ok(headers)
    }

    fn command(&self) -> Command {
        let mut command = self.flags();
        command.arg("-include").arg(&self.prelude);
        command
    }

    fn flags(&self) -> Command {
        let src = self.cache.path("src");
        let mut command = Command::new("g++");
        command.args(["-std=gnu++17", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter"]);
        command.args(self.profile.code_flags());
        // NDEBUG, DBUG_OFF and the absence of SAFE_MUTEX decide the layout of the server's
        // structures.
        command.args(["-DHAVE_CONFIG_H", "-DMYSQL_DYNAMIC_PLUGIN", "-DDBUG_OFF", "-DNDEBUG", "-DMYSQL_SERVER=1"]);
        command.arg(format!("-DHOLDFAST_BUILT_FOR=\"{}\"", self.version));
        // The server's headers are system headers, so that their warnings are not shown.
        let includes = [
            src.join("gen"),
            self.cache.root("usr/include/mariadb/server"),
            src.join("sql"),
            src.join("include"),
            src.join("wsrep-lib/include"),
            src.join("wsrep-lib/wsrep-API/v26"),
        ];
        for include in includes {
            command.arg("-isystem").arg(include);
        }
        command.arg("-I").arg(root().join("engine/capi/include")).arg("-iquote").arg(sources());
        command
    }
}

/// Runs the compiler. Its output file is complete or does not exist.
fn compile(command: &mut Command, to: &Path) -> anyhow::Result<()> {
    let output = command.arg("-o").arg(to).output().context("g++ cannot be started: is its package installed?")?;
    let warnings = String::from_utf8_lossy(&output.stderr);
    if !warnings.is_empty() {
        say(warnings.trim_end());
    }
    if !output.status.success() {
        // A half-written object must not count as done.
        let _ = fs::remove_file(to);
        bail!("{} does not compile", to.file_stem().unwrap_or_default().display());
    }
    Ok(())
}

fn link(cache: &Cache, profile: Profile, objects: &[PathBuf], engine: &Path, linked: &Path) -> anyhow::Result<()> {
    check_aside(
        Command::new("g++")
            .args(profile.code_flags())
            .args(["-shared", "-o"])
            .arg(linked)
            .args(objects)
            .arg(engine)
            .arg("-L")
            .arg(cache.library_dir())
            .args(["-lmysqlservices", "-lpthread", "-ldl", "-lm"])
            .arg(format!("-Wl,--version-script={}", root().join("mariadb/plugin.map").display()))
            .args(["-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,nodelete"]),
    )
}

/// The files of a kind in a folder and those below it.
fn files(dir: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("{} is missing", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The time of the last change of any file of a kind.
fn newest(dir: &Path, extension: &str) -> anyhow::Result<SystemTime> {
    files(dir, extension)?.iter().try_fold(SystemTime::UNIX_EPOCH, |newest, f| Ok(newest.max(modified(f)?)))
}

/// The time of the last change of a file; the epoch if it does not exist.
fn modified(file: &Path) -> anyhow::Result<SystemTime> {
    match fs::metadata(file) {
        Ok(metadata) => Ok(metadata.modified()?),
        Err(_) => Ok(SystemTime::UNIX_EPOCH),
    }
}
