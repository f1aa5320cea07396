//! Spider: tables in two parts on two servers with this engine, behind a third server, answer like
//! the same tables in one part.
//!
//! Each statement of `mariadb/tests/spider/statements.sql` runs on the third server, in a schema
//! with tables of its own and in one with Spider tables over the two parts. Results, errors
//! included, must be equal, and so must the checksums at the end. Then transactions over both parts
//! are prepared and committed, one of them after a kill of one server.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use holdfast_server::run::root;
use holdfast_server::{Cache, Server, apt};

/// How long a statement may take to be carried out.
const PATIENCE: Duration = Duration::from_secs(60);

const FRONT_PORT: u16 = 13356;
const PART_PORT: u16 = 13357;
/// Of the loopback device. Spider tells the members of a transaction apart by their hosts alone.
const PART_HOSTS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// A transaction that touches both parts commits in both or in none.
const FRONT: [&str; 3] =
    ["--plugin-load-add=ha_spider.so", "--spider-internal-xa=ON", "--holdfast-buffer-pool-size=8M"];

/// Runs it; stops all servers again.
pub fn run(cache: &Cache) -> anyhow::Result<()> {
    apt::fetch_spider(cache)?;
    let server = |name| Server::new(cache, name).bound_to_us();
    let (front, parts) = (server("spider/front"), ["spider/part1", "spider/part2"].map(server));
    for (part, host) in parts.iter().zip(PART_HOSTS) {
        part.up(PART_PORT, true, &part_options(host))?;
    }
    front.up(FRONT_PORT, true, &FRONT.map(String::from))?;
    let result = compared(&front, &parts);
    if result.is_err() {
        println!("logs:\n{}\n{}\n{}", front.log_tail(), parts[0].log_tail(), parts[1].log_tail());
    }
    for server in [&front, &parts[0], &parts[1]] {
        server.down()?;
    }
    result
}

fn compared(front: &Server<'_>, parts: &[Server<'_>; 2]) -> anyhow::Result<()> {
    create(front, parts)?;
    compare(front, parts)?;
    prepared(front, parts)?;
    killed(front, parts)
}

fn part_options(host: &str) -> Vec<String> {
    ["--holdfast-buffer-pool-size=8M", "--holdfast-flush-log-at-trx-commit=1"]
        .map(String::from)
        .into_iter()
        .chain([format!("--bind-address={host}")])
        .collect()
}

/// Creates the tables in all three places: whole and behind Spider on the front server, in parts on
/// the others.
fn create(front: &Server<'_>, parts: &[Server<'_>; 2]) -> anyhow::Result<()> {
    let schema = fs::read_to_string(root().join("mariadb/tests/spider/schema.sql"))?;
    let on_holdfast = schema.replace(");", ") ENGINE=HOLDFAST;");
    for part in parts {
        part.query(
            "CREATE USER spider@'%' IDENTIFIED BY 'spider'; GRANT ALL ON *.* TO spider@'%'; CREATE DATABASE part",
        )?;
        part.query(&format!("USE part; {on_holdfast}"))?;
    }
    for (n, host) in PART_HOSTS.iter().enumerate() {
        front.query(&format!(
            "CREATE SERVER part{n} FOREIGN DATA WRAPPER mysql
               OPTIONS (HOST '{host}', PORT {PART_PORT}, USER 'spider', PASSWORD 'spider', DATABASE 'part')"
        ))?;
    }
    let mut on_spider = String::new();
    for definition in schema.split_inclusive(");") {
        let Some(table) = definition.trim_start().strip_prefix("CREATE TABLE ").and_then(|d| d.split(' ').next())
        else {
            continue;
        };
        let key = if table == "account" { "id" } else { "account" };
        let split = format!(
            ") ENGINE=SPIDER COMMENT='wrapper \"mysql\", table \"{table}\"' PARTITION BY HASH ({key})
               (PARTITION p0 COMMENT='srv \"part0\"', PARTITION p1 COMMENT='srv \"part1\"');"
        );
        on_spider += &definition.replace(");", &split);
    }
    front.query(&format!(
        "CREATE DATABASE whole; CREATE DATABASE sharded; USE whole; {on_holdfast} USE sharded; {on_spider}"
    ))?;
    Ok(())
}

fn compare(front: &Server<'_>, parts: &[Server<'_>; 2]) -> anyhow::Result<()> {
    let (whole, sharded) = (statements(front, "whole")?, statements(front, "sharded")?);
    let mut differences = Vec::new();
    for (ours, theirs) in whole.split("--------------").zip(sharded.split("--------------")) {
        if ours != theirs {
            differences.push(format!("whole:{ours}\nsharded:{theirs}"));
        }
    }
    ensure!(whole == sharded, "{} differences:\n{}", differences.len().max(1), differences.join("\n"));
    println!("ok      {} lines of results are equal", whole.lines().count());
    checksums(front, parts)
}

