//! The command line of `holdfast lab`: a subcommand for each experiment of the
//! [registry](crate::registry), and `all`.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::parser::RawValues;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::json;

use crate::args::common::{CommonArgs, DIRECTORY, TargetArg};
use crate::baseline::Baseline;
use crate::claims::Answer;
use crate::conditions::Watch;
use crate::document::{self, Document};
use crate::figures::Figures;
use crate::forecast::{Forecast, in_words};
use crate::machine::Machine;
use crate::pin;
use crate::progress::{Progress, say};
use crate::registry::{EXPERIMENTS, Experiment};
use crate::rig::site::data_in;
use crate::server::turns;
use crate::{answers, report};

/// `holdfast lab`: the experiment that was chosen, with its arguments.
#[derive(Debug)]
pub struct LabArgs {
    /// `None` for all of them.
    one: Option<&'static Experiment>,
    matches: ArgMatches,
}

/// The subcommand for all experiments.
const ALL: &str = "all";

const ALL_EXAMPLES: &str = "\
Examples:
  holdfast lab all --quick --check --report all.html
  holdfast lab all --dir /mnt/ssd --json all.json
  holdfast lab all --target mariadb --quick           those that run on private servers
  holdfast lab all --baseline all.json                what changed since, beyond noise";

impl Args for LabArgs {
    fn augment_args(lab: Command) -> Command {
        let all = CommonArgs::augment_args(Command::new(ALL));
        let all = all.about("All experiments, one report").after_help(ALL_EXAMPLES);
        let lab = lab.subcommands(EXPERIMENTS.iter().map(Experiment::command)).subcommand(all);
        lab.subcommand_required(true).arg_required_else_help(true)
    }

    fn augment_args_for_update(lab: Command) -> Command {
        LabArgs::augment_args(lab)
    }
}

impl FromArgMatches for LabArgs {
    fn from_arg_matches(lab: &ArgMatches) -> Result<LabArgs, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = lab.subcommand().ok_or_else(missing)?;
        let one = EXPERIMENTS.iter().find(|one| one.name == name);
        Ok(LabArgs { one, matches: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, lab: &ArgMatches) -> Result<(), clap::Error> {
        *self = LabArgs::from_arg_matches(lab)?;
        Ok(())
    }
}

/// Runs an experiment and writes its document and report. Returns the worst answer to a claim with
/// `--check`, [`Answer::CannotTell`] if none was judged; without, [`Answer::Holds`].
///
/// # Errors
/// If the experiment cannot be run, or a file cannot be written.
pub fn run(args: &LabArgs) -> Result<Answer> {
    let common = &CommonArgs::from_arg_matches(&args.matches)?;
    let baseline = common.baseline.as_deref().map(Baseline::read).transpose()?;
    std::fs::create_dir_all(&common.dir).with_context(|| format!("create the directory {}", common.dir.display()))?;
    let report = common.report_path(args.one.map_or(ALL, |one| one.name));
    if report.is_some() && common.report.is_none() {
        std::fs::create_dir_all(DIRECTORY).with_context(|| format!("create the directory {DIRECTORY}"))?;
    }
    try_to_write(common.json.as_deref(), report.as_deref())?;
    let mut progress = Progress::new();
    for left in data_in(&common.dir) {
        let what = "data of a run that was interrupted or failed: remove it if no lab runs there";
        progress.line(&format!("{} is {what}", left.display()));
    }
    let result = match args.one {
        None => all(common, args.matches.get_raw("target"), &mut progress),
        Some(one) => experiment(one, &args.matches, &mut progress).map(Done::of),
    };
    progress.finish();
    let mut done = result?;
    if let Some(baseline) = baseline {
        done.text.push_str(&baseline.text(&done.documents));
        for document in &mut done.documents {
            document.changes = baseline.changes(std::slice::from_ref(document));
        }
    }
    output(&done, common)?;
    if let Some(error) = done.failed {
        return Err(error);
    }
    if !common.check {
        return Ok(Answer::Holds);
    }
    let worst = worst(&done.documents);
    if worst.is_none() {
        say("--check: no claim was judged.");
    }
    Ok(worst.unwrap_or(Answer::CannotTell))
}

/// The worst answer to a claim; `None` if none was judged. One experiment of many may be left out.
fn worst(documents: &[Document]) -> Option<Answer> {
    documents.iter().filter(|document| !document.verdicts.is_empty()).map(Document::answer).max()
}

/// Fails if document or report cannot be written, or both are one file. An experiment may take
/// hours before they are.
fn try_to_write(json: Option<&Path>, report: Option<&Path>) -> Result<()> {
    let json = json.filter(|path| path.as_os_str() != "-");
    let same_path = json.is_some() && json == report;
    let mut tried = Vec::new();
    for path in json.into_iter().chain(report) {
        tried.extend(Tried::of(path)?);
    }
    let same_file = matches!(&tried[..], [json, report] if json.id == report.id);
    ensure!(!same_path && !same_file, "--json and --report are one file: the report would replace the document");
    Ok(())
}

/// A file that can be written.
struct Tried<'p> {
    path: &'p Path,
    /// The numbers of its device and its inode.
    id: [u64; 2],
    /// True if it was made to be tried; it is removed then. Until both are tried they are there, so
    /// that the second does not get the number of the first.
    is_new: bool,
}

