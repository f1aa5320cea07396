//! The test suites, in the order in which they find mistakes fastest.

use std::time::{Duration, Instant};

use anyhow::bail;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use holdfast_server::{Cache, Release};

use holdfast_chores::needs::{self, CHROMIUM, DOWNLOADER};
use holdfast_chores::run::{behaviours, cargo, cargo_nightly, check, program_of_the_tests, works};
use holdfast_chores::{bare, bench, fuzz, guide, lints, packages, release, sanitizers, simulation, verdicts};
use holdfast_mariadb_tests as mariadb;

/// How a suite ended.
enum Outcome {
    Passed,
    /// Not run, and why: something that this machine lacks.
    Skipped(String),
}

type Job = fn() -> anyhow::Result<Outcome>;

struct Suite {
    name: &'static str,
    /// On 2 cores, from a clean clone with a warm registry.
    budget_minutes: f32,
    when: When,
    job: Job,
}

/// Which runs a suite belongs to, if no suite is named.
#[derive(PartialEq)]
enum When {
    /// Before a commit only: a part of what a usual suite does.
    Quick,
    /// Before a commit, and in the default run.
    Always,
    /// The default run.
    Usual,
    /// Only `--all`.
    Long,
}

/// The word that stands for all the suites of a run before a commit.
const QUICK: &str = "quick";

const SUITES: &[Suite] = &[
    Suite { name: "format", budget_minutes: 0.2, when: When::Always, job: format },
    Suite { name: "tidy", budget_minutes: 0.5, when: When::Always, job: tidy },
    Suite { name: "units", budget_minutes: 0.6, when: When::Quick, job: units },
    Suite { name: "few-seeds", budget_minutes: 0.5, when: When::Quick, job: few_seeds },
    Suite { name: "lints", budget_minutes: 3.0, when: When::Usual, job: lints_of_all },
    Suite { name: "tests", budget_minutes: 8.0, when: When::Usual, job: tests },
    Suite { name: "doc", budget_minutes: 1.0, when: When::Usual, job: docs },
    Suite { name: "examples", budget_minutes: 1.5, when: When::Usual, job: examples },
    Suite { name: "crash", budget_minutes: 2.0, when: When::Usual, job: crash_short },
    Suite { name: "damage", budget_minutes: 1.5, when: When::Usual, job: damage_short },
    Suite { name: "simulation", budget_minutes: 4.0, when: When::Usual, job: simulation_short },
    Suite { name: "model", budget_minutes: 4.0, when: When::Usual, job: models },
    Suite { name: "browser", budget_minutes: 3.0, when: When::Usual, job: browser },
    Suite { name: "mariadb", budget_minutes: 5.5, when: When::Usual, job: mariadb_short },
    Suite { name: "model-long", budget_minutes: 3.0, when: When::Long, job: models_long },
    Suite { name: "miri", budget_minutes: 3.0, when: When::Long, job: miri },
    Suite { name: "sanitizers-c", budget_minutes: 15.0, when: When::Long, job: sanitizers_c },
    Suite { name: "sanitizers-threads", budget_minutes: 20.0, when: When::Long, job: sanitizers_threads },
    Suite { name: "fuzz", budget_minutes: 4.0, when: When::Long, job: fuzz_short },
    Suite { name: "faults", budget_minutes: 30.0, when: When::Long, job: faults_exhaustive },
    Suite { name: "crash-long", budget_minutes: 90.0, when: When::Long, job: crash_long },
    Suite { name: "simulation-long", budget_minutes: 240.0, when: When::Long, job: simulation_long },
    Suite { name: "random-sql", budget_minutes: 240.0, when: When::Long, job: random_sql },
    Suite { name: "damage-long", budget_minutes: 15.0, when: When::Long, job: damage_long },
    Suite { name: "recovery", budget_minutes: 10.0, when: When::Long, job: recovery },
    Suite { name: "fuzz-long", budget_minutes: 25.0, when: When::Long, job: fuzz_long },
    Suite { name: "rewritten", budget_minutes: 30.0, when: When::Long, job: rewritten },
    Suite { name: "guide", budget_minutes: 25.0, when: When::Long, job: guide_pages },
    Suite { name: "bare", budget_minutes: 60.0, when: When::Long, job: bare_machine },
    Suite { name: "package", budget_minutes: 3.0, when: When::Long, job: package },
    Suite { name: "deny", budget_minutes: 6.0, when: When::Long, job: dependencies },
    Suite { name: "oldest-compiler", budget_minutes: 3.0, when: When::Long, job: oldest_compiler },
    Suite { name: "aarch64", budget_minutes: 5.0, when: When::Long, job: other_processor },
    Suite { name: "lab", budget_minutes: 20.0, when: When::Long, job: lab },
    Suite { name: "lab-verdicts", budget_minutes: 85.0, when: When::Long, job: lab_verdicts },
    Suite { name: "lab-server", budget_minutes: 22.0, when: When::Long, job: lab_server },
    Suite { name: "lab-historic", budget_minutes: 14.0, when: When::Long, job: lab_historic },
    Suite { name: "lab-released", budget_minutes: 25.0, when: When::Long, job: lab_released },
    Suite { name: "compare", budget_minutes: 20.0, when: When::Long, job: compare_builds },
];

