//! Checking a whole database.

use crate::Result;
use crate::core::Shared;

/// What to check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Only these tables; empty for all.
    pub tables: Vec<String>,
    /// Whether every index entry is compared with its row and every row with its entries, not only the pages with
    /// each other. Default true.
    pub entries: bool,
    /// Findings after which the check of a table breaks off. Default 100.
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
}

/// How far a check has come.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// The table being checked, or the engine's own part.
    pub table: String,
    /// Pages checked so far, in all.
    pub pages_done: u64,
    /// Pages that there are, in all.
    pub pages_total: u64,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Pages checked.
    pub pages: u64,
    /// Rows checked.
    pub rows: u64,
    /// Index entries checked.
    pub entries: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

pub(crate) fn verify(
    _shared: &Shared,
    _options: &VerifyOptions,
    _progress: &mut dyn FnMut(&VerifyProgress),
) -> Result<VerifyReport> {
    crate::core::stub()
}
