//! Runs a program under valgrind and finds the lines of memory that its threads share.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::sharing::{Line, Marks, Sharing};
use crate::sites::Sites;
use crate::trace;

/// What one operation shares.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Profile {
    pub operation: String,
    pub threads: u64,
    /// Operations that were counted.
    pub operations: u64,
    /// Instructions of an operation.
    pub instructions: f64,
    /// What is shared, what moves most first.
    pub shared: Vec<Shared>,
}

/// Lines that are alike: the same code makes them move, and as many threads use each.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Shared {
    /// The code that makes the line move, as `crate/file:line`, the most frequent place first.
    pub sites: Vec<String>,
    /// Lines of this kind.
    pub copies: usize,
    /// Threads that use one of them.
    pub threads: f64,
    /// Moves, visits, and visits that write, of an operation.
    pub moves: f64,
    pub visits: f64,
    pub writes: f64,
}

impl Profile {
    /// Lines that move in an operation.
    #[must_use]
    pub fn moves(&self) -> f64 {
        self.shared.iter().map(|shared| shared.moves).sum()
    }
}

/// Traces `program lines OPERATION TURNS THREADS`, which prints `marks ADDRESS COUNT`, waits for a
/// line of its input, and then marks its operations.
///
/// # Errors
/// valgrind cannot start the program, or one of them fails.
pub fn measure(program: &Path, operation: &str, turns: u64, threads: u64) -> anyhow::Result<Profile> {
    let mut child = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no", "-q"])
        .arg(program)
        .args(["lines", operation, &turns.to_string(), &threads.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("valgrind cannot be started")?;
    let trace = child.stderr.take().context("the trace is piped")?;
    let marks = OnceLock::new();
    let warm_up = (turns / 5).max(1) * threads;
    let (followed, mapped) = std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow(trace, &marks, warm_up, turns * threads));
        let mapped = begin(&mut child, program, &marks);
        (follower.join().expect("the follower does not panic"), mapped)
    });
    let status = child.wait()?;
    let (sharing, said) = followed?;
    ensure!(status.success(), "{} {operation} ends with {status}\n{said}", program.display());
    let sharing = sharing.context("the program printed no marks")?;
    ensure!(sharing.operations() > 0, "the program marked no operation");
    profile(operation, threads, &sharing, &mut Sites::of(program, mapped?)?)
}

/// Reads where the marks are, and lets the program go on. Returns where it is mapped.
fn begin(child: &mut Child, program: &Path, marks: &OnceLock<Marks>) -> anyhow::Result<Range<u64>> {
    let mut first = String::new();
    BufReader::new(child.stdout.take().context("the output is piped")?).read_line(&mut first)?;
    let words: Vec<&str> = first.split_whitespace().collect();
    let ["marks", address, count] = words[..] else { bail!("the program says no marks, but: {first}") };
    let found = Marks { address: u64::from_str_radix(address, 16)?, count: count.parse()? };
    marks.get_or_init(|| found);
    let mapped = mapping(child.id(), program)?;
    child.stdin.take().context("the input is piped")?.write_all(b"\n")?;
    Ok(mapped)
}

/// Where `program` lies in the memory of a process.
fn mapping(process: u32, program: &Path) -> anyhow::Result<Range<u64>> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    let program = program.canonicalize()?;
    let its = maps.lines().filter(|line| line.ends_with(&*program.to_string_lossy()));
    let ends = its.filter_map(|line| line.split(' ').next()?.split_once('-'));
    let numbers = ends.flat_map(|(begin, end)| [begin, end]).filter_map(|end| u64::from_str_radix(end, 16).ok());
    let (least, greatest) = numbers.fold((u64::MAX, 0), |(least, greatest), end| (least.min(end), greatest.max(end)));
    ensure!(least < greatest, "the program is not mapped");
    Ok(least..greatest)
}

