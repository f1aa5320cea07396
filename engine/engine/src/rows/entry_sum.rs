//! Whether two sets of entries are the same, without bringing them into the same order.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;

/// How many entries there are and what their hashes add up to, in whatever order they come. Two
/// sets that are not the same have the same sum with a probability of 2^-64.
///
/// What the rows of a table give for an index is compared with what the index has in two scans,
/// where a look for the entry of each row goes down a tree each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntrySum {
    /// Entries.
    pub count: u64,
    /// The sum of their hashes, modulo 2^64.
    pub hashes: u64,
}

impl EntrySum {
    /// Adds an entry.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.count += 1;
        self.hashes = self.hashes.wrapping_add(FixedState::with_seed(0).hash_one((key, value)));
    }
}

#[cfg(test)]
mod tests {
    use super::EntrySum;

    fn sum(entries: &[(&[u8], &[u8])]) -> EntrySum {
        let mut sum = EntrySum::default();
        entries.iter().for_each(|(key, value)| sum.add(key, value));
        sum
    }

    #[test]
    fn order_does_not_matter() {
        assert_eq!(sum(&[(b"a", b"1"), (b"b", b"2")]), sum(&[(b"b", b"2"), (b"a", b"1")]));
    }

    #[test]
    fn what_is_in_it_does() {
        let all = sum(&[(b"a", b"1"), (b"b", b"2")]);
        for other in [
            sum(&[(b"a", b"1")]),
            sum(&[(b"a", b"1"), (b"a", b"1")]),
            sum(&[(b"a", b"2"), (b"b", b"1")]),
            sum(&[(b"a1", b""), (b"b", b"2")]),
            sum(&[(b"a", b"1"), (b"b", b"2"), (b"", b"")]),
        ] {
            assert_ne!(other, all);
        }
    }
}