impl Tried<'_> {
    /// `None` for what is no file, such as a pipe: it is opened once.
    fn of(path: &Path) -> Result<Option<Tried<'_>>> {
        let is_new = match path.metadata() {
            Ok(found) if !found.is_file() && !found.is_dir() => return Ok(None),
            // A link that leads nowhere stays, and the file is where it leads.
            found => found.is_err() && path.symlink_metadata().is_err(),
        };
        let opened = std::fs::File::options().append(true).create(true).open(path);
        let found = opened.and_then(|file| file.metadata()).with_context(|| format!("write {}", path.display()))?;
        Ok(Some(Tried { path, id: [found.dev(), found.ino()], is_new }))
    }
}

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if self.is_new {
            let _ = std::fs::remove_file(self.path);
        }
    }
}

/// Runs one experiment, and judges its claims.
fn experiment(one: &Experiment, matches: &ArgMatches, progress: &mut Progress) -> Result<Document> {
    let watch = Watch::start();
    let result = one.run(matches, progress);
    // Some experiments pin the thread that runs them; the next one must not begin on that core
    // alone.
    pin::unpin();
    let mut document = result?;
    document.judge(watch.conditions());
    Ok(document)
}

/// The result of a run.
struct Done {
    documents: Vec<Document>,
    /// True for all experiments: their JSON is a list, even of one.
    all: bool,
    /// What is printed.
    text: String,
    /// The first error, where the others go on.
    failed: Option<anyhow::Error>,
}

impl Done {
    fn of(mut document: Document) -> Done {
        document.command = command(std::env::args_os().skip(1));
        Done { text: answers::text(&document), documents: vec![document], all: false, failed: None }
    }
}

/// Runs all experiments on `target`, which is that of `common` as it was given. One that cannot be
/// run does not lose what the others have found: it is left out, and the first error is given
/// beside the documents.
fn all(common: &CommonArgs, target: Option<RawValues<'_>>, progress: &mut Progress) -> Result<Done> {
    ensure!(common.disk.is_none(), "all runs each experiment on the disk of its default; leave --disk out");
    let mut done = Done { documents: Vec::new(), all: true, text: String::new(), failed: None };
    let mut rest = Rest::new(common);
    for one in &EXPERIMENTS {
        let name = one.name;
        // A separate command line, so that each experiment gets its own defaults.
        let mut words = vec![OsString::from(name), "--seed".into(), common.seed.to_string().into()];
        words.extend(["--dir".into(), common.dir.clone().into_os_string()]);
        let flags =
            [(common.quick, "--quick"), (common.tiny, "--tiny"), (common.full, "--full"), (common.no_pin, "--no-pin")];
        words.extend(flags.iter().filter(|f| f.0).map(|f| OsString::from(f.1)));
        if common.target != TargetArg::Embedded {
            words.push("--target".into());
            words.extend(target.clone().into_iter().flatten().map(OsString::from));
        }
        let command = command(["lab".into()].into_iter().chain(words.iter().cloned()));
        let matches = one.command().try_get_matches_from(words).context("the arguments of an experiment")?;
        progress.line(&format!("== {name} =={}", rest.left()));
        let mut document = match left_out(one, &matches, progress)? {
            Some(document) => document,
            None => or_why_not(one, experiment(one, &matches, progress), &mut done.failed),
        };
        rest.did(one);
        document.command = command;
        done.text.push_str(&format!("== {name} ==\n\n{}\n", answers::text(&document)));
        done.documents.push(document);
    }
    done.text.push_str(&answers::summary(&done.documents));
    Ok(done)
}