/// Follows the trace from the first mark on. Returns what else valgrind and the program wrote
/// there.
fn follow(
    trace: impl Read,
    marks: &OnceLock<Marks>,
    warm_up: u64,
    all: u64,
) -> anyhow::Result<(Option<Sharing>, String)> {
    let mut reader = BufReader::with_capacity(1 << 20, trace);
    let (mut line, mut said, mut sharing) = (Vec::new(), String::new(), None);
    let progress = ProgressBar::new(all).with_message("loading");
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        match (trace::parse(text), marks.get()) {
            (Some(event), Some(marks)) => {
                let sharing = sharing.get_or_insert_with(|| Sharing::new(*marks, warm_up));
                sharing.follow(event);
                if sharing.ended() > progress.position() {
                    progress.set_position(sharing.ended());
                }
            }
            (Some(_), None) => {}
            (None, _) => said += &format!("{}\n", String::from_utf8_lossy(text)),
        }
        line.clear();
    }
    progress.finish_and_clear();
    Ok((sharing, said))
}

/// Moves an operation below which a line is one of many that chance made move: a row's, a page's.
const SELDOM: f64 = 0.02;

fn profile(operation: &str, threads: u64, sharing: &Sharing, sites: &mut Sites) -> anyhow::Result<Profile> {
    let operations = sharing.operations() as f64;
    // Alike: the same two most frequent places in the code, and as many threads.
    let mut kinds: BTreeMap<(Vec<String>, u32), Vec<&Line>> = BTreeMap::new();
    for line in sharing.lines.values().filter(|line| line.moves > 0) {
        let names = sites.most_frequent(&line.sites)?;
        let many = line.threads.count_ones();
        kinds.entry((names, many)).or_default().push(line);
    }
    let mut shared: Vec<Shared> = kinds
        .into_iter()
        .map(|((sites, threads), lines)| {
            let each = |of: fn(&Line) -> u64| lines.iter().map(|line| of(line)).sum::<u64>() as f64 / operations;
            Shared {
                sites,
                copies: lines.len(),
                threads: f64::from(threads),
                moves: each(|line| line.moves),
                visits: each(|line| line.visits),
                writes: each(|line| line.writes),
            }
        })
        .filter(|shared| shared.moves >= SELDOM)
        .collect();
    shared.sort_by(|a, b| b.moves.total_cmp(&a.moves));
    let instructions = sharing.instructions_counted() as f64 / operations;
    Ok(Profile { operation: operation.into(), threads, operations: sharing.operations(), instructions, shared })
}

/// Returns a table of what moves in an operation.
#[must_use]
pub fn table(profile: &Profile) -> String {
    let mut text = format!(
        "{}: {:.1} lines move in an operation ({} threads in turns, {} operations, {:.0} instructions each)\n\n",
        profile.operation,
        profile.moves(),
        profile.threads,
        profile.operations,
        profile.instructions
    );
    text += "  moves  visits  writes  lines  threads of each  moved by\n";
    for shared in &profile.shared {
        let Shared { sites, copies, threads, moves, visits, writes } = shared;
        text +=
            &format!("{moves:>7.2} {visits:>7.2} {writes:>7.2} {copies:>6} {threads:>16.0}  {}\n", sites.join(", "));
    }
    text
}

/// What `lines` is asked for.
#[derive(clap::Args)]
pub struct Options {
    /// Threads that do operations in turns
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=64))]
    threads: u64,
    /// Operations of each thread; a fifth of them before counting begins
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(5..=1_000_000))]
    turns: u64,
    /// Where to write the result as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// The program to trace; valgrind starts it as `PROGRAM lines OPERATION TURNS THREADS`
    program: PathBuf,
    /// Its operations
    #[arg(required = true)]
    operations: Vec<String>,
}

/// Measures the operations and prints a table of each.
///
/// # Errors
/// As of [`measure`]; the JSON cannot be written.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut profiles = Vec::new();
    for operation in &options.operations {
        let profile = measure(&options.program, operation, options.turns, options.threads)?;
        println!("{}", table(&profile));
        profiles.push(profile);
        if let Some(file) = &options.json {
            let text = serde_json::to_vec_pretty(&profiles)?;
            std::fs::write(file, text).with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}
