//! The server's own runner, `mariadb-test-run.pl`: started, read line by line, and what it says of
//! tests that fail kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use holdfast_server::Cache;

/// How a test ended. A test that is run several times, on several engines or with several formats
/// of the binary log, ends as the worst of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    Skipped,
    Pass,
    Fail,
}

/// Test -> outcome; the name has the combination behind it, as in `rpl.rpl_ddl,row`, if there is
/// more than one.
pub type Results = BTreeMap<String, Outcome>;

/// InnoDB is there, which the runner switches off otherwise; a statement that is to fail for a lock
/// fails soon.
const BOTH_ENGINES: [&str; 3] = [
    "--mysqld=--innodb",
    "--mysqld=--loose-innodb-lock-wait-timeout=1",
    "--mysqld=--loose-holdfast-lock-wait-timeout=1",
];

/// One run of the server's runner.
pub struct Run<'a> {
    /// The tree that it works in.
    pub farm: &'a Path,
    /// The beginning of the names of its folder of data and of its log.
    pub name: &'a str,
    /// Options of the runner.
    pub options: Vec<String>,
    /// Variables of the tests.
    pub variables: Vec<(&'a str, &'a str)>,
    pub tests: &'a [String],
    /// How many there are, if that is known: every line then says how far the run is.
    pub total: Option<usize>,
    /// True if a test is told apart by its combination.
    pub with_combinations: bool,
}

impl<'a> Run<'a> {
    /// A run of whole suites, or of single tests of them. Suites that are told which engine to test
    /// run with all their tests, also those that are switched off because their results are out of
    /// date. Results are recorded by one worker only.
    pub fn of_suites(
        farm: &'a Path,
        suites: &[String],
        tests: &'a [String],
        engine: Option<&'a str>,
        record: bool,
    ) -> Run<'a> {
        let mut options = vec![if record { "--record" } else { "--parallel=2" }.to_string()];
        if engine.is_some() {
            options.push("--enable-disabled".into());
            options.extend(BOTH_ENGINES.map(String::from));
        }
        options.push(format!("--suite={}", suites.join(",")));
        let variables = engine.map(|engine| ("ENGINE", engine)).into_iter().collect();
        let name = if record { "mtr-record" } else { "mtr" };
        Run { farm, name, options, variables, tests, total: None, with_combinations: false }
    }

    /// Where the output goes.
    pub fn log(&self, cache: &Cache) -> PathBuf {
        cache.path(format!("{}.log", self.name))
    }

    /// Runs it to its end.
    pub fn start(&self, cache: &Cache) -> anyhow::Result<Results> {
        let mut command = Command::new("perl");
        command.current_dir(self.farm.join("mysql-test")).env("LD_LIBRARY_PATH", cache.library_path());
        command.args(["mariadb-test-run.pl", "--force", "--max-test-fail=0", "--retry=0", "--nowarnings"]);
        command.arg(format!("--vardir={}", cache.path(format!("{}-var", self.name)).display()));
        command.args(&self.options).args(self.tests).envs(self.variables.iter().copied());
        let mut log = fs::File::create(self.log(cache))?;
        let mut child = command.stdout(Stdio::piped()).stderr(log.try_clone()?).spawn().context("perl is missing")?;
        let output = child.stdout.take().context("the run has an output")?;
        let mut words = Words::new(cache, self.name)?;
        let mut results = Results::new();
        let (mut begun, mut end) = (BTreeSet::new(), End::default());
        for line in BufReader::new(output).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            writeln!(log, "{line}")?;
            end.note(&line);
            let Some(ended) = parse(&line) else {
                words.add(&line)?;
                continue;
            };
            begun.insert(ended.test.clone());
            let name = if self.with_combinations { ended.full_name() } else { ended.test };
            words.begin(&name, ended.outcome)?;
            let worst = results.entry(name).or_insert(ended.outcome);
            *worst = ended.outcome.max(*worst);
            match self.total {
                Some(total) => println!("{:>4} of {total}  {line}", begun.len()),
                None => println!("{line}"),
            }
        }
        let status = child.wait()?;
        let log = self.log(cache);
        ensure!(end.is_there, "the runner ended before its tests did ({status}); log: {}", log.display());
        if let Some(left) = end.left_out {
            bail!("the runner left tests out: {left} Log: {}", log.display());
        }
        Ok(results)
    }
}

/// What the runner says last. One that gives up says nothing, and its tests up to then may all have
/// passed.
#[derive(Default)]
struct End {
    is_there: bool,
    left_out: Option<String>,
}