/// How long the rest of all experiments takes.
struct Rest<'c> {
    common: &'c CommonArgs,
    forecast: Forecast,
    began: Instant,
}

impl Rest<'_> {
    fn new(common: &CommonArgs) -> Rest<'_> {
        let all = EXPERIMENTS.iter().map(|one| Rest::of(common, one)).sum();
        Rest { common, forecast: Forecast::of(all), began: Instant::now() }
    }

    /// The time of an experiment, about: none of one that does not run on the target.
    fn of(common: &CommonArgs, one: &Experiment) -> Duration {
        if (one.refuses)(&common.target).is_some() {
            return Duration::ZERO;
        }
        let [quick, default, full] = one.minutes;
        Duration::from_secs_f64(common.sized(quick, default, full) * 60.0)
    }

    fn did(&mut self, one: &Experiment) {
        self.forecast.did(self.began.elapsed().as_secs_f64(), Rest::of(self.common, one).as_secs_f64());
    }

    /// As the end of a line.
    fn left(&self) -> String {
        let left = self.forecast.left(self.began.elapsed().as_secs_f64());
        left.map_or_else(String::new, |seconds| format!(" about {} left for all", in_words(seconds)))
    }
}

/// What an experiment has found, or why it was not run to its end. The first error is kept.
fn or_why_not(one: &Experiment, result: Result<Document>, first: &mut Option<anyhow::Error>) -> Document {
    result.unwrap_or_else(|error| {
        let document = without_result(one, &format!("Not run to its end: {error:#}."));
        first.get_or_insert(error.context(format!("lab {}", one.name)));
        document
    })
}

/// A command line of the program, as a shell takes it, without the password of a server. Bytes that
/// are no text are replaced.
fn command(words: impl Iterator<Item = OsString>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    let word = |word: OsString| {
        let word = without_password(word.to_string_lossy().into_owned());
        if word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    ["holdfast".to_owned()].into_iter().chain(words.map(word)).collect::<Vec<_>>().join(" ")
}

/// `user:password@host` of an address of a server, with a word in place of the password.
fn without_password(word: String) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word };
    let Some((login, host)) = rest.rsplit_once('@') else { return word };
    let Some((user, _)) = login.split_once(':') else { return word };
    format!("{scheme}://{user}:PASSWORD@{host}")
}

/// Replaces the results of an experiment that does not run on that target, or cannot be run here
/// for lack of a server. Then the report has the other experiments.
fn left_out(one: &Experiment, matches: &ArgMatches, progress: &mut Progress) -> Result<Option<Document>> {
    let why = match one.refusal(matches)? {
        Some(why) => format!("{} {why}", one.name),
        None if one.needs_server && CommonArgs::from_arg_matches(matches)?.target == TargetArg::Embedded => {
            match turns::equip(progress) {
                Ok(_) => return Ok(None),
                Err(error) => format!("it needs a MariaDB server. {error:#}"),
            }
        }
        None => return Ok(None),
    };
    Ok(Some(without_result(one, &format!("Left out: {why}."))))
}

/// The document of an experiment that has no figures, and why.
fn without_result(one: &Experiment, why: &str) -> Document {
    let figures = Figures { words: vec![why.to_owned()], ..Figures::default() };
    let document = Document::new(one.name, json!({}), Machine::this(None));
    Document { title: one.about.to_owned(), ..document }.with_figures(figures)
}

