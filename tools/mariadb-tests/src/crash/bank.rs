//! The bank: its tables, and the movements of its sessions.

use anyhow::bail;
use holdfast_server::Server;

/// Where the server listens.
pub const PORT: u16 = 13326;
pub const ACCOUNTS: u64 = 200;
/// Rows of the table that gets indexes: so many that a kill meets an index that is half built.
pub const INDEXED: u64 = 20_000;
/// The tables of the bank.
pub const BANK: &str = "crash.accounts, crash.ledger, crash.slips, crash.parts";
/// Movements of a session whose slips are kept.
pub const SLIPS: u64 = 10;
/// Parts of a slip.
pub const PARTS: usize = 2;

/// Makes the tables of the bank. Each names its engine: a replica has a default of its own.
pub fn tables(engine: &str) -> String {
    format!(
        "CREATE DATABASE crash; USE crash;
         CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL, note VARCHAR(200), KEY (balance)) ENGINE={engine};
         CREATE TABLE ledger (session INT, n BIGINT, source INT NOT NULL, target INT NOT NULL, amount INT NOT NULL,
                              PRIMARY KEY (session, n), KEY (source), KEY (target),
                              FOREIGN KEY (source) REFERENCES accounts (id),
                              FOREIGN KEY (target) REFERENCES accounts (id)) ENGINE={engine};
         CREATE TABLE slips (session INT, n BIGINT, PRIMARY KEY (session, n)) ENGINE={engine};
         CREATE TABLE parts (session INT, n BIGINT, part INT, PRIMARY KEY (part, session, n), KEY (session, n),
                             FOREIGN KEY (session, n) REFERENCES slips (session, n)
                               ON DELETE CASCADE ON UPDATE CASCADE) ENGINE={engine};
         CREATE TABLE indexed (id INT PRIMARY KEY, a INT NOT NULL, name VARCHAR(60) NOT NULL) ENGINE={engine};
         INSERT INTO accounts SELECT seq, 1000, REPEAT('x', seq MOD 200) FROM seq_1_to_{ACCOUNTS};
         INSERT INTO indexed SELECT seq, seq MOD 100, CONCAT(seq * 7919 MOD 100003, ' name') FROM seq_1_to_{INDEXED};"
    )
}

/// The statements of one movement. They change accounts in ascending order, so that no transaction
/// is the victim of a deadlock.
fn changes(session: usize, n: u64) -> String {
    let random = (n * 7919 + session as u64 * 104_729) % 1_000_003;
    let (source, target, amount) = (random % ACCOUNTS + 1, random / ACCOUNTS % ACCOUNTS + 1, random % 90 + 1);
    let mut moves = [(source, format!("- {amount}")), (target, format!("+ {amount}"))];
    moves.sort();
    let mut sql = String::new();
    for (account, by) in moves {
        sql += &format!(
            "UPDATE accounts SET balance = balance {by}, note = REPEAT('{session}', {}) WHERE id = {account};\n",
            random % 200
        );
    }
    sql += &format!("INSERT INTO ledger VALUES ({session}, {n}, {source}, {target}, {amount});\n");
    sql + &slip(session, n)
}

/// The slip of a movement: it gets its number when it has its parts, and an old one is thrown away.
fn slip(session: usize, n: u64) -> String {
    let parts: Vec<_> = (0..PARTS).map(|part| format!("({session}, -{n}, {part})")).collect();
    format!(
        "INSERT INTO slips VALUES ({session}, -{n});
         INSERT INTO parts VALUES {};
         UPDATE slips SET n = {n} WHERE session = {session} AND n = -{n};
         DELETE FROM slips WHERE session = {session} AND n + {SLIPS} = {n};\n",
        parts.join(", ")
    )
}

/// One movement of a session, as statements.
pub fn movement(session: usize, n: u64) -> String {
    format!("BEGIN;\n{}COMMIT;\nSELECT 'committed {n}';\n", changes(session, n))
}

/// One movement of a session, as an XA transaction.
pub fn xa_movement(session: usize, n: u64) -> String {
    let changes = changes(session, n);
    format!(
        "XA START 'm{n}';\n{changes}XA END 'm{n}';\nXA PREPARE 'm{n}';\nSELECT 'prepared {n}';\nXA COMMIT 'm{n}';\n\
         SELECT 'committed {n}';\n"
    )
}

/// Executes statements; what the client prints.
pub fn execute(server: &Server<'_>, sql: &str) -> anyhow::Result<String> {
    let mut client = server.client_command();
    let output = client.args(["--batch", "--skip-column-names", "-e", sql]).output()?;
    if !output.status.success() {
        bail!("{sql}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
