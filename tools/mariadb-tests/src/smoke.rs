//! The smoke test: scripts run on this engine and on InnoDB, on the same server, and their results
//! compared.
//!
//! The client reads a `.sql` script, the server's own `mariadb-test` a `.test` script, which can
//! have several connections. A script names its engine `$ENGINE`. Lines that begin with `-- only`
//! hold for the engine named there alone. A line `--source NAME` stands for the lines of the file
//! of that name beside the script; other names are of the server's files. Results must be equal
//! byte for byte, errors included. A `.result` beside a script is the expected result instead of
//! InnoDB's.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail, ensure};

use holdfast_server::Cache;
use holdfast_server::Server;
use holdfast_server::run::root;
use holdfast_server::server::SOCKET_ONLY;

/// Runs the scripts; stops the server again.
pub fn run(cache: &Cache, only: &[String], record: bool) -> anyhow::Result<()> {
    let server = Server::new(cache, "smoke").bound_to_us();
    let options =
        ["--query-cache-type=1", "--query-cache-size=1M", "--log-bin", "--binlog-format=MIXED", "--server-id=1"];
    server.up(SOCKET_ONLY, true, &options.map(String::from))?;
    let result = scripts(&server, only, record);
    match &result {
        Ok(()) => server.down()?,
        Err(_) => println!("log of the server:\n{}", server.log_tail()),
    }
    result
}

fn scripts(server: &Server<'_>, only: &[String], record: bool) -> anyhow::Result<()> {
    let mut scripts: Vec<_> =
        fs::read_dir(root().join("mariadb/tests"))?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    scripts.retain(|p| p.extension().is_some_and(|e| e == "sql" || e == "test"));
    scripts.retain(|p| only.is_empty() || only.iter().any(|o| p.to_string_lossy().contains(o.as_str())));
    scripts.sort();
    ensure!(!scripts.is_empty(), "no script of mariadb/tests has a name with {}", only.join(" or "));
    let mut failed = Vec::new();
    for script in &scripts {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let ours = run_script(server, script, "HOLDFAST")?;
        let expected = script.with_extension("result");
        if record && expected.exists() {
            fs::write(&expected, &ours)?;
        }
        let theirs =
            if expected.exists() { fs::read_to_string(&expected)? } else { run_script(server, script, "InnoDB")? };
        match difference(&ours, &theirs) {
            None => println!("ok      {name} ({} lines)", ours.lines().count()),
            Some(difference) => {
                println!("FAILED  {name}\n{difference}");
                failed.push(name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("{} of {} scripts differ from what is expected: {}", failed.len(), scripts.len(), failed.join(", "));
    }
    println!("{} scripts give the same results on Holdfast as on InnoDB, or what is expected", scripts.len());
    Ok(())
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
