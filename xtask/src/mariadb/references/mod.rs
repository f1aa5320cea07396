//! Random rows in tables that refer to each other, the same on this engine and on InnoDB: both have
//! to refuse the same rows and to carry out the same actions.
//!
//! A few tables with FOREIGN KEYs of all actions, to each other and to themselves, live for 400
//! steps. Rows are inserted, deleted and changed, transactions are rolled back, references, indexes
//! and names change. The comparison is of whether a row is refused, not for which of several
//! reasons. At random steps the server is killed and started again. A seed determines all steps.

mod schema;

use std::io::Write;
use std::process::Stdio;

use anyhow::{Context, ensure};
use holdfast_server::{Cache, Server};
use holdfast_workload::rng::Rng;

use self::schema::Schema;
use super::stories::{Stories, Story, same_on_both};

const STORIES: Stories = Stories {
    name: "references",
    options: &["--holdfast-flush-log-at-trx-commit=1"],
    steps: 400,
    steps_between_kills: 1000,
    counted: "refused",
};

#[derive(clap::Args)]
pub struct Options {
    /// How many
    #[arg(default_value_t = 4000)]
    steps: u64,
    /// Names what happens
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// As much of it as takes a few seconds.
pub fn short(cache: &Cache) -> anyhow::Result<()> {
    run(cache, &Options { steps: STORIES.steps, seed: 1 })
}

/// Runs it; stops the server again.
pub fn run(cache: &Cache, options: &Options) -> anyhow::Result<()> {
    STORIES.run(cache, options.steps, options.seed, |rng| {
        let (schema, statements) = Schema::create(rng);
        Referring { schema, statements, told: 0, refused: 0 }
    })
}

/// The story of a schema.
struct Referring {
    schema: Schema,
    statements: Vec<String>,
    /// How many of them have been carried out.
    told: usize,
    refused: u64,
}

impl Story for Referring {
    fn step(&mut self, rng: &mut Rng) {
        self.statements.push(self.schema.step(rng));
    }

    fn look(&mut self, server: &Server<'_>) -> anyhow::Result<()> {
        // What happens between two looks is one transaction at most.
        self.statements.push("COMMIT".into());
        self.refused += self.compare(server).with_context(|| {
            format!("the tables so far:\n{};", self.statements.join(";\n").replace("$ENGINE", "HOLDFAST"))
        })?;
        self.told = self.statements.len();
        Ok(())
    }

    /// How many of its statements were refused.
    fn end(self) -> u64 {
        self.refused
    }
}

impl Referring {
    /// How many of the new statements were refused, by both.
    fn compare(&self, server: &Server<'_>) -> anyhow::Result<u64> {
        let said = same_on_both(|engine, schema| {
            let statements = self.statements[self.told..].join(";\n").replace("$ENGINE", engine);
            answers(server, &format!("USE {schema};\n{statements};\n{}", self.schema.questions()))
        })?;
        let checked = server.query(&format!("USE holdfast; CHECK TABLE {} EXTENDED", self.schema.tables()))?;
        ensure!(checked.lines().all(|line| line.ends_with("status\tOK")), "{checked}");
        Ok(said.lines().filter(|line| line.starts_with("refused")).count() as u64)
    }
}

/// What the client prints, and which lines were refused.
fn answers(server: &Server<'_>, sql: &str) -> anyhow::Result<String> {
    let mut client = server.client_command();
    client.args(["--force", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn()?;
    child.stdin.take().context("the client has a standard input")?.write_all(sql.as_bytes())?;
    let output = child.wait_with_output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let refused: Vec<_> =
        err.lines().filter(|line| line.starts_with("ERROR")).map(refusal).collect::<anyhow::Result<_>>()?;
    Ok(format!("{}\n{out}", refused.join("\n")))
}

/// The number of the line that was refused.
fn refusal(error: &str) -> anyhow::Result<String> {
    let lost = ["ERROR 2006", "ERROR 2013", "ERROR 1205", "ERROR 1213", "ERROR 1064", "ERROR 1030"];
    ensure!(!lost.iter().any(|code| error.starts_with(code)), "{error}");
    let line = error
        .split_once(" at line ")
        .and_then(|(_, rest)| rest.split_once(':'))
        .with_context(|| format!("no error of a statement: {error}"))?
        .0;
    Ok(format!("refused {line}"))
}
