//! The ghost: fingerprints of the keys of recently evicted pages, first in first out.
//!
//! A ring of 32-bit fingerprints keeps the order, and an open-addressing table of ring positions
//! the membership: about 12 to 20 bytes a key, and no allocation after [`Ghost::set_limit`]. Two
//! keys share a fingerprint with probability 2^-32. With a million keys remembered, one page in
//! four thousand is taken for a known one, which does no harm.

/// A bijective mix of all bits of a page key (the finalizer of MurmurHash3).
pub(crate) fn mix(key: u64) -> u64 {
    let mut h = key ^ key >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

/// The fingerprint of a key. Never 0, which marks a ring position without a key.
fn fingerprint(key: u64) -> u32 {
    ((mix(key) >> 32) as u32).max(1)
}

/// A ghost. Invariant: the table holds `position + 1` for exactly the ring positions whose
/// fingerprint is not 0, and linear probing from its home reaches each.
#[derive(Debug)]
pub(crate) struct Ghost {
    ring: Vec<u32>,
    /// The ring position of the next key, which is that of the oldest one.
    head: usize,
    /// `position + 1`, or 0 for an empty bucket. At most half full; a power of two long.
    table: Vec<u32>,
    len: usize,
}

impl Ghost {
    /// Creates a ghost that remembers the last `limit` keys.
    pub(crate) fn new(limit: usize) -> Ghost {
        let mut ghost = Ghost { ring: Vec::new(), head: 0, table: Vec::new(), len: 0 };
        ghost.set_limit(limit);
        ghost
    }

    /// The number of keys remembered.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The most keys that are remembered.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> usize {
        self.ring.len()
    }

    /// Remembers a key; forgets the oldest one if there are too many.
    pub(crate) fn insert(&mut self, key: u64) {
        if !self.ring.is_empty() {
            self.insert_fingerprint(fingerprint(key));
        }
    }

    /// True if the key was remembered; it no longer is.
    pub(crate) fn take(&mut self, key: u64) -> bool {
        if self.len == 0 {
            return false;
        }
        let fp = fingerprint(key);
        let mut bucket = self.home(fp);
        while self.table[bucket] != 0 {
            if self.ring[self.table[bucket] as usize - 1] == fp {
                self.clear(bucket);
                return true;
            }
            bucket = self.after(bucket);
        }
        false
    }

    /// Gives the positions of keys that were taken from among the last `reach` ones to the keys
    /// that come next. Otherwise each would cost the oldest key its place. Looks at `reach`
    /// positions.
    pub(crate) fn close_gaps(&mut self, reach: usize) {
        let positions = self.ring.len();
        let reach = reach.min(positions);
        let mut from = if self.head < reach { self.head + positions - reach } else { self.head - reach };
        let mut to = from;
        for _ in 0..reach {
            if self.ring[from] != 0 {
                if from != to {
                    let bucket = self.bucket_of(from);
                    self.table[bucket] = to as u32 + 1;
                    self.ring[to] = std::mem::take(&mut self.ring[from]);
                }
                to = self.position_after(to);
            }
            from = self.position_after(from);
        }
        self.head = to;
    }

    /// Changes how many keys are remembered, and keeps the newest of them.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        if limit == self.ring.len() {
            return;
        }
        let old = std::mem::take(&mut self.ring);
        let kept: Vec<u32> = old[self.head..].iter().chain(&old[..self.head]).copied().filter(|&fp| fp != 0).collect();
        self.ring = vec![0; limit];
        self.table = vec![0; if limit == 0 { 0 } else { (limit * 2).next_power_of_two() }];
        (self.head, self.len) = (0, 0);
        for &fp in &kept[kept.len().saturating_sub(limit)..] {
            self.insert_fingerprint(fp);
        }
    }

    fn insert_fingerprint(&mut self, fp: u32) {
        let position = self.head;
        if self.ring[position] != 0 {
            let bucket = self.bucket_of(position);
            self.clear(bucket);
        }
        self.ring[position] = fp;
        self.head = self.position_after(position);
        let mut bucket = self.home(fp);
        while self.table[bucket] != 0 {
            bucket = self.after(bucket);
        }
        self.table[bucket] = position as u32 + 1;
        self.len += 1;
    }

    fn position_after(&self, position: usize) -> usize {
        if position + 1 == self.ring.len() { 0 } else { position + 1 }
    }

    fn home(&self, fp: u32) -> usize {
        fp as usize & (self.table.len() - 1)
    }

    fn after(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.table.len() - 1)
    }

    /// The bucket of a ring position in use.
    fn bucket_of(&self, position: usize) -> usize {
        let mut bucket = self.home(self.ring[position]);
        while self.table[bucket] != position as u32 + 1 {
            bucket = self.after(bucket);
        }
        bucket
    }

    /// Empties a bucket in use and its ring position; later entries of the probe sequence move up.
    fn clear(&mut self, bucket: usize) {
        self.ring[self.table[bucket] as usize - 1] = 0;
        self.len -= 1;
        let (mut hole, mut next) = (bucket, self.after(bucket));
        while self.table[next] != 0 {
            let home = self.home(self.ring[self.table[next] as usize - 1]);
            let mask = self.table.len() - 1;
            // `next` may move to the hole only if its home is not between the two.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.table[hole] = self.table[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.table[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// The keys remembered, the oldest first.
    fn in_order(ghost: &Ghost) -> Vec<u32> {
        ghost.ring[ghost.head..].iter().chain(&ghost.ring[..ghost.head]).copied().filter(|&fp| fp != 0).collect()
    }

    #[test]
    fn the_places_of_new_keys_that_were_taken_are_used_again() {
        let mut ghost = Ghost::new(8);
        (0..8).for_each(|key| ghost.insert(key));
        assert!(ghost.take(5) && ghost.take(6));
        ghost.close_gaps(4);
        (10..12).for_each(|key| ghost.insert(key));
        let all = [0, 1, 2, 3, 4, 7, 10, 11];
        assert_eq!(in_order(&ghost), all.map(fingerprint));
        assert!(all.iter().all(|&key| ghost.take(key)));
    }

    proptest! {
        #[test]
        fn it_is_a_bounded_fifo_set(ops in prop::collection::vec((0u8..9, 0u64..60), 0..400), limit in 0usize..24) {
            let mut ghost = Ghost::new(limit);
            // Positions: a key that was taken leaves its position empty until the ring comes round.
            let mut model: VecDeque<Option<u64>> = VecDeque::new();
            for (op, key) in ops {
                match op {
                    0..4 => {
                        if !model.contains(&Some(key)) {
                            ghost.insert(key);
                            model.push_back(Some(key));
                        }
                    }
                    4..7 => {
                        let known = model.iter_mut().find(|k| **k == Some(key));
                        prop_assert_eq!(ghost.take(key), known.is_some());
                        if let Some(k) = known {
                            *k = None;
                        }
                    }
                    7 => {
                        let before = in_order(&ghost);
                        ghost.close_gaps(key as usize % 30);
                        prop_assert_eq!(in_order(&ghost), before);
                    }
                    _ => {
                        model.retain(Option::is_some);
                        ghost.set_limit(key as usize % 24);
                        if ghost.limit() == 0 { model.clear(); }
                    }
                }
                while model.len() > ghost.limit() {
                    model.pop_front();
                }
                let live = model.iter().flatten().count();
                prop_assert!(ghost.len() <= ghost.limit());
                // A change of the limit closes the gaps, so the real one may remember a little
                // longer.
                prop_assert!(ghost.len() >= live);
                for key in model.iter().flatten() {
                    prop_assert!(ghost.ring.contains(&fingerprint(*key)));
                }
                model.clear();
                let in_order = ghost.ring[ghost.head..].iter().chain(&ghost.ring[..ghost.head]);
                model.extend(in_order.map(|&fp| (0..60).find(|&k| fingerprint(k) == fp)));
            }
        }
    }
}
