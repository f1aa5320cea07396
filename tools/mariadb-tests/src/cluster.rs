//! A node of a Galera cluster: a session that is to replicate what it does is refused wherever the
//! other nodes would lack rows of this engine.
//!
//! The cluster has one node. That is enough for the server to replicate.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::ensure;

use holdfast_server::{Cache, Server, apt};

const PORT: u16 = 13386;
/// Where the node would hear others; it takes the next port for itself, too.
const NODE_PORT: u16 = 13387;
/// How long the node may take to become a cluster.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tables of an engine that is replicated, and what the node has for itself.
const SCHEMA: &str = "
    CREATE DATABASE shop; USE shop;
    CREATE TABLE replicated (id INT PRIMARY KEY) ENGINE=InnoDB;
    SET SESSION wsrep_on = OFF;
    CREATE TABLE alone (id INT PRIMARY KEY) ENGINE=HOLDFAST;
    CREATE TABLE parts (id INT PRIMARY KEY) ENGINE=HOLDFAST PARTITION BY HASH (id) PARTITIONS 2;
    CREATE SEQUENCE numbers NOCACHE ENGINE=HOLDFAST;
    CREATE TABLE numbered (id INT DEFAULT NEXTVAL(numbers) PRIMARY KEY, a INT) ENGINE=InnoDB;
    INSERT INTO alone VALUES (1); INSERT INTO parts VALUES (1); DO NEXTVAL(numbers)";

/// What a session that replicates must not do.
const REFUSED: [&str; 14] = [
    "CREATE TABLE made (id INT PRIMARY KEY) ENGINE=HOLDFAST",
    "CREATE TABLE made (id INT PRIMARY KEY) ENGINE=HOLDFAST PARTITION BY HASH (id) PARTITIONS 2",
    "CREATE TABLE made ENGINE=HOLDFAST AS SELECT 1 AS id",
    "CREATE TABLE made LIKE alone",
    "ALTER TABLE replicated ENGINE=HOLDFAST",
    "ALTER TABLE alone ADD COLUMN a INT, ALGORITHM=COPY",
    "ALTER TABLE parts ADD PARTITION PARTITIONS 1",
    "INSERT INTO alone VALUES (2)",
    "UPDATE parts SET id = 2",
    "DELETE FROM alone",
    "SELECT NEXTVAL(numbers)",
    "SELECT SETVAL(numbers, 100)",
    "INSERT INTO numbered (a) VALUES (1)",
    "INSERT INTO replicated SELECT NEXTVAL(numbers)",
];
const REASON: &str = "Holdfast: a cluster does not replicate rows of this engine";

/// The server's words about the file of partitions, which it removes though it did not make it.
const PARTITIONS_FILE: &str = ".par'";

/// What stays as it is through all that is refused.
const STATE: &str = "
    SELECT table_name, engine FROM information_schema.tables WHERE table_schema = 'shop' ORDER BY 1;
    SELECT * FROM alone; SELECT * FROM parts; SELECT next_not_cached_value FROM numbers;
    SELECT COUNT(*) FROM replicated; SELECT COUNT(*) FROM numbered";

/// What such a session may do, and the answer.
const ALLOWED: [(&str, &str); 3] = [
    ("INSERT INTO replicated VALUES (1); SELECT * FROM replicated", "1"),
    (
        "CREATE TEMPORARY TABLE own (id INT PRIMARY KEY) ENGINE=HOLDFAST; INSERT INTO own VALUES (1); \
         UPDATE own SET id = 2; SELECT * FROM own",
        "2",
    ),
    (
        "SET SESSION wsrep_on = OFF; INSERT INTO alone VALUES (2); SELECT COUNT(*) FROM alone; SELECT NEXTVAL(numbers)",
        "2\n2",
    ),
];

/// Starts the node, asks, stops it again.
pub fn run(cache: &Cache) -> anyhow::Result<()> {
    let provider = apt::fetch_galera(cache)?;
    let node = Server::new(cache, "cluster").bound_to_us();
    let options = [
        "--wsrep-on=ON".to_string(),
        format!("--wsrep-provider={}", provider.display()),
        format!(
            "--wsrep-provider-options=base_port={NODE_PORT};gmcast.listen_addr=tcp://127.0.0.1:{NODE_PORT};\
             gcache.size=10M"
        ),
        "--wsrep-cluster-address=gcomm://".to_string(),
        "--wsrep-node-address=127.0.0.1".to_string(),
        "--binlog-format=ROW".to_string(),
        "--innodb-autoinc-lock-mode=2".to_string(),
    ];
    node.up(PORT, true, &options)?;
    let result = asked(&node);
    if result.is_err() {
        println!("log of the server:\n{}", node.log_tail());
    }
    node.down()?;
    result
}

fn asked(node: &Server<'_>) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !node.query("SHOW STATUS LIKE 'wsrep_ready'")?.ends_with("ON") {
        ensure!(begun.elapsed() < PATIENCE, "the node does not become a cluster");
        sleep(Duration::from_millis(100));
    }
    node.query(SCHEMA)?;
    let in_schema = |statements: &str| node.query(&format!("USE shop; {statements}"));
    let before = in_schema(STATE)?;
    for statement in REFUSED {
        let error = in_schema(statement).err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(error.contains(REASON), "`{statement}` of a session that replicates ends with `{error}`");
        let said = conditions(node, statement)?;
        let engine_said: Vec<_> = said.iter().filter(|line| !line.contains(PARTITIONS_FILE)).collect();
        ensure!(engine_said.len() == 1, "`{statement}` of a session that replicates leaves {engine_said:?}");
    }
    let after = in_schema(STATE)?;
    ensure!(before == after, "what was refused has changed something: {before}\nbecame\n{after}");
    println!("ok      {} statements of a session that replicates are refused", REFUSED.len());
    for (statements, answer) in ALLOWED {
        let found = in_schema(statements)?;
        ensure!(found == answer, "`{statements}` answers `{found}`, not `{answer}`");
    }
    println!("ok      temporary tables are its own, and sessions without wsrep_on write");
    Ok(())
}

/// What `SHOW WARNINGS` lists after a statement that fails.
fn conditions(node: &Server<'_>, statement: &str) -> anyhow::Result<Vec<String>> {
    let sql = format!("USE shop; {statement}; SHOW WARNINGS");
    // Before `-e` the client does not take it.
    let output = node.client_command().args(["--batch", "--skip-column-names", "-e", &sql, "--force"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect())
}
