//! Random rows in tables that refer to each other, the same on this engine and on InnoDB: what is refused and what follows has to be the same.
//!
//! A few tables with FOREIGN KEYs of all actions, to each other and to themselves, live for [`STEPS_OF_A_SCHEMA`] steps. Rows come, go and change,
//! transactions are rolled back, references, indexes and names change. For which of several reasons a row is refused is not compared, only that it
//! is. Now and then the server is killed and comes up again. A seed names all that happens.

mod schema;

use std::io::Write;
use std::process::Stdio;

use anyhow::{Context, ensure};
use holdfast_server::{Cache, Server};
use holdfast_workload::rng::Rng;

use self::schema::Schema;

const PORT: u16 = 13338;
const STEPS_OF_A_SCHEMA: u64 = 400;
const STEPS_BETWEEN_LOOKS: u64 = 10;
const STEPS_BETWEEN_KILLS: u64 = 1000;
const UP: [&str; 1] = ["--holdfast-flush-log-at-trx-commit=1"];

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
    run(cache, &Options { steps: STEPS_OF_A_SCHEMA, seed: 1 })
}

/// Runs it; stops the server again.
pub fn run(cache: &Cache, options: &Options) -> anyhow::Result<()> {
    let server = Server::new(cache, "references").bound_to_us();
    server.up(PORT, true, &UP.map(String::from))?;
    let result = schemas(&server, options).with_context(|| format!("seed {}", options.seed));
    match &result {
        Ok(()) => server.down()?,
        Err(_) => println!("log of the server:\n{}", server.log_tail()),
    }
    result
}

fn schemas(server: &Server<'_>, options: &Options) -> anyhow::Result<()> {
    let (mut done, mut refused) = (0, 0);
    while done < options.steps {
        let mut rng = Rng::for_part(options.seed, done);
        let steps = STEPS_OF_A_SCHEMA.min(options.steps - done);
        refused += one_schema(server, &mut rng, steps)?;
        done += steps;
        println!("{done} steps, {refused} of them refused: both engines have the same");
    }
    Ok(())
}

/// The story of a schema; how many of its statements were refused.
fn one_schema(server: &Server<'_>, rng: &mut Rng, steps: u64) -> anyhow::Result<usize> {
    let (mut schema, mut story) = Schema::create(rng);
    let (mut told, mut refused) = (0, 0);
    for step in 1..=steps {
        story.push(schema.step(rng));
        if step % STEPS_BETWEEN_LOOKS != 0 && step != steps {
            continue;
        }
        // What happens between two looks is one transaction at most.
        story.push("COMMIT".into());
        refused += same_on_both(server, &schema, &story[told..])
            .with_context(|| format!("the tables so far:\n{};", story.join(";\n").replace("$ENGINE", "HOLDFAST")))?;
        told = story.len();
        if rng.below(STEPS_BETWEEN_KILLS / STEPS_BETWEEN_LOOKS) == 0 {
            server.kill()?;
            server.up(PORT, false, &UP.map(String::from))?;
        }
    }
    Ok(refused)
}

/// Carries the statements out on both engines; what they say and the tables have to be the same. How many were refused.
fn same_on_both(server: &Server<'_>, schema: &Schema, statements: &[String]) -> anyhow::Result<usize> {
    let [ours, theirs] = ["HOLDFAST", "InnoDB"].map(|engine| {
        let name = engine.to_lowercase();
        let mut sql = format!("CREATE DATABASE IF NOT EXISTS {name};\nUSE {name};\n");
        for statement in statements {
            sql += &format!("{};\n", statement.replace("$ENGINE", engine));
        }
        answers(server, &(sql + &schema.questions())).with_context(|| format!("on {engine}"))
    });
    let (ours, theirs) = (ours?, theirs?);
    let differs = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
    ensure!(ours == theirs, "the tables differ: {differs:?}");
    let checked = server.query(&format!("USE holdfast; CHECK TABLE {} EXTENDED", schema.tables()))?;
    ensure!(checked.lines().all(|line| line.ends_with("status\tOK")), "{checked}");
    Ok(ours.lines().filter(|line| line.starts_with("refused")).count())
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