/// The default run ends before this many minutes, so that a wait for it is half an hour at most.
const DEFAULT_RUN_MINUTES: f32 = 27.0;

/// True if `word` names `suite`: as its whole name, as a part of it, or as one of the run before a
/// commit.
fn is_named(suite: &Suite, word: &str) -> bool {
    if word == QUICK {
        return matches!(suite.when, When::Quick | When::Always);
    }
    // A word that is a suite's whole name means this suite, not the others that have it in theirs.
    if SUITES.iter().any(|other| other.name == word) { suite.name == word } else { suite.name.contains(word) }
}

/// Runs the suites, all or those whose name contains one of `only`; the long ones when `all` or
/// named.
pub fn run(all: bool, only: &[String]) -> anyhow::Result<()> {
    if let Some(word) = only.iter().find(|word| !SUITES.iter().any(|suite| is_named(suite, word))) {
        let names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        bail!("no suite has `{word}` in its name; there are: {QUICK} (those before a commit), {}", names.join(", "));
    }
    let mut rows = Vec::new();
    let begun = Instant::now();
    let limited = !all && only.is_empty();
    let is_chosen = |suite: &&Suite| {
        let is_in_run = match suite.when {
            When::Quick => false,
            When::Always | When::Usual => true,
            When::Long => all,
        };
        if only.is_empty() { is_in_run } else { only.iter().any(|word| is_named(suite, word)) }
    };
    // What is missing is said now, not after a quarter of an hour.
    needs::provide(SUITES.iter().filter(is_chosen).map(|suite| suite.name))?;
    for suite in SUITES.iter().filter(is_chosen) {
        println!("\n== {} (budget {} min) ==", suite.name, suite.budget_minutes);
        let (begin, processor) = (Instant::now(), processor_time());
        let spent = begun.elapsed().as_secs_f32() / 60.0;
        let outcome = if limited && spent + suite.budget_minutes > DEFAULT_RUN_MINUTES {
            let name = suite.name;
            Ok(Outcome::Skipped(format!("no time left on this slow machine; run `cargo xtask test {name}`")))
        } else {
            (suite.job)()
        };
        let took = Took { wall: begin.elapsed(), processor: processor_time().saturating_sub(processor) };
        if let Err(error) = outcome {
            summary(&rows);
            bail!("suite `{}` failed after {:.0} s: {error:#}", suite.name, took.wall.as_secs_f32());
        }
        rows.push((suite, outcome?, took));
    }
    summary(&rows);
    Ok(())
}

/// How long a suite took.
struct Took {
    wall: Duration,
    /// Of its programs, on all processors. What else the machine does adds little to it.
    processor: Duration,
}

/// The processor time of all programs that this one has started and waited for.
fn processor_time() -> Duration {
    // It only fails for an argument that there is not.
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
    let duration = |time: TimeVal| Duration::from_micros(time.num_microseconds().cast_unsigned());
    usage.map_or(Duration::ZERO, |usage| duration(usage.user_time()) + duration(usage.system_time()))
}

fn summary(rows: &[(&Suite, Outcome, Took)]) {
    let minutes = |time: &Duration| time.as_secs_f32() / 60.0;
    println!("\n{:<18} {:>8} {:>8} {:>10}", "suite", "minutes", "budget", "processor");
    let mut total = (Duration::ZERO, Duration::ZERO);
    for (suite, outcome, took) in rows {
        total = (total.0 + took.wall, total.1 + took.processor);
        let wall = minutes(&took.wall);
        let note = match outcome {
            Outcome::Skipped(why) => format!("SKIPPED: {why}"),
            Outcome::Passed if wall > suite.budget_minutes => "over its budget".to_string(),
            Outcome::Passed => String::new(),
        };
        let (budget, processor) = (suite.budget_minutes, minutes(&took.processor));
        println!("{:<18} {wall:>8.1} {budget:>8.1} {processor:>10.1}  {note}", suite.name);
    }
    println!("{:<18} {:>8.1} {:>8} {:>10.1}", "total", minutes(&total.0), "", minutes(&total.1));
}

