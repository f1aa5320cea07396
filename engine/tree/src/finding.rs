//! What verification reports, and the set of pages that it has met.

use std::fmt;

use holdfast_base::{PageId, PageNo};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Stored bytes are wrong: data may be lost.
    Damage,
    /// Space is lost: nothing leads to pages that are allocated. A crash in the middle of a bulk
    /// load leaves such pages.
    Leak,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFinding {
    /// How bad it is.
    pub severity: Severity,
    /// The page where it shows.
    pub page: PageId,
    /// What is wrong, for people.
    pub what: String,
}

impl PageFinding {
    /// Stored bytes of `page` are wrong.
    #[must_use]
    pub fn damage(page: PageId, what: impl Into<String>) -> PageFinding {
        PageFinding { severity: Severity::Damage, page, what: what.into() }
    }

    pub(crate) fn leak(page: PageId, what: impl Into<String>) -> PageFinding {
        PageFinding { severity: Severity::Leak, page, what: what.into() }
    }
}

impl fmt::Display for PageFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of {}: {}", self.page.no, self.page.space.file_name(), self.what)
    }
}

/// A set of pages of one space: one bit each.
#[derive(Clone, Debug, Default)]
pub struct PageSet {
    words: Vec<u64>,
    len: u64,
}

impl PageSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> PageSet {
        PageSet::default()
    }

    /// Adds a page; false if it was there already.
    pub fn insert(&mut self, no: PageNo) -> bool {
        let (word, bit) = ((no.0 / 64) as usize, 1 << (no.0 % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.len += u64::from(new);
        new
    }

    /// True if a page is in it.
    #[must_use]
    pub fn contains(&self, no: PageNo) -> bool {
        self.words.get((no.0 / 64) as usize).is_some_and(|word| word & 1 << (no.0 % 64) != 0)
    }

    /// Takes those out that `other` does not have.
    pub fn keep_common(&mut self, other: &PageSet) {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter_mut().zip(others).for_each(|(word, other)| *word &= other);
        self.count();
    }

    /// Takes those out that `other` has.
    pub fn remove_all(&mut self, other: &PageSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= !other);
        self.count();
    }

    fn count(&mut self) {
        self.len = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
    }

    /// Its pages, ascending.
    pub fn iter(&self) -> impl Iterator<Item = PageNo> + '_ {
        let bits = |(n, &word): (usize, &u64)| (0..64).filter(move |bit| word & 1 << bit != 0).map(move |bit| (n, bit));
        self.words.iter().enumerate().flat_map(bits).map(|(n, bit)| PageNo(n as u32 * 64 + bit))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of memory that it takes: an eighth of the highest page number.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
