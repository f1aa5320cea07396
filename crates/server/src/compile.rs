//! Compiling and linking `ha_holdfast.so`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, bail};

use crate::Cache;
use crate::run::{cargo, check, root};

/// Builds the plugin and puts it where the private servers look for it.
pub fn plugin(cache: &Cache, version: &str) -> anyhow::Result<PathBuf> {
    let engine = engine_library()?;
    let build = cache.path("build");
    fs::create_dir_all(&build)?;
    let sources = root().join("mariadb/src");
    let newest_header = newest(&sources, "h")?.max(newest(&root().join("crates/capi/include"), "h")?);
    let mut objects = Vec::new();
    for source in files(&sources, "cc")? {
        let object = build.join(source.file_name().context("a file has a name")?).with_extension("o");
        if modified(&object)? < newest_header.max(modified(&source)?) {
            compile(cache, version, &source, &object)?;
        }
        objects.push(object);
    }
    let plugin = cache.root("usr/lib/mysql/plugin/ha_holdfast.so");
    let mut newest_part = modified(&engine)?;
    for object in &objects {
        newest_part = newest_part.max(modified(object)?);
    }
    if modified(&plugin)? < newest_part {
        link(cache, &objects, &engine, &plugin)?;
    }
    println!("{}", plugin.display());
    Ok(plugin)
}

/// The engine with its C interface, as a static library.
fn engine_library() -> anyhow::Result<PathBuf> {
    check(&mut cargo("build --release -q -p holdfast-capi"))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/libholdfast_capi.a"))
}

fn compile(cache: &Cache, version: &str, source: &Path, object: &Path) -> anyhow::Result<()> {
    let src = cache.path("src");
    let mut command = Command::new("g++");
    command.args(["-std=gnu++17", "-O2", "-g1", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter"]);
    // NDEBUG, DBUG_OFF and the absence of SAFE_MUTEX decide the layout of the server's structures.
    command.args(["-DHAVE_CONFIG_H", "-DMYSQL_DYNAMIC_PLUGIN", "-DDBUG_OFF", "-DNDEBUG", "-DMYSQL_SERVER=1"]);
    command.arg(format!("-DHOLDFAST_BUILT_FOR=\"{version}\""));
    // The server's headers as system headers: their warnings are not ours.
    let includes = [
        src.join("gen"),
        cache.root("usr/include/mariadb/server"),
        src.join("sql"),
        src.join("include"),
        src.join("wsrep-lib/include"),
        src.join("wsrep-lib/wsrep-API/v26"),
    ];
    for include in includes {
        command.arg("-isystem").arg(include);
    }
    command.arg("-I").arg(root().join("crates/capi/include"));
    command.arg("-c").arg(source).arg("-o").arg(object);
    println!("compiling {}", source.strip_prefix(root()).unwrap_or(source).display());
    let output = command.output().context("g++ is missing")?;
    print!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        // A half-written object must not count as done.
        let _ = fs::remove_file(object);
        bail!("{} does not compile", source.display());
    }
    Ok(())
}

fn link(cache: &Cache, objects: &[PathBuf], engine: &Path, plugin: &Path) -> anyhow::Result<()> {
    // Beside it first, then renamed: a running server has the old file mapped.
    let fresh = plugin.with_extension("so.new");
    check(
        Command::new("g++")
            .args(["-shared", "-o"])
            .arg(&fresh)
            .args(objects)
            .arg(engine)
            .arg("-L")
            .arg(cache.library_dir())
            .args(["-lmysqlservices", "-lpthread", "-ldl", "-lm"])
            .arg(format!("-Wl,--version-script={}", root().join("mariadb/plugin.map").display()))
            .args(["-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,nodelete"]),
    )?;
    fs::rename(&fresh, plugin).map_err(Into::into)
}

fn files(dir: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("{} is missing", dir.display()))?;
    let mut found = entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    found.retain(|p| p.extension().is_some_and(|e| e == extension));
    found.sort();
    Ok(found)
}

/// When the newest file of a kind was changed.
fn newest(dir: &Path, extension: &str) -> anyhow::Result<SystemTime> {
    files(dir, extension)?.iter().try_fold(SystemTime::UNIX_EPOCH, |newest, f| Ok(newest.max(modified(f)?)))
}

/// When a file was changed; long ago if it does not exist.
fn modified(file: &Path) -> anyhow::Result<SystemTime> {
    match fs::metadata(file) {
        Ok(metadata) => Ok(metadata.modified()?),
        Err(_) => Ok(SystemTime::UNIX_EPOCH),
    }
}
