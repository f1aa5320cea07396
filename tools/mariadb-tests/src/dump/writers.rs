//! Sessions that write while a dump is made (`mariadb/tests/dump/writers.sql`), and the invariant
//! of their transactions.

use std::process::{Child, Stdio};

use anyhow::{Context, ensure};

use holdfast_server::Server;

const SESSIONS: u32 = 3;
/// Loans that count as load.
const SOME: u64 = 200;

/// Sessions that run.
pub struct Writers {
    clients: Vec<Child>,
}

impl Writers {
    /// Starts them, and waits until they have written something.
    pub fn start(server: &Server<'_>) -> anyhow::Result<Writers> {
        server.query("SET sql_log_bin = 0; UPDATE control.run SET go = TRUE")?;
        let start = |session| {
            let mut client = server.client_command();
            client.args(["-e", &format!("CALL control.work({session})")]);
            client.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("the client could not be started")
        };
        let mut writers = Writers { clients: (1..=SESSIONS).map(start).collect::<anyhow::Result<_>>()? };
        writers.wait_for_more(server)?;
        Ok(writers)
    }

    /// Waits until there are more loans than there were.
    pub fn wait_for_more(&mut self, server: &Server<'_>) -> anyhow::Result<()> {
        let at_first = loans(server)?;
        while loans(server)? < at_first + SOME {
            for client in &mut self.clients {
                ensure!(client.try_wait()?.is_none(), "a writer has ended");
            }
        }
        Ok(())
    }

    /// Tells them to stop, and waits until they have.
    pub fn stop(self, server: &Server<'_>) -> anyhow::Result<()> {
        server.query("SET sql_log_bin = 0; UPDATE control.run SET go = FALSE")?;
        for client in self.clients {
            let output = client.wait_with_output()?;
            ensure!(output.status.success(), "a writer failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}

/// How many there are.
pub fn loans(server: &Server<'_>) -> anyhow::Result<u64> {
    server.query("SELECT COUNT(*) FROM library.loan")?.parse().context("a number of rows")
}

/// Holds at every moment between transactions, and in no mixture of two moments: payments move
/// money from people to the till, each loan is in the journal, and counted at its copy.
pub fn check_sums(server: &Server<'_>) -> anyhow::Result<()> {
    let sums = server.query(
        "SELECT (SELECT COUNT(*) FROM library.person p
                 WHERE balance <> 100 - COALESCE((SELECT SUM(amount) FROM library.payment WHERE person_id = p.person_id), 0)),
                (SELECT SUM(amount) FROM library.till) - (SELECT SUM(amount) FROM library.payment),
                (SELECT SUM(loans) FROM library.copy) - (SELECT COUNT(*) FROM library.loan),
                (SELECT COUNT(*) FROM library.journal WHERE what = 'loan') - (SELECT COUNT(*) FROM library.loan)",
    )?;
    ensure!(sums == "0\t0.00\t0\t0", "a mixture of moments: {sums}");
    Ok(())
}
