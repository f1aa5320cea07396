//! The backup test: a server is backed up while transactions run, and the copy is restored into
//! another server.
//!
//! Every transaction adds a row to two tables, so a copy that is not of one moment is found. The
//! copy must contain all that was committed before the backup began, and it must be a database that
//! takes further changes. The restore is the one of the user's guide: a new data directory, into
//! which the backup is copied.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, bail, ensure};

use holdfast_server::Cache;
use holdfast_server::Server;

const PORT: u16 = 13319;
/// The folder of the database, with a slash at the end.
const FOLDER: &str = "--holdfast-data-home-dir=shelf/";
/// As a server with replicas has it.
const BINARY_LOG: [&str; 2] = ["--log-bin=log", "--sync-binlog=1"];
/// The file that says that the database is a copy.
const MARK: &str = "shelf/copied-while-in-use";

const SCHEMA: &str = "
    CREATE DATABASE shop; CREATE DATABASE `odd-name`; USE shop;
    CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, amount INT, note VARCHAR(200), KEY (amount)) ENGINE=HOLDFAST;
    CREATE TABLE ledger (id BIGINT AUTO_INCREMENT PRIMARY KEY, amount INT) ENGINE=HOLDFAST;
    CREATE TABLE parts (id INT PRIMARY KEY, doc LONGTEXT) ENGINE=HOLDFAST PARTITION BY HASH (id) PARTITIONS 3;
    CREATE TABLE `odd-name`.`a.b` (id INT PRIMARY KEY) ENGINE=HOLDFAST;
    CREATE TABLE elsewhere (id INT) ENGINE=InnoDB;
    INSERT INTO parts SELECT seq, REPEAT(seq, 5000) FROM seq_1_to_300;
    INSERT INTO `odd-name`.`a.b` SELECT seq FROM seq_1_to_100;
    INSERT INTO orders (amount, note) SELECT seq, REPEAT('n', seq % 200) FROM seq_1_to_20000;
    INSERT INTO ledger (amount) SELECT amount FROM orders";

/// Never ends by itself.
const TRADE: &str = "CREATE PROCEDURE shop.trade() BEGIN
      DECLARE n INT DEFAULT 0;
      LOOP
        SET n = n + 1;
        START TRANSACTION;
        INSERT INTO orders (amount, note) VALUES (n, 'traded');
        UPDATE orders SET note = 'changed' WHERE id = n;
        INSERT INTO ledger (amount) VALUES (n);
        COMMIT;
      END LOOP;
    END";

/// What does not change while the backup runs.
const STILL: &str = "CHECKSUM TABLE shop.parts, `odd-name`.`a.b`; SHOW CREATE TABLE shop.parts";
const COUNTS: &str = "SELECT (SELECT COUNT(*) FROM shop.orders), (SELECT COUNT(*) FROM shop.ledger),
    (SELECT SUM(amount) FROM shop.orders) = (SELECT SUM(amount) FROM shop.ledger)";

/// Backs up, restores, compares.
pub fn run(cache: &Cache) -> anyhow::Result<()> {
    let server = Server::new(cache, "backup/server").bound_to_us();
    // Pages are evicted and the log goes round while the copy is made. With a binary log, whose
    // sync takes its time, a transaction is prepared at most moments.
    let small = ["--holdfast-buffer-pool-size=5M", "--holdfast-log-file-size=8M"];
    let options: Vec<String> = [FOLDER].iter().chain(&small).chain(&BINARY_LOG).map(|o| (*o).to_owned()).collect();
    server.up(PORT, true, &options)?;
    let copy = cache.path("backup/copy");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    let listed = server.query("SHOW DATABASES")?;
    ensure!(!listed.contains("shelf"), "the folder of the database is listed as a schema");
    server.query(SCHEMA)?;
    let made = server.client_command().args(["--delimiter=//", "-e", TRADE]).status()?;
    ensure!(made.success(), "the procedure could not be created");
    let mut traders = [trader(&server)?, trader(&server)?];
    let made = back_up(&server, &copy).and_then(|made| killed(&server, &cache.path("backup/killed")).map(|()| made));
    for trader in &mut traders {
        trader.kill()?;
        trader.wait()?;
    }
    let (before, still) = made?;
    let last = counts(&server.query(COUNTS)?)?;
    server.down()?;
    ensure!(last > before, "nothing was committed while the backup ran: it proves nothing");
    ensure!(!copy.join("shop/elsewhere.frm").exists(), "the backup has a table of another engine");
    ensure!(copy.join("shelf/holdfast.meta").exists(), "the copy of the database has not the name of its folder");

    let restored = Server::new(cache, "backup/restored").bound_to_us();
    let options: Vec<String> = [FOLDER].iter().chain(&BINARY_LOG).map(|o| (*o).to_owned()).collect();
    restored.up(PORT, true, &options)?;
    restored.down()?;
    restored.put_into_data(&copy)?;
    ensure!(restored.data_dir().join(MARK).exists(), "nothing says that the database is a copy");
    restored.up(PORT, false, &options)?;
    let result = compare(&restored, before, last, &still);
    if result.is_err() {
        println!("log of the server:\n{}", restored.log_tail());
    }
    ensure!(!restored.data_dir().join(MARK).exists(), "what has become a server's own is a copy still");
    restored.down()?;
    result
}

