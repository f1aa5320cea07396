//! The dump test: what `mariadb-dump` writes of tables on this engine loads into InnoDB, and what
//! it writes of those loads into this engine again. Each time every table, view, sequence, routine,
//! trigger and event is unchanged.
//!
//! Two schemas are dumped: a lending library (many tables, views, triggers, procedures, generated
//! columns) and one with every type of column and index. At first no session writes ([`short`]).
//! Then sessions write while the dump is made, and the test checks that the dump is of one moment:
//! money that only moves has the same sum, and a replica that starts from the dump on InnoDB, at
//! the position in the binary log that the dump names, ends with exactly the tables of the primary.

mod content;
mod writers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};

use self::content::content;
use self::writers::Writers;
use holdfast_server::run::root;
use holdfast_server::{Cache, Server};

const PORT: u16 = 13346;
const COPY_PORT: u16 = 13347;

/// The options of every dump. Without `--hex-blob` the program's own text of a GEOMETRY cannot be
/// read back in utf8mb4.
const WHOLE: [&str; 9] = [
    "--hex-blob",
    "--routines",
    "--triggers",
    "--events",
    "--dump-history",
    "--default-character-set=utf8mb4",
    "--databases",
    "library",
    "types",
];

/// In one snapshot, and behind locks of the tables, as the program does unless told otherwise.
const WAYS: [&[&str]; 2] = [&["--single-transaction"], &["--lock-tables"]];

/// The same with the position in the binary log. Such a dump locks all tables unless it takes a
/// snapshot.
const WAYS_WITH_POSITION: [&[&str]; 2] =
    [&["--single-transaction", "--gtid", "--master-data=1"], &["--lock-all-tables", "--gtid", "--master-data=1"]];

/// Seconds that a replica may take to catch up.
const CATCH_UP: u32 = 120;

/// Everything.
pub fn run(cache: &Cache) -> anyhow::Result<()> {
    short(cache)?;
    let [server, copy] = ["dump/server", "dump/copy"].map(|name| Server::new(cache, name).bound_to_us());
    let binlog = ["--log-bin=bin", "--binlog-format=ROW", "--server-id=1", "--holdfast-buffer-pool-size=8M"];
    server.up(PORT, true, &binlog.map(String::from))?;
    copy.up(COPY_PORT, true, &["--server-id=2", "--slave-parallel-threads=4"].map(String::from))?;
    let result = under_writers(cache, &server, &copy);
    if result.is_err() {
        println!("logs of the servers:\n{}\n{}", server.log_tail(), copy.log_tail());
    }
    copy.down()?;
    server.down()?;
    result
}

/// The schemas on a server of their own, at rest, there and back.
pub fn short(cache: &Cache) -> anyhow::Result<()> {
    let server = Server::new(cache, "dump/server").bound_to_us();
    server.up(PORT, true, &[])?;
    let result = at_rest(cache, &server);
    if result.is_err() {
        println!("log of the server:\n{}", server.log_tail());
    }
    server.down()?;
    result
}

fn at_rest(cache: &Cache, server: &Server<'_>) -> anyhow::Result<()> {
    create(cache, server)?;
    there_and_back(cache, server, WAYS[0])
}

/// Both schemas, on Holdfast.
fn create(cache: &Cache, server: &Server<'_>) -> anyhow::Result<()> {
    script(cache, server, "library.sql")?;
    script(cache, server, "types.sql")
}

/// Dumps what is on Holdfast, loads it as InnoDB's in its place, and that back.
fn there_and_back(cache: &Cache, server: &Server<'_>, way: &[&str]) -> anyhow::Result<()> {
    let before = content(server)?;
    for (from, to) in [("HOLDFAST", "InnoDB"), ("InnoDB", "HOLDFAST")] {
        let text = dump(cache, server, way)?;
        load(server, &text, from, to)?;
        let now = content(server)?;
        ensure!(now.engine == to, "the tables are on {}, not on {to}", now.engine);
        before.compare(&now).with_context(|| format!("a dump by {way:?} of {from}, loaded into {to}"))?;
    }
    println!("ok      {}: {} objects to InnoDB and back", way.join(" "), before.objects());
    Ok(())
}

