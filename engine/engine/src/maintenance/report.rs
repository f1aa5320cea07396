//! What a check of a database is asked, and what it answers.

/// What to check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Only these tables; empty for all, and the engine's own spaces.
    pub tables: Vec<String>,
    /// True if every index entry is compared with its row and every row with its entries, not only
    /// the pages with each other. Default true.
    pub entries: bool,
    /// Findings after which the check of a table breaks off, at least 1. Default 100.
    pub max_findings: usize,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions { tables: Vec::new(), entries: true, max_findings: 100 }
    }
}

impl VerifyOptions {
    /// Checks everything.
    #[must_use]
    pub fn new() -> VerifyOptions {
        VerifyOptions::default()
    }

    /// Checks only this table (and those named before).
    #[must_use]
    pub fn table(mut self, name: impl Into<String>) -> VerifyOptions {
        self.tables.push(name.into());
        self
    }

    /// Whether index entries are compared with rows.
    #[must_use]
    pub fn entries(mut self, on: bool) -> VerifyOptions {
        self.entries = on;
        self
    }
}

/// How far a check has come, or another work that goes through the pages of files.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// The table, or the engine's own part.
    pub table: String,
    /// Pages done so far, in all.
    pub pages_done: u64,
    /// Pages that there are, in all.
    pub pages_total: u64,
}

/// Told how far such a work has come.
pub(crate) type OnProgress<'a> = dyn Fn(&VerifyProgress) + 'a;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Finding {
    /// The table, or the engine's own part.
    pub table: String,
    /// What is wrong, and where.
    pub what: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// What is wrong; empty if all is well.
    pub findings: Vec<Finding>,
    /// Tables that were not checked, and files of the log that were not read, since the system
    /// refuses them to this user: that is no damage.
    pub refused: Vec<Finding>,
    /// Tables whose index entries were not compared with their rows, or not all of them, since each
    /// snapshot for that was given up ([`crate::Builder::version_limit_bytes`]): that is no damage.
    pub not_compared: Vec<Finding>,
    /// Pages read.
    pub pages: u64,
    /// Rows of tables found: those whose newest version is no deletion.
    pub rows: u64,
    /// Index entries found, likewise.
    pub entries: u64,
    /// Indexes, by table and name, of which only the entries were compared with rows and not the
    /// rows with entries: the program has neither created the table nor opened it for writing since
    /// the database was opened, so how entries are made is not known.
    pub half_checked: Vec<(String, String)>,
    /// Pages that are allocated although no tree leads to them: large values that only old versions
    /// still use, and what a crash in the middle of writing one left behind. Lost space at worst,
    /// which [`crate::Database::compact`] gives back.
    pub unreached_pages: u64,
}

impl VerifyReport {
    /// True if nothing is wrong, and everything was checked.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.unchecked().next().is_none()
    }

    /// What was not checked, although it may be sound.
    pub fn unchecked(&self) -> impl Iterator<Item = &Finding> {
        self.refused.iter().chain(&self.not_compared)
    }
}