fn trader(server: &Server<'_>) -> anyhow::Result<Child> {
    let mut client = server.client_command();
    client.args(["-e", "CALL trade()", "shop"]).stdout(Stdio::null()).stderr(Stdio::null());
    client.spawn().context("the client could not be started")
}

/// Rows that the backup has to have at least, and what stays as it is.
fn back_up(server: &Server<'_>, copy: &Path) -> anyhow::Result<(u64, String)> {
    let still = server.query(STILL)?;
    let before = counts(&server.query(COUNTS)?)?;
    server.query(&format!(
        "BACKUP STAGE START; BACKUP STAGE BLOCK_DDL; SET GLOBAL holdfast_backup_dir = '{}'; BACKUP STAGE END",
        copy.display()
    ))?;
    let refused = server.query(&format!("SET GLOBAL holdfast_backup_dir = '{}'", copy.display()));
    let error = refused.err().map(|e| e.to_string()).unwrap_or_default();
    ensure!(error.contains("File exists"), "a second backup into the same directory: `{error}`");
    Ok((before, still))
}

/// A backup that would take hours ends when it is killed, and at the end of its time.
fn killed(server: &Server<'_>, dir: &Path) -> anyhow::Result<()> {
    const FIND: &str =
        "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SET GLOBAL holdfast_backup_dir%'";
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    server.query("SET GLOBAL holdfast_backup_rate_limit = 1000")?;
    let mut client = server.client_command();
    client.args(["-e", &format!("SET GLOBAL holdfast_backup_dir = '{}'", dir.display())]);
    let mut client = client.stderr(Stdio::piped()).spawn().context("the client could not be started")?;
    let mut session = String::new();
    while session.is_empty() {
        ensure!(client.try_wait()?.is_none(), "a backup that would take hours has ended");
        session = server.query(FIND)?;
    }
    server.query(&format!("KILL QUERY {session}"))?;
    let error = String::from_utf8_lossy(&client.wait_with_output()?.stderr).into_owned();
    ensure!(error.contains("interrupted"), "a backup was killed, and said `{error}`");
    fs::remove_dir_all(dir)?;
    let timed_out =
        server.query(&format!("SET max_statement_time = 1; SET GLOBAL holdfast_backup_dir = '{}'", dir.display()));
    let error = timed_out.err().map(|e| e.to_string()).unwrap_or_default();
    ensure!(error.contains("max_statement_time exceeded"), "a backup whose time was over said `{error}`");
    server.query("SET GLOBAL holdfast_backup_rate_limit = DEFAULT").map(drop)
}

fn compare(restored: &Server<'_>, before: u64, last: u64, still: &str) -> anyhow::Result<()> {
    let found = counts(&restored.query(COUNTS)?)?;
    ensure!((before..=last).contains(&found), "the backup has {found} rows, not {before} to {last}");
    ensure!(restored.query(STILL)? == still, "tables that were not changed are not what they were");
    restored.query("INSERT INTO shop.orders (amount) VALUES (1); INSERT INTO shop.ledger (amount) VALUES (1)")?;
    ensure!(counts(&restored.query(COUNTS)?)? == found + 1, "a row does not go in");
    println!("ok      a backup of {found} rows, made while {before} became {last}, restored");
    Ok(())
}

/// Rows of both tables, which must be equal.
fn counts(line: &str) -> anyhow::Result<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [orders, ledger, "1"] = fields[..] else { bail!("rows and sums are not equal: {line}") };
    ensure!(orders == ledger, "there are {orders} orders and {ledger} in the ledger");
    orders.parse().context("a number of rows")
}
