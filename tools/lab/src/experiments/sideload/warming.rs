//! When a table that was cold counts as warm: one rule for every subject.
//!
//! It is about what OLTP gets: how many of the pages that it asks for are in memory. Both counts of
//! the rule are of OLTP alone. A subject counts the reads of the hot table apart from those of the
//! table that is dumped (by file, by table or by index), and the dump commits nothing. Counters of
//! the whole pool contain what the dump reads. A list of the pool's content says the same, but not
//! every server has one, and one of InnoDB's pool takes long.

use crate::bench::Counters;

/// The rule, for readers.
pub const RULE: &str = "A table counts as warm once OLTP finds 99 of 100 of the pages that it asks for in memory: over 50 \
     transactions or more, each of which asks for some 20 pages, it reads less than 0.2 pages per transaction from disk.";

/// Most reads per transaction of a warm table. A transaction asks for ten rows, and for four ranges
/// of 100 rows on two or three pages each: some 20 pages.
const READS_PER_TRANSACTION: f64 = 0.2;
/// Fewest transactions that tell: of the 1,000 pages that they ask for, ten may be read.
const TRANSACTIONS: u64 = 50;
/// Rows on a page, about.
const ROWS_PER_PAGE: u32 = 80;

/// The counts of a warm-up.
#[derive(Debug, Default)]
pub(super) struct Warming {
    /// Transactions, and reads of the hot table.
    counted: Vec<(u64, u64)>,
}

impl Warming {
    /// A warm-up that begins with these counts.
    pub fn new(begin: &Counters) -> Warming {
        let mut warming = Warming::default();
        warming.add(begin);
        warming
    }

    /// The next counts. True if the table is warm. If reads are not counted, it is never known to
    /// be.
    pub fn add(&mut self, now: &Counters) -> bool {
        let Some(reads) = now.hot_reads else { return false };
        let since = |from: u64| now.commits.saturating_sub(from);
        self.counted.push((now.commits, reads));
        let before = self.counted.iter().rfind(|(commits, _)| since(*commits) >= TRANSACTIONS);
        before.is_some_and(|&(commits, read_before)| {
            (reads.saturating_sub(read_before) as f64) < READS_PER_TRANSACTION * since(commits) as f64
        })
    }

    /// True if nothing of a table of `rows` rows was read for as many transactions as it has pages.
    /// Each page was asked for some twenty times meanwhile, so none is left to be read.
    pub fn is_whole(&self, rows: u32) -> bool {
        let Some(&(commits, reads)) = self.counted.last() else { return false };
        let since = self.counted.iter().find(|(_, before)| *before == reads).map_or(commits, |(commits, _)| *commits);
        commits.saturating_sub(since) >= u64::from(rows / ROWS_PER_PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(commits: u64, hot_reads: u64) -> Counters {
        Counters { commits, hot_reads: Some(hot_reads), ..Counters::default() }
    }

    #[test]
    fn a_table_is_warm_when_one_page_of_a_hundred_is_read() {
        let mut warming = Warming::new(&counters(1000, 7));
        assert!(!warming.add(&counters(1050, 17)), "10 reads of 1,000 pages");
        assert!(warming.add(&counters(1100, 26)), "9 reads");
    }

    /// Three samples without a read were asked for: of a server whose OLTP asked for 20,000 pages a
    /// second and read 15 of them, the table was "not warm in 60 s".
    #[test]
    fn a_few_reads_of_very_many_pages_are_those_of_a_warm_table() {
        let mut warming = Warming::new(&counters(0, 0));
        assert!(!warming.add(&counters(500, 780)));
        assert!((1..20).all(|n| warming.add(&counters(500 + 500 * n, 780 + 8 * n))));
    }

    /// With a threshold of reads per second it would be warm: OLTP is so slow because it reads.
    #[test]
    fn a_collapsed_oltp_is_not_warm() {
        let mut warming = Warming::new(&counters(0, 0));
        assert!((1..200).all(|n| !warming.add(&counters(n, 19 * n))));
        assert!((1..50).all(|_| !warming.add(&counters(199, 19 * 199))), "one that stands still does not get warm");
    }

    #[test]
    fn reads_that_are_not_counted_tell_nothing() {
        let unknown = |commits| Counters { commits, ..Counters::default() };
        let mut warming = Warming::new(&unknown(0));
        assert!(!warming.add(&unknown(1000)) && !warming.is_whole(80));
    }

    #[test]
    fn a_table_is_whole_when_each_page_was_asked_for_and_none_was_read() {
        let mut warming = Warming::new(&counters(0, 90));
        warming.add(&counters(60, 100));
        warming.add(&counters(159, 100));
        assert!(!warming.is_whole(8000));
        warming.add(&counters(160, 100));
        assert!(warming.is_whole(8000));
        warming.add(&counters(161, 101));
        assert!(!warming.is_whole(8000));
    }

    #[test]
    fn the_guide_has_the_rule() {
        let guide = include_str!("../../../../../docs/user/lab.md").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(guide.contains(RULE), "the guide should say: {RULE}");
    }
}
