//! A check, and what it finds.

use std::fmt;

use crate::source::Tree;

/// A check: its name, what it demands, and the function that looks.
pub struct Check {
    pub name: &'static str,
    pub rule: &'static str,
    pub look: fn(&Tree) -> Vec<Finding>,
}

/// What a check found at a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: String,
    /// 1 is the first; 0 is the file as a whole.
    pub line: usize,
    pub what: String,
}

impl Finding {
    pub fn new(file: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { file: file.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { file, line, what } = self;
        match line {
            0 => write!(f, "{file}: {what}"),
            _ => write!(f, "{file}:{line}: {what}"),
        }
    }
}