/// What the client says to the statements, errors included.
fn statements(front: &Server<'_>, schema: &str) -> anyhow::Result<String> {
    let script = fs::File::open(root().join("mariadb/tests/spider/statements.sql"))?;
    let mut client = front.client_command();
    // Without the number of rows that a statement changed: Spider does not count rows that it
    // deletes, with any engine.
    client.args(["--force", "--table", "--column-names", "-v", schema]);
    let output = client.stdin(script).stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(format!("{out}--------------{err}"))
}

/// The same rows, of which each part has some.
fn checksums(front: &Server<'_>, parts: &[Server<'_>; 2]) -> anyhow::Result<()> {
    for table in ["account", "movement"] {
        let sum = |schema: &str| {
            front.query(&format!("CHECKSUM TABLE {schema}.{table} EXTENDED")).map(|s| s.replace(schema, ""))
        };
        let (whole, sharded) = (sum("whole")?, sum("sharded")?);
        ensure!(whole == sharded, "the table that is whole: {whole}; in parts: {sharded}");
        let rows = front.query(&format!("SELECT COUNT(*) FROM whole.{table}"))?.parse::<u64>()?;
        let mut in_parts = Vec::new();
        for part in parts {
            in_parts.push(part.query(&format!("SELECT COUNT(*) FROM part.{table}"))?.parse::<u64>()?);
            let check = part.query(&format!("CHECK TABLE part.{table} EXTENDED"))?;
            ensure!(check.ends_with("status\tOK"), "{check}");
        }
        ensure!(in_parts.iter().sum::<u64>() == rows, "{table} has {rows} rows, in parts {in_parts:?}");
        ensure!(in_parts.iter().all(|n| *n > 0), "{table} is all in one part: {in_parts:?}");
        println!("ok     {whole}, {in_parts:?} rows in the parts");
    }
    Ok(())
}

/// Takes from account 401, which is in one part, and gives to 402, which is in the other.
const PREPARE: &str = "XA START 'kept'; UPDATE sharded.account SET balance = balance - 1.5 WHERE id = 401;
    UPDATE sharded.account SET balance = balance + 1.5 WHERE id = 402; XA END 'kept'; XA PREPARE 'kept';\n";

/// A transaction is prepared in both parts, and committed.
fn prepared(front: &Server<'_>, parts: &[Server<'_>; 2]) -> anyhow::Result<()> {
    let before = balances(front)?;
    let mut session = front.client_command().stdin(Stdio::piped()).spawn()?;
    let mut statements = session.stdin.take().context("the client has a standard input")?;
    statements.write_all(PREPARE.as_bytes())?;
    statements.flush()?;
    let begun = Instant::now();
    for part in parts {
        while part.query("XA RECOVER")?.is_empty() {
            ensure!(session.try_wait()?.is_none() && begun.elapsed() < PATIENCE, "nothing was prepared");
        }
    }
    ensure!(balances(front)? == before, "what is only prepared is seen");
    statements.write_all(b"XA COMMIT 'kept';\n")?;
    drop(statements);
    ensure!(session.wait()?.success(), "the transaction was not committed");
    let after = balances(front)?;
    ensure!(
        after.0 < before.0 && after.1 > before.1 && after.0 + after.1 == before.0 + before.1,
        "{before:?}, {after:?}"
    );
    println!("ok      a transaction prepared in both parts is committed in both");
    Ok(())
}

/// A prepared transaction outlives its session and the kill of a part. The administrator ends it
/// then: Spider lists the parts in `mysql.spider_xa_member`, but does not commit what another
/// session has prepared, with any engine.
fn killed(front: &Server<'_>, parts: &[Server<'_>; 2]) -> anyhow::Result<()> {
    let before = balances(front)?;
    front.query(PREPARE)?;
    let listed = front.query("SELECT COUNT(DISTINCT host) FROM mysql.spider_xa_member WHERE data LIKE 'kept%'")?;
    ensure!(listed == "2", "Spider knows {listed} parts");
    parts[1].kill()?;
    parts[1].up(PART_PORT, false, &part_options(PART_HOSTS[1]))?;
    for part in parts {
        let listed = part.query("XA RECOVER")?;
        ensure!(listed.lines().count() == 1, "a part has no prepared transaction, or too many: `{listed}`");
        part.query("XA COMMIT 'kept'")?;
    }
    let after = balances(front)?;
    ensure!(
        after.0 < before.0 && after.1 > before.1 && after.0 + after.1 == before.0 + before.1,
        "{before:?}, {after:?}"
    );
    println!("ok      a transaction prepared in both parts outlives its session and the death of one part");
    Ok(())
}

/// Of accounts 401 and 402, in cents.
fn balances(front: &Server<'_>) -> anyhow::Result<(i64, i64)> {
    let text =
        front.query("SELECT CAST(balance * 100 AS SIGNED) FROM sharded.account WHERE id IN (401, 402) ORDER BY id")?;
    let (first, second) = text.split_once('\n').context("two accounts")?;
    Ok((first.parse()?, second.parse()?))
}
