//! Random changes of a table's definition and rows, the same on this engine and on InnoDB, and what is in the tables compared again and again.
//!
//! A table lives for [`STEPS_OF_A_TABLE`] steps. Columns come, go, move and change their names and what they may be, indexes come and go, rows are changed, transactions rolled
//! back. Where this engine can make a change at once it has to. Now and then the server is killed and comes up again. A seed names all that happens.

mod table;

use anyhow::{Context, ensure};
use holdfast_server::{Cache, Server};
use holdfast_workload::rng::Rng;

use self::table::{Statement, Table};

const PORT: u16 = 13336;
/// Few enough that a table never has to be copied because its rows have too many layouts.
const STEPS_OF_A_TABLE: u64 = 250;
const STEPS_BETWEEN_LOOKS: u64 = 10;
const STEPS_BETWEEN_KILLS: u64 = 500;
const UP: [&str; 2] = ["--sql-mode=", "--holdfast-flush-log-at-trx-commit=1"];

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
    run(cache, &Options { steps: STEPS_OF_A_TABLE, seed: 1 })
}

/// Runs it; stops the server again.
pub fn run(cache: &Cache, options: &Options) -> anyhow::Result<()> {
    let server = Server::new(cache, "alters").bound_to_us();
    server.up(PORT, true, &UP.map(String::from))?;
    let result = tables(&server, options).with_context(|| format!("seed {}", options.seed));
    match &result {
        Ok(()) => server.down()?,
        Err(_) => println!("log of the server:\n{}", server.log_tail()),
    }
    result
}

fn tables(server: &Server<'_>, options: &Options) -> anyhow::Result<()> {
    server.query("CREATE DATABASE holdfast; CREATE DATABASE innodb")?;
    let (mut done, mut instant) = (0, 0);
    while done < options.steps {
        let mut rng = Rng::for_part(options.seed, done);
        let steps = STEPS_OF_A_TABLE.min(options.steps - done);
        instant += one_table(server, &mut rng, steps)?;
        done += steps;
        println!("{done} steps, {instant} of them changes of columns at once: both engines have the same");
    }
    Ok(())
}

/// The story of a table; how often its columns were changed at once.
fn one_table(server: &Server<'_>, rng: &mut Rng, steps: u64) -> anyhow::Result<u64> {
    let (mut table, create) = Table::create(rng);
    let mut story = vec![create];
    let mut told = 0;
    for step in 1..=steps {
        story.push(table.step(rng));
        if step % STEPS_BETWEEN_LOOKS != 0 && step != steps {
            continue;
        }
        same_on_both(server, &table, &story[told..]).with_context(|| {
            let lines: Vec<_> = story.iter().map(|statement| statement.on("HOLDFAST")).collect();
            format!("the table so far:\n{}", lines.join("\n"))
        })?;
        told = story.len();
        if rng.below(STEPS_BETWEEN_KILLS / STEPS_BETWEEN_LOOKS) == 0 {
            server.kill()?;
            server.up(PORT, false, &UP.map(String::from))?;
        }
    }
    Ok(story.iter().filter(|statement| statement.is_instant).count() as u64)
}

/// Carries the statements out on both engines; the tables have to be the same after that.
fn same_on_both(server: &Server<'_>, table: &Table, statements: &[Statement]) -> anyhow::Result<()> {
    let [ours, theirs] = ["HOLDFAST", "InnoDB"].map(|engine| {
        let mut sql = format!("USE {};\n", engine.to_lowercase());
        for statement in statements {
            sql += &statement.on(engine);
        }
        server.query(&(sql + &table.questions())).with_context(|| format!("on {engine}"))
    });
    let (ours, theirs) = (ours?, theirs?);
    let differs = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
    ensure!(ours == theirs, "the tables differ: {differs:?}");
    let checked = server.query("CHECK TABLE holdfast.t EXTENDED")?;
    ensure!(checked.ends_with("status\tOK"), "{checked}");
    Ok(())
}