fn output(done: &Done, common: &CommonArgs) -> Result<()> {
    // With the document on standard output, the text goes to standard error.
    let json_on_stdout = common.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if json_on_stdout {
        say(&done.text);
    } else if let Err(error) = writeln!(std::io::stdout().lock(), "{}", done.text)
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        // A reader that closed the pipe does not lose the document and the report.
        return Err(error).context("print the figures");
    }
    let one = done.documents.first().filter(|_| !done.all);
    // One that cannot be written does not lose the other.
    let json = common.json.as_ref().map_or(Ok(()), |path| {
        let written = match one {
            Some(document) => document::write_json(document, path),
            None => document::write_json(&done.documents, path),
        };
        written.with_context(|| format!("write {}", path.display()))
    });
    if let Some(path) = common.report_path(one.map_or(ALL, |document| &document.experiment)) {
        let page = one.map_or_else(|| report::page_of_all(&done.documents), report::page);
        std::fs::write(&path, page).with_context(|| format!("write the report {}", path.display()))?;
        say(&format!("report: {}", path.display()));
    }
    json?;
    if cfg!(debug_assertions) {
        say("This build is not optimised; its figures say nothing. Use `cargo run --release`.");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use crate::claims::{Bar, Claim, Evidence};
    use crate::conditions::Conditions;
    use crate::rig::site::DiskKind;

    use super::*;

    #[test]
    fn a_report_names_its_command_and_no_password() {
        let said = |words: &[&str]| command(words.iter().map(|&word| word.into()));
        assert_eq!(said(&["lab", "scan", "--seed=2"]), "holdfast lab scan --seed=2");
        let said = said(&["lab", "scan", "--target", "dsn:mysql://me:se:cr@t@host:3306/", "--dir", "it's here"]);
        assert_eq!(said, "holdfast lab scan --target dsn:mysql://me:PASSWORD@host:3306/ --dir 'it'\\''s here'");
    }

    /// A directory whose name is no text ended an experiment, after hours, with a panic.
    #[test]
    fn a_report_names_a_command_whose_words_are_no_text() {
        let word = |bytes: &[u8]| OsString::from(std::ffi::OsStr::from_bytes(bytes));
        let said = command([word(b"lab"), word(b"--dir"), word(b"d\xff")].into_iter());
        assert_eq!(said, "holdfast lab --dir 'd\u{fffd}'");
    }

    /// `--check` ended with 0 where nothing was judged, as if all claims held.
    #[test]
    fn a_run_without_a_verdict_says_nothing_of_its_claims() {
        let left_out = || without_result(&EXPERIMENTS[0], "Left out.");
        assert_eq!(worst(&[left_out(), left_out()]), None);
        let mut judged = left_out();
        judged.claims.push(Claim::new("a", Evidence::Counted(1.0), Bar::AtLeast(1.0)));
        judged.judge(Conditions::quiet_machine());
        assert_eq!(worst(&[left_out(), judged]), Some(Answer::Holds));
    }

    #[test]
    fn what_is_left_of_all_experiments_is_said_before_each() {
        let quick = CommonArgs::augment_args(Command::new(ALL)).get_matches_from([ALL, "--quick"]);
        let common = CommonArgs::from_arg_matches(&quick).unwrap();
        let mut rest = Rest::new(&common);
        let minutes: f64 = EXPERIMENTS.iter().map(|one| one.minutes[0]).sum();
        assert_eq!(rest.left(), format!(" about {} left for all", in_words(minutes * 60.0 - 0.5)));
        EXPERIMENTS.iter().for_each(|one| rest.did(one));
        assert_eq!(rest.left(), " about 0 s left for all");
        let there = CommonArgs { target: TargetArg::MariaDb, ..common };
        let soak = EXPERIMENTS.iter().find(|one| one.name == "soak").unwrap();
        assert_eq!(Rest::of(&there, soak), Duration::ZERO, "it is left out");
    }

    #[test]
    fn data_of_an_interrupted_run_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert!(data_in(&dir.path().join("missing")).is_empty());
        std::fs::write(dir.path().join("holdfast-lab-report.html"), "").unwrap();
        let kind = DiskKind::Real { dir: dir.path().to_owned(), method: holdfast::FlushMethod::Fsync };
        let made = kind.new_dir().unwrap().unwrap();
        assert_eq!(data_in(dir.path()), [made.path()]);
        drop(made);
        assert!(data_in(dir.path()).is_empty());
    }

    #[test]
    fn an_experiment_that_fails_leaves_a_document_and_the_first_error_is_told() {
        let mut first = None;
        for (one, why) in EXPERIMENTS.iter().zip(["the disk is full", "the server is gone"]) {
            let document = or_why_not(one, Err(anyhow::anyhow!(why)), &mut first);
            assert_eq!(document.experiment, one.name);
            let said = format!("Not run to its end: {why}.");
            assert_eq!(document.figures.words, [said]);
        }
        assert_eq!(format!("{:#}", first.unwrap()), format!("lab {}: the disk is full", EXPERIMENTS[0].name));
    }

    /// As after hours, where the reader of the document had closed the pipe, or its folder was
    /// gone.
    #[test]
    fn a_document_that_cannot_be_written_does_not_lose_the_report() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["gone/x.json", "x.html"].map(|name| dir.path().join(name).into_os_string());
        let [json, report] = paths.clone();
        let words: [OsString; 5] = [EXPERIMENTS[0].name.into(), "--json".into(), json, "--report".into(), report];
        let matches = EXPERIMENTS[0].command().try_get_matches_from(words).unwrap();
        let done = Done::of(without_result(&EXPERIMENTS[0], "Not run."));
        let error = output(&done, &CommonArgs::from_arg_matches(&matches).unwrap()).unwrap_err();
        assert!(format!("{error:#}").contains("x.json"), "{error:#}");
        assert!(Path::new(&paths[1]).is_file());
    }

    /// `--json x --report ./x` lost the document behind the report, after hours.
    #[test]
    fn document_and_report_are_two_files_whatever_their_paths_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let tried = |json: &Path, report: &Path| try_to_write(Some(json), Some(report));
        let refused = |json: &Path, report: &Path| {
            let error = tried(json, report).unwrap_err().to_string();
            assert!(error.starts_with("--json and --report are one file"), "{error}");
        };
        refused(&path("x"), &path("x"));
        let around = Path::new("..").join(dir.path().file_name().unwrap()).join("x");
        refused(&path("x"), &dir.path().join(around));
        tried(&path("x"), &path("y")).unwrap();
        tried(Path::new("-"), &path("x")).unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "what was made to be tried is removed");
        std::fs::write(path("x"), "").unwrap();
        std::os::unix::fs::symlink("x", path("link")).unwrap();
        refused(&path("link"), &path("x"));
        assert!(path("x").is_file());
        assert!(tried(&path("gone/x"), &path("y")).is_err());
    }

    #[test]
    fn what_does_not_run_on_a_target_is_left_out() {
        let left_out = |name: &str, target: &str| {
            let one = EXPERIMENTS.iter().find(|one| one.name == name).unwrap();
            let matches = one.command().try_get_matches_from([name, "--target", target]).unwrap();
            left_out(one, &matches, &mut Progress::hidden()).unwrap().map(|document| answers::text(&document))
        };
        let said = left_out("soak", "mariadb").unwrap();
        assert!(said.contains("Left out: soak runs on the embedded engine only"), "{said}");
        assert!(left_out("querycache", "mysql97").is_some());
        assert!(["scan", "iobound", "growth"].iter().all(|name| left_out(name, "dsn:mysql://me@host/").is_some()));
        for (name, target) in [("querycache", "mysql55"), ("sideload", "mariadb"), ("iobound", "mysql80")] {
            assert_eq!(left_out(name, target), None, "{name} on {target}");
        }
    }

    #[test]
    fn what_was_left_out_says_why() {
        let why = "Left out: it needs a MariaDB server. apt is not installed.";
        for one in &EXPERIMENTS {
            let document = without_result(one, why);
            let page = report::page_of_all(std::slice::from_ref(&document));
            for said in [answers::text(&document), page.clone()] {
                assert!(said.contains(why), "{}: {said}", one.name);
            }
            assert!(page.contains("<td class=\"n\">0 of 0</td>"), "{}: nothing holds of what was not run", one.name);
        }
    }
}
