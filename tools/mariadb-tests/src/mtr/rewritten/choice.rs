//! Which tests of a suite are run on this engine: those that use tables of InnoDB, by themselves or
//! by what they include, and are not about InnoDB's own files, tables and variables.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::words::rewrite;

/// What a test that is left out contains, in small letters, and why that is a reason.
const ABOUT_INNODB: [(&str, &str); 26] = [
    ("have_debug.inc", "needs a debug build of the server"),
    ("have_debug_sync.inc", "needs a debug build of the server"),
    ("have_valgrind.inc", "needs a debug build of the server"),
    ("big_test.inc", "takes minutes; the runner leaves it out, too"),
    ("innodb_sys_", "reads InnoDB's dictionary"),
    ("innodb_metrics", "reads InnoDB's counters"),
    ("innodb_monitor_", "reads InnoDB's counters"),
    ("innodb_buffer_p", "is about InnoDB's buffer pool"),
    ("innodb_cmp", "is about InnoDB's compressed pages"),
    ("innodb_compression", "is about InnoDB's compressed pages"),
    ("page_compressed", "is about InnoDB's compressed pages"),
    ("key_block_size", "is about InnoDB's compressed pages"),
    ("innodb_encrypt", "is about InnoDB's encrypted files"),
    ("encrypted=", "is about InnoDB's encrypted files"),
    ("innodb_ft_", "is about InnoDB's full-text index"),
    ("innodb_table_stats", "reads InnoDB's tables of statistics"),
    ("innodb_index_stats", "reads InnoDB's tables of statistics"),
    (".ibd", "opens InnoDB's files"),
    ("ibdata", "opens InnoDB's files"),
    ("ib_logfile", "opens InnoDB's files"),
    ("ib_buffer_pool", "opens InnoDB's files"),
    ("innodb_force_recovery", "is about InnoDB's recovery"),
    ("innodb-force-recovery", "is about InnoDB's recovery"),
    ("innodb_undo_", "is about InnoDB's undo log"),
    ("innodb-undo-", "is about InnoDB's undo log"),
    ("innodb-read-only", "starts a server on InnoDB's files that must not be written"),
];

/// Ends of the names of tests that another engine has of its own: what they include names InnoDB,
/// they do not use it.
const OF_OTHERS: [&str; 5] = ["_myisam", "_memory", "_maria", "_aria", "_archive"];

/// The tests of a suite.
#[derive(Default)]
pub struct Choice {
    /// `suite.test`
    pub tests: Vec<String>,
    /// Reason -> tests that are left out for it.
    pub left_out: BTreeMap<&'static str, Vec<String>>,
}

impl Choice {
    /// Adds those of `suite`. `original` is the tree of tests as the server's package brings it.
    pub fn add(&mut self, original: &Path, suite: &str) -> anyhow::Result<()> {
        let folder = if suite == "main" { original.join("main") } else { original.join("suite").join(suite) };
        let tests = if folder.join("t").exists() { folder.join("t") } else { folder.clone() };
        ensure!(tests.exists(), "there is no suite {suite}");
        let mut found: Vec<PathBuf> = fs::read_dir(&tests)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
        found.retain(|p| p.extension() == Some(OsStr::new("test")));
        found.sort();
        for file in found {
            let sources = Sources::of(&file, &[original, &folder, &tests])?;
            let name = format!("{suite}.{}", file.file_stem().unwrap_or_default().to_string_lossy());
            let of_others = OF_OTHERS.iter().any(|end| name.ends_with(end)).then_some("is of another engine");
            let without = (!sources.needs_innodb).then_some("expects that InnoDB is not there");
            match of_others.or(without).or_else(|| sources.about_innodb()) {
                _ if !sources.name_engine => {}
                Some(reason) => self.left_out.entry(reason).or_default().push(name),
                None => self.tests.push(name),
            }
        }
        Ok(())
    }
}

/// A test, its options and all that it includes.
struct Sources {
    /// In small letters, so that what it contains can be looked for.
    text: String,
    name_engine: bool,
    /// True if InnoDB is switched on for it.
    needs_innodb: bool,
}

impl Sources {
    fn of(test: &Path, places: &[&Path]) -> anyhow::Result<Sources> {
        let mut sources = Sources { text: String::new(), name_engine: false, needs_innodb: false };
        let mut seen = BTreeSet::new();
        let stem = test.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut todo = vec![test.to_path_buf()];
        for option in [".opt", "-master.opt", "-slave.opt", ".cnf", ".combinations"] {
            let file = test.with_file_name(format!("{stem}{option}"));
            if file.exists() {
                todo.push(file);
            }
        }
        while let Some(file) = todo.pop() {
            if seen.insert(file.clone()) {
                sources.read(&file, places, &mut todo)?;
            }
        }
        Ok(sources)
    }

    fn read(&mut self, file: &Path, places: &[&Path], todo: &mut Vec<PathBuf>) -> anyhow::Result<()> {
        let bytes = fs::read(file).with_context(|| file.display().to_string())?;
        self.name_engine |= rewrite(&bytes).1;
        let text = String::from_utf8_lossy(&bytes);
        for line in text.lines() {
            self.needs_innodb |= matches!(line.trim(), "innodb" | "--innodb");
            let Some(name) = sourced(line) else { continue };
            self.needs_innodb |= name.contains("have_innodb");
            let beside = file.parent().into_iter();
            let found = beside.chain(places.iter().copied()).map(|place| place.join(name)).find(|p| p.is_file());
            if let Some(found) = found {
                // An include file can have a file of combinations.
                let combinations = found.with_extension("combinations");
                todo.extend(combinations.exists().then_some(combinations));
                todo.push(found);
            }
        }
        // What a comment says is not what a test does; which files it includes is.
        for line in text.lines().filter(|l| !l.trim_start().starts_with('#')) {
            self.text.push_str(&line.to_ascii_lowercase());
            self.text.push('\n');
        }
        Ok(())
    }

    fn about_innodb(&self) -> Option<&'static str> {
        ABOUT_INNODB.iter().find(|(word, _)| self.text.contains(word)).map(|(_, reason)| *reason)
    }
}

/// The file that a line of a test includes.
fn sourced(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches("--").trim_start();
    let (command, file) = line.split_once(char::is_whitespace)?;
    command.eq_ignore_ascii_case("source").then(|| file.trim().trim_end_matches(';').trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_included_file_is_found_in_both_ways_to_write_it() {
        assert_eq!(sourced("--source include/a.inc"), Some("include/a.inc"));
        assert_eq!(sourced("source include/a.inc;"), Some("include/a.inc"));
        assert_eq!(sourced("select 1;"), None);
    }
}