fn passed(result: anyhow::Result<()>) -> anyhow::Result<Outcome> {
    result.map(|()| Outcome::Passed)
}

fn format() -> anyhow::Result<Outcome> {
    passed(check(&mut cargo("fmt --all --check")))
}

/// The source itself: what is left of each kind of finding only falls.
fn tidy() -> anyhow::Result<Outcome> {
    passed(check(&mut cargo("run --quiet --package holdfast-tidy")))
}

/// The unit tests of the crates that are linked into a program with a database.
fn units() -> anyhow::Result<Outcome> {
    let crates = ["base", "metrics", "latch", "lock", "policy", "io", "wal", "pool", "tree", "txn", "engine", "capi"];
    let packages = crates.map(|name| format!("--package holdfast-{name}")).join(" ");
    passed(check(&mut cargo(&format!("test --quiet --lib {packages}"))))
}

/// A few runs of each kind of simulation, built as the default suites build them.
fn few_seeds() -> anyhow::Result<Outcome> {
    simulator("crash --seeds 100")?;
    simulator("damage --trials 50")?;
    passed(simulation::seeds(40))
}

fn lints_of_all() -> anyhow::Result<Outcome> {
    passed(lints::run())
}

fn tests() -> anyhow::Result<Outcome> {
    passed(check(&mut cargo("test --workspace --no-fail-fast")))
}

/// Builds the documentation of the workspace, warnings are errors.
pub fn doc() -> anyhow::Result<()> {
    check(cargo("doc --quiet --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"))
}

fn docs() -> anyhow::Result<Outcome> {
    passed(doc())
}

fn examples() -> anyhow::Result<Outcome> {
    let folder = std::fs::read_dir("engine/engine/examples")?;
    let mut names: Vec<String> =
        folder.filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    for name in names {
        check(&mut cargo(&format!("run --quiet --package holdfast-engine --example {name}")))?;
    }
    Ok(Outcome::Passed)
}

/// Runs the simulator with debug assertions, and with what the tests have built already.
fn simulator(args: &str) -> anyhow::Result<()> {
    check(program_of_the_tests("holdfast-sim")?.args(args.split_whitespace()))
}

fn crash_short() -> anyhow::Result<Outcome> {
    simulator("crash --seeds 1000")?;
    passed(simulator("kill --rounds 20"))
}

/// The lab's experiments on the embedded engine, and their report in a real browser.
fn browser() -> anyhow::Result<Outcome> {
    let browser = packages::provide(&[CHROMIUM]);
    // As the suite `tests` builds it, so that it is there already.
    let test = "test --workspace --test a_browser_shows_the_report -- --ignored";
    let only = if browser.is_ok() { "" } else { " every_experiment" };
    check(&mut cargo(&format!("{test}{only}")))?;
    Ok(match browser {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Skipped(format!("only the browser, the experiments ran: {error:#}")),
    })
}

/// The engine inside the server. The packages are fetched once.
fn mariadb_short() -> anyhow::Result<Outcome> {
    Ok(mariadb::short_suite()?.map_or(Outcome::Passed, Outcome::Skipped))
}

/// Random SQL on both engines of one server.
fn random_sql() -> anyhow::Result<Outcome> {
    Ok(mariadb::long_suite()?.map_or(Outcome::Passed, Outcome::Skipped))
}

/// The server's own tests of InnoDB.
fn rewritten() -> anyhow::Result<Outcome> {
    Ok(mariadb::rewritten_suite()?.map_or(Outcome::Passed, Outcome::Skipped))
}

/// The lab's experiments on private servers, at sizes that say nothing about speed: whether they
/// run to their end.
fn lab_server() -> anyhow::Result<Outcome> {
    for test in ["scripts_run_on_both_engines", "experiments_run_on_private_servers"] {
        check(&mut cargo(&format!("test -p holdfast-lab --test {test} -- --ignored")))?;
    }
    for experiment in ["sideload --engines holdfast --scale 64 --disk model", "all --tiny"] {
        lab_on("mariadb", experiment)?;
    }
    Ok(Outcome::Passed)
}

/// Runs one of the lab's experiments, or all of its registry, on a server.
fn lab_on(target: &str, experiment: &str) -> anyhow::Result<()> {
    let run = format!("run --release -p holdfast-cli -- lab {experiment} --target {target} --quick --no-report");
    check(&mut cargo(&run))
}