fn under_writers(cache: &Cache, server: &Server<'_>, copy: &Server<'_>) -> anyhow::Result<()> {
    create(cache, server)?;
    script(cache, server, "writers.sql")?;
    let repl =
        "SET sql_log_bin = 0; CREATE USER repl@'%' IDENTIFIED BY 'repl'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'";
    server.query(repl)?;
    for way in WAYS_WITH_POSITION {
        let applied = replica_from_dump(cache, server, copy, way)?;
        println!("ok      {}: a replica from it made {applied} further loans, and is equal", way.join(" "));
        copy.query("STOP SLAVE; RESET SLAVE ALL")?;
        there_and_back_again(cache, copy)?;
    }
    for way in WAYS {
        let writers = Writers::start(server)?;
        let text = dump(cache, server, way);
        writers.stop(server)?;
        load(copy, &text?, "HOLDFAST", "InnoDB")?;
        writers::check_sums(copy)?;
        println!("ok      {}: under writers, it is of one moment", way.join(" "));
        there_and_back_again(cache, copy)?;
    }
    Ok(())
}

/// What the copy has on InnoDB, to Holdfast and back.
fn there_and_back_again(cache: &Cache, copy: &Server<'_>) -> anyhow::Result<()> {
    let text = dump(cache, copy, WAYS[0])?;
    load(copy, &text, "InnoDB", "HOLDFAST")?;
    there_and_back(cache, copy, WAYS[0])
}

/// Starts a replica on InnoDB from a dump made under writers. Returns how many loans it made after
/// that.
fn replica_from_dump(cache: &Cache, server: &Server<'_>, copy: &Server<'_>, way: &[&str]) -> anyhow::Result<u64> {
    let mut writers = Writers::start(server)?;
    let text = dump(cache, server, way).and_then(|text| writers.wait_for_more(server).map(|()| text));
    writers.stop(server)?;
    load(copy, &text?, "HOLDFAST", "InnoDB")?;
    writers::check_sums(copy)?;
    let (at_first, last) = (writers::loans(copy)?, writers::loans(server)?);
    ensure!(at_first < last, "nothing was written after the dump: it proves nothing");
    copy.query(&format!(
        "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {PORT}, master_user = 'repl', master_password = 'repl',
           master_use_gtid = slave_pos; START SLAVE"
    ))?;
    let position = server.query("SELECT @@gtid_binlog_pos")?;
    let waited = copy.query(&format!("SELECT MASTER_GTID_WAIT('{position}', {CATCH_UP})"))?;
    ensure!(waited == "0", "the replica does not catch up:\n{}", copy.query("SHOW SLAVE STATUS\\G")?);
    content(server)?.compare(&content(copy)?).with_context(|| format!("a replica from a dump by {way:?}"))?;
    Ok(last - at_first)
}

/// Runs a script of `mariadb/tests/dump` on Holdfast.
fn script(cache: &Cache, server: &Server<'_>, name: &str) -> anyhow::Result<()> {
    let text = fs::read_to_string(root().join("mariadb/tests/dump").join(name))?;
    let made = cache.path("dump").join(name);
    fs::write(&made, text.replace("$ENGINE", "HOLDFAST"))?;
    read_by_client(server, &made)
}

/// Dumps both schemas into a file.
fn dump(cache: &Cache, server: &Server<'_>, way: &[&str]) -> anyhow::Result<PathBuf> {
    let file = cache.path("dump/dump.sql");
    let output = server.dump_command().args(way).args(WHOLE).stdout(fs::File::create(&file)?).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && said.is_empty(), "mariadb-dump {}: {said}", way.join(" "));
    Ok(file)
}

/// Loads a dump of tables on the engine `from` into the engine `to`, in place of what is there.
fn load(server: &Server<'_>, dump: &Path, from: &str, to: &str) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let mut definitions = 0;
    for line in fs::read(dump)?.split_inclusive(|b| *b == b'\n') {
        // Rows are taken as they are, and they need not be text.
        if line.starts_with(b"INSERT INTO") {
            text.extend_from_slice(line);
        } else {
            let line = String::from_utf8_lossy(line);
            definitions += line.matches(from).count();
            let line = line.replace(&format!("ENGINE={from}"), &format!("ENGINE={to}"));
            // That of a partition.
            text.extend_from_slice(line.replace(&format!("ENGINE = {from}"), &format!("ENGINE = {to}")).as_bytes());
        }
    }
    ensure!(definitions > 0, "the dump has no tables on {from}");
    let file = dump.with_extension("loaded.sql");
    fs::write(&file, text)?;
    server.query("DROP DATABASE IF EXISTS library; DROP DATABASE IF EXISTS types")?;
    read_by_client(server, &file)
}

/// The client reads a file of statements; an error ends it.
fn read_by_client(server: &Server<'_>, file: &Path) -> anyhow::Result<()> {
    let mut client = server.client_command();
    client
        .args(["--binary-mode", "--default-character-set=utf8mb4"])
        .stdin(fs::File::open(file)?)
        .stdout(Stdio::null());
    let output = client.stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        bail!("{}: {}", file.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
