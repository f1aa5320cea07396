//! Random changes of a table's definition and rows, the same on this engine and on InnoDB. The
//! contents of the tables are compared again and again.
//!
//! A table lives for 250 steps. Columns are added, dropped, moved and renamed and get other types,
//! indexes are added and dropped, rows are changed, transactions rolled back. A change that this
//! engine can make instantly has to be instant. At random steps the server is killed and started
//! again. A seed determines all steps.

mod table;

use anyhow::{Context, ensure};
use holdfast_server::{Cache, Server};
use holdfast_workload::rng::Rng;

use self::table::{Statement, Table};
use super::stories::{Stories, Story, same_on_both};

const STORIES: Stories = Stories {
    name: "alters",
    options: &["--sql-mode=", "--holdfast-flush-log-at-trx-commit=1"],
    // Few enough that a table never has to be copied because its rows have too many layouts.
    steps: 250,
    steps_between_kills: 500,
    counted: "changes of columns at once",
};

#[derive(clap::Args)]
pub struct Options {
    /// How many
    #[arg(default_value_t = 2000)]
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
        let (table, create) = Table::create(rng);
        Altered { table, statements: vec![create], told: 0 }
    })
}

/// The story of a table.
struct Altered {
    table: Table,
    statements: Vec<Statement>,
    /// How many of them have been carried out.
    told: usize,
}

impl Story for Altered {
    fn step(&mut self, rng: &mut Rng) {
        self.statements.push(self.table.step(rng));
    }

    fn look(&mut self, server: &Server<'_>) -> anyhow::Result<()> {
        self.compare(server).with_context(|| {
            let lines: Vec<_> = self.statements.iter().map(|statement| statement.on("HOLDFAST")).collect();
            format!("the table so far:\n{}", lines.join("\n"))
        })?;
        self.told = self.statements.len();
        Ok(())
    }

    /// How often its columns were changed at once.
    fn end(self) -> u64 {
        self.statements.iter().filter(|statement| statement.is_instant).count() as u64
    }
}

impl Altered {
    fn compare(&self, server: &Server<'_>) -> anyhow::Result<()> {
        same_on_both(|engine, schema| {
            let statements: String =
                self.statements[self.told..].iter().map(|statement| statement.on(engine)).collect();
            server.query(&format!("USE {schema};\n{statements}{}", self.table.questions()))
        })?;
        let checked = server.query("CHECK TABLE holdfast.t EXTENDED")?;
        ensure!(checked.ends_with("status\tOK"), "{checked}");
        Ok(())
    }
}
