//! The smoke test: scripts run on this engine and on InnoDB, on the same server, and their results
//! compared. Two servers share the scripts.
//!
//! The client reads a `.sql` script, the server's own `mariadb-test` a `.test` script, which can
//! have several connections. A script names its engine `$ENGINE`. Lines that begin with `-- only`
//! hold for the engine named there alone. A line `--source NAME` stands for the lines of the file
//! of that name beside the script; other names are of the server's files. Results must be equal
//! byte for byte, errors included. A `.result` beside a script is the expected result instead of
//! InnoDB's.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

use anyhow::{Context, bail, ensure};

use holdfast_server::Cache;
use holdfast_server::Server;
use holdfast_server::run::root;
use holdfast_server::server::SOCKET_ONLY;

/// The folders of the servers that run scripts at the same time. Half of a script is waiting.
const LANES: [&str; 2] = ["smoke", "smoke-2"];

/// Runs the scripts whose names contain one of `only`, or all, each on one of the servers; stops
/// the servers again.
///
/// # Errors
/// If a result is not what is expected, or a server does not start or stop.
pub fn run(cache: &Cache, only: &[String], record: bool) -> anyhow::Result<()> {
    let scripts = scripts(only)?;
    let count = scripts.len();
    let left = &Mutex::new(scripts.into_iter());
    let ended = std::thread::scope(|scope| {
        let begin = |folder| scope.spawn(move || lane(cache, folder, left, record));
        let lanes: Vec<_> = LANES.into_iter().take(count).map(begin).collect();
        let end = |lane: ScopedJoinHandle<'_, _>| lane.join().unwrap_or_else(|_| bail!("a lane of scripts panicked"));
        lanes.into_iter().map(end).collect::<Vec<anyhow::Result<Vec<String>>>>()
    });
    let mut failed = ended.into_iter().collect::<anyhow::Result<Vec<_>>>()?.concat();
    failed.sort();
    if !failed.is_empty() {
        bail!("{} of {count} scripts differ from what is expected: {}", failed.len(), failed.join(", "));
    }
    println!("{count} scripts give the same results on Holdfast as on InnoDB, or what is expected");
    Ok(())
}

/// The scripts, in the order of their names.
fn scripts(only: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let mut scripts: Vec<_> =
        fs::read_dir(root().join("mariadb/tests"))?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    scripts.retain(|p| p.extension().is_some_and(|e| e == "sql" || e == "test"));
    scripts.retain(|p| only.is_empty() || only.iter().any(|o| p.to_string_lossy().contains(o.as_str())));
    scripts.sort();
    ensure!(!scripts.is_empty(), "no script of mariadb/tests has a name with {}", only.join(" or "));
    Ok(scripts)
}

/// Runs what is left of the scripts on a server of its own, whose data is in `folder`. Returns the
/// names of those whose results differ.
fn lane(
    cache: &Cache,
    folder: &str,
    left: &Mutex<impl Iterator<Item = PathBuf>>,
    record: bool,
) -> anyhow::Result<Vec<String>> {
    let server = Server::new(cache, folder).bound_to_us();
    let options =
        ["--query-cache-type=1", "--query-cache-size=1M", "--log-bin", "--binlog-format=MIXED", "--server-id=1"];
    server.up(SOCKET_ONLY, true, &options.map(String::from))?;
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let mut failed = Vec::new();
    let mut run_all = || -> anyhow::Result<()> {
        while let Some(script) = next() {
            failed.extend(run_and_compare(&server, &script, record)?);
        }
        Ok(())
    };
    let result = run_all();
    match &result {
        Ok(()) if failed.is_empty() => server.down()?,
        _ => println!("log of the server:\n{}", server.log_tail()),
    }
    result.map(|()| failed)
}

/// Runs a script on both engines. Returns its name if the results differ.
fn run_and_compare(server: &Server<'_>, script: &Path, record: bool) -> anyhow::Result<Option<String>> {
    let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let ours = run_script(server, script, "HOLDFAST")?;
    let expected = script.with_extension("result");
    if record && expected.exists() {
        fs::write(&expected, &ours)?;
    }
    let theirs = if expected.exists() { fs::read_to_string(&expected)? } else { run_script(server, script, "InnoDB")? };
    let difference = difference(&ours, &theirs);
    match &difference {
        None => println!("ok      {name} ({} lines)", ours.lines().count()),
        Some(difference) => println!("FAILED  {name}\n{difference}"),
    }
    Ok(difference.map(|_| name))
}

/// What the client prints for a script, errors included, in a fresh schema.
fn run_script(server: &Server<'_>, script: &Path, engine: &str) -> anyhow::Result<String> {
    let text = text_of(script)?;
    let fresh = "DROP DATABASE IF EXISTS smoke; CREATE DATABASE smoke";
    server.query(fresh).with_context(|| format!("before {}", script.display()))?;
    let sessions = script.extension().is_some_and(|e| e == "test");
    // A statement that does not end is a failure, too.
    let mut sql = String::from(if sessions { "" } else { "SET max_statement_time = 60;\n" });
    let other = if engine == "InnoDB" { "-- only HOLDFAST" } else { "-- only InnoDB" };
    for line in text.lines().filter(|l| !l.starts_with(other)) {
        sql += &line.replace("$ENGINE", engine);
        sql.push('\n');
    }
    let mut reader = if sessions { server.test_command() } else { server.client_command() };
    if sessions {
        reader.args(["--continue-on-error", "--database=smoke"]);
    } else {
        reader.args(["--force", "--table", "--column-names", "--binary-as-hex", "-vv", "smoke"]);
    }
    let mut child = reader.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("the client has a standard input")?;
    let writer = std::thread::spawn(move || stdin.write_all(sql.as_bytes()));
    let output = child.wait_with_output()?;
    // A client that died does not read to the end; its output tells.
    let _ = writer.join();
    if sessions && !output.status.success() {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("{} on {engine}: {out}{err}", script.display());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(format!("{out}\n{err}").replace(engine, "$ENGINE").replace("HOLDFAST", "$ENGINE"))
}

/// The text of a script, with that of the files beside it which it names.
fn text_of(script: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for line in fs::read_to_string(script)?.lines() {
        let beside = line.strip_prefix("--source ").map(|name| script.with_file_name(name));
        match beside.filter(|file| file.exists()) {
            Some(file) => text += &fs::read_to_string(file)?,
            None => text = text + line + "\n",
        }
    }
    Ok(text)
}

/// The first lines that differ.
fn difference(ours: &str, theirs: &str) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let (a, b): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), theirs.lines().collect());
    let at = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let part = |lines: &[&str]| lines[at.saturating_sub(12).min(lines.len())..(at + 8).min(lines.len())].join("\n");
    Some(format!("--- Holdfast, around line {}\n{}\n--- expected\n{}\n---", at + 1, part(&a), part(&b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_a_script_is_a_part_of_it() {
        for script in ["pool_size_sessions.test", "log_size_sessions.test"] {
            let text = text_of(&root().join("mariadb/tests").join(script)).unwrap();
            assert!(text.contains("\nCALL resizes();\n") && !text.contains("--source"), "{text}");
        }
        let text = text_of(&root().join("mariadb/tests/locks.test")).unwrap();
        assert!(text.contains("\n--source include/wait_condition.inc\n"), "{text}");
    }
}