/// Servers of the past are downloaded, come up, are started again on their data, and are measured.
fn lab_historic() -> anyhow::Result<Outcome> {
    if let Err(error) = packages::provide(&DOWNLOADER) {
        return Ok(Outcome::Skipped(format!("{error:#}")));
    }
    for server in Release::ALL.into_iter().filter(|server| server.is_historic()) {
        lab_on(server.target(), "all --tiny")?;
    }
    Ok(Outcome::Passed)
}

/// Servers of today, as released: those that can be had start, start again on their data, and are
/// measured, each alone and all beside Holdfast.
fn lab_released() -> anyhow::Result<Outcome> {
    let cache = Cache::of_the_project();
    // Without Maven some of them cannot be had; the others go on.
    if let Err(error) = packages::provide(&DOWNLOADER) {
        println!("{error:#}");
    }
    let mut missing = Vec::new();
    let mut there = Vec::new();
    for server in Release::ALL.into_iter().filter(|server| !server.is_historic()) {
        if let Err(error) = server.fetch(&cache) {
            println!("{error:#}");
            missing.push(format!("{error:#}"));
            continue;
        }
        there.push(server.target());
        lab_on(server.target(), "all --tiny")?;
    }
    if there.is_empty() {
        return Ok(Outcome::Skipped(missing.join("; ")));
    }
    for experiment in ["sideload", "scan", "overflow", "freepages"] {
        lab_on("mariadb", &format!("{experiment} --tiny --engines holdfast,innodb,{}", there.join(",")))?;
    }
    passed(check(&mut cargo("test -p holdfast-lab --test released_servers_keep_their_data -- --ignored")))
}

/// The tests that take a sample of all faults by default take all of them.
fn faults_exhaustive() -> anyhow::Result<Outcome> {
    let names = ["a_failing_disk_loses_nothing", "a_small_cache_meets_a_failing_disk", "flipped_bits_are_noticed"];
    let test = format!("test {}", behaviours("holdfast-engine", &names)?);
    passed(check(cargo(&test).env("HOLDFAST_EXHAUSTIVE", "1")))
}

/// The whole engine under a seeded scheduler.
fn simulation_short() -> anyhow::Result<Outcome> {
    simulation::unit_tests()?;
    // Those that take many seeds belong to the long suite.
    simulation::run(&["--plants".into(), "--within=300".into()])?;
    passed(simulation::seeds(300))
}

fn simulation_long() -> anyhow::Result<Outcome> {
    simulation::run(&["--plants".into()])?;
    passed(simulation::seeds(100_000))
}

fn crash_long() -> anyhow::Result<Outcome> {
    passed(check(&mut cargo("run --quiet --release --package holdfast-sim -- crash --seeds 100000")))
}

/// Fields, pages and files damaged with knowledge of the format.
fn damage_short() -> anyhow::Result<Outcome> {
    passed(simulator("damage --trials 1000"))
}

fn damage_long() -> anyhow::Result<Outcome> {
    passed(simulator("damage --trials 10000 --seed 1000"))
}

fn recovery() -> anyhow::Result<Outcome> {
    passed(check(&mut cargo("run --quiet --release --package holdfast-sim -- recovery")))
}

/// The models of the smallest protocols, but for those that take minutes.
const MODELS: [&str; 2] = [
    "-p holdfast-latch -p holdfast-txn --lib",
    "-p holdfast-wal --test loom_ring --test loom_group_commit --test loom_flush_mark",
];

/// loom explores interleavings of the smallest protocols, without those in which only loads have
/// another order; shuttle samples those of the larger ones. Each has a target folder of its own,
/// since the flag changes every crate.
fn models() -> anyhow::Result<Outcome> {
    MODELS.iter().try_for_each(|tests| explore("loom", tests, "short").map(drop))?;
    // Together, so that what they share is compiled once.
    explore("shuttle", "-p holdfast-latch -p holdfast-lock -p holdfast-txn --lib", "short")
}

/// loom explores all interleavings, of all models.
fn models_long() -> anyhow::Result<Outcome> {
    MODELS.iter().try_for_each(|tests| explore("loom", tests, "whole").map(drop))?;
    explore("loom", "-p holdfast-wal --test loom_slots --test loom_space", "whole")
}