impl End {
    fn note(&mut self, line: &str) {
        self.is_there |= line.ends_with("were successful.");
        if line.starts_with("Only ") && line.ends_with(" completed.") {
            self.left_out = Some(line.to_owned());
        }
    }
}

/// What the runner says of tests that fail: a file for each.
struct Words {
    folder: PathBuf,
    now: Option<fs::File>,
}

impl Words {
    fn new(cache: &Cache, name: &str) -> anyhow::Result<Words> {
        let folder = cache.path(format!("{name}-failed"));
        fs::create_dir_all(&folder)?;
        Ok(Words { folder, now: None })
    }

    /// What follows is about this test.
    fn begin(&mut self, test: &str, outcome: Outcome) -> anyhow::Result<()> {
        let file = self.folder.join(format!("{}.txt", test.replace('/', "+")));
        self.now = match outcome {
            Outcome::Fail => Some(fs::File::create(file)?),
            _ => {
                let _ = fs::remove_file(file);
                None
            }
        };
        Ok(())
    }

    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        Ok(self.now.as_mut().map_or(Ok(()), |file| writeln!(file, "{line}"))?)
    }
}

/// What a line of the runner tells about a test.
struct Ended {
    test: String,
    combination: Option<String>,
    outcome: Outcome,
}

impl Ended {
    fn full_name(&self) -> String {
        self.combination.as_ref().map_or_else(|| self.test.clone(), |c| format!("{},{c}", self.test))
    }
}

fn parse(line: &str) -> Option<Ended> {
    let (head, tail) = line.split_once(" [ ")?;
    let outcome = match tail.split_whitespace().next()? {
        "pass" => Outcome::Pass,
        "fail" => Outcome::Fail,
        "skipped" | "disabled" => Outcome::Skipped,
        _ => return None,
    };
    let test = head.split_whitespace().next()?.to_string();
    let combination = head.split('\'').nth(1).map(String::from);
    Some(Ended { test, combination, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_runner_are_understood() {
        let pass = parse("engines/iuds.update_time 'holdfast'      w1 [ pass ]    322").unwrap();
        assert_eq!((pass.full_name().as_str(), pass.outcome), ("engines/iuds.update_time,holdfast", Outcome::Pass));
        assert_eq!(parse("main.x [ skipped ]  no").map(|p| p.outcome), Some(Outcome::Skipped));
        assert!(parse("The servers were restarted 2 times").is_none());
    }

    /// Runs a program in place of the runner, which prints what `script` says, in a folder for the
    /// test `name`.
    fn run(name: &str, script: &str) -> anyhow::Result<Results> {
        let farm = std::env::temp_dir().join(format!("holdfast-mtr-{name}-{}", std::process::id()));
        fs::create_dir_all(farm.join("mysql-test"))?;
        fs::write(farm.join("mysql-test/mariadb-test-run.pl"), script)?;
        let results = Run::of_suites(&farm, &["suite".into()], &[], None, false).start(&Cache::at(&farm));
        fs::remove_dir_all(farm)?;
        results
    }

    #[test]
    fn the_runner_finds_libraries_in_all_folders_of_the_packages() {
        let script = "my $found = grep({ m{/root/lib/} } split(/:/, $ENV{LD_LIBRARY_PATH})) ? 'pass' : 'fail';
            print \"suite.a w1 [ $found ] 3\\nCompleted: All 1 tests were successful.\\n\";";
        assert_eq!(run("libraries", script).unwrap(), Results::from([("suite.a".into(), Outcome::Pass)]));
    }

    #[test]
    fn a_runner_that_gives_up_has_not_passed() {
        let passed = "print \"suite.a w1 [ pass ] 3\\n\";";
        let error = run("gives-up", &format!("{passed} exit(1);")).unwrap_err().to_string();
        assert!(error.contains("ended before its tests did") && error.contains("exit status: 1"), "{error}");
        let left = format!("{passed} print \"Only 1 of 7 completed.\\nCompleted: All 1 tests were successful.\\n\";");
        let error = run("gives-up", &left).unwrap_err().to_string();
        assert!(error.contains("Only 1 of 7 completed."), "{error}");
        let results =
            run("gives-up", &format!("{passed} print \"Completed: All 1 tests were successful.\\n\";")).unwrap();
        assert_eq!(results, Results::from([("suite.a".into(), Outcome::Pass)]));
    }
}