/// Has a model checker explore the schedules of tests. `kind`: see `loom_reads` of the crate
/// `holdfast-base`.
fn explore(checker: &str, tests: &str, kind: &str) -> anyhow::Result<Outcome> {
    // loom maps a stack for each thread of each schedule: two tests at a time wait for each other.
    let alone = if checker == "loom" { "-- --test-threads=1" } else { "" };
    let mut run = cargo(&format!("test --release --target-dir target/{checker} {tests} {alone}"));
    // Links take longer with more optimisation than the runs save.
    run.env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("CARGO_PROFILE_RELEASE_LTO", "off").env("HOLDFAST_MODEL", kind);
    passed(check(run.env("RUSTFLAGS", format!("--cfg {checker}"))))
}

/// Installs what nightly-only tools need. `None` when all is there, else why not.
fn nightly(component: &str, probe: &str) -> Option<String> {
    if works(&mut cargo_nightly(probe)) {
        return None;
    }
    let install = format!("toolchain install nightly --profile minimal --component {component}");
    let mut rustup = std::process::Command::new("rustup");
    if works(rustup.args(install.split_whitespace())) && works(&mut cargo_nightly(probe)) {
        return None;
    }
    Some(format!("no nightly toolchain with {component} (`rustup {install}`)"))
}

fn miri() -> anyhow::Result<Outcome> {
    if let Some(why) = nightly("miri,rust-src", "miri --version") {
        return Ok(Outcome::Skipped(why));
    }
    // The modules with unsafe code. Threads that contend wait in parking_lot, whose futex call Miri
    // does not know; what runs here does not contend.
    let runs = [
        "-p holdfast-io --lib -- aligned:: batch::threads:: sparse::",
        "-p holdfast-io --test behaviours -- memory_disk::",
        "-p holdfast-pool --lib -- access:: frames:: header:: translation::",
    ];
    for run in runs {
        let test = format!("miri test --target-dir target/miri {run}");
        check(cargo_nightly(&test).env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks"))?;
    }
    Ok(Outcome::Passed)
}

/// The C interface from C, and the shim in the server, with checks of memory accesses and
/// arithmetic.
fn sanitizers_c() -> anyhow::Result<Outcome> {
    if let Some(why) = sanitizers::lacks_c_sanitizers() {
        return Ok(Outcome::Skipped(why));
    }
    sanitizers::c_interface()?;
    Ok(mariadb::sanitize(&[])?.map_or(Outcome::Passed, Outcome::Skipped))
}

/// The engine's threads, with every access to memory watched.
fn sanitizers_threads() -> anyhow::Result<Outcome> {
    match sanitizers::lacks_library_source() {
        Some(why) => Ok(Outcome::Skipped(why)),
        None => passed(sanitizers::threads()),
    }
}

fn fuzz_short() -> anyhow::Result<Outcome> {
    passed(fuzz::run(5, &[]))
}

fn fuzz_long() -> anyhow::Result<Outcome> {
    passed(fuzz::run(180, &[]))
}

/// The commands of README and guide.
fn guide_pages() -> anyhow::Result<Outcome> {
    passed(guide::run())
}

/// The commands of README on a machine that has nothing else.
fn bare_machine() -> anyhow::Result<Outcome> {
    Ok(bare::run()?.map_or(Outcome::Passed, Outcome::Skipped))
}

/// What is published, packed and built from the packages.
fn package() -> anyhow::Result<Outcome> {
    passed(release::package())
}

fn dependencies() -> anyhow::Result<Outcome> {
    Ok(release::dependencies()?.map_or(Outcome::Passed, Outcome::Skipped))
}

fn oldest_compiler() -> anyhow::Result<Outcome> {
    Ok(release::oldest_compiler()?.map_or(Outcome::Passed, Outcome::Skipped))
}

fn other_processor() -> anyhow::Result<Outcome> {
    Ok(release::other_processor()?.map_or(Outcome::Passed, Outcome::Skipped))
}

/// Every experiment runs and reports. What the figures say depends on the machine and fails
/// nothing.
fn lab() -> anyhow::Result<Outcome> {
    passed(check(&mut cargo("run --quiet --release --package holdfast-cli -- lab all --quick --dir target/lab")))
}

/// Whether the answers of the first experiment can be believed.
fn lab_verdicts() -> anyhow::Result<Outcome> {
    passed(verdicts::run(20))
}

fn compare_builds() -> anyhow::Result<Outcome> {
    passed(bench::smoke())
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_asked_for_is_needed_by_suites() {
        for name in super::needs::suites() {
            assert!(super::SUITES.iter().any(|suite| suite.name == name), "there is no suite {name}");
        }
    }
}
