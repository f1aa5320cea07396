//! Numbers about a tree: what a walk over all nodes counts, and what two descents estimate.

use std::ops::Bound;

use holdfast_base::{PageNo, Result};
use holdfast_pool::{Access, PageRead};

use super::Tree;
use super::descend::{LeafAt, LeafReader, Way};
use crate::node::{NodeRef, body_len};

/// Numbers about one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Nodes.
    pub pages: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of slots, records and prefixes.
    pub used_bytes: u64,
}

/// Numbers about a tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeStats {
    /// Levels; 1: the root is a leaf.
    pub height: u32,
    /// By level, leaves first.
    pub levels: Vec<LevelStats>,
    /// Bytes of a node's body, for the fill.
    pub body_len: u64,
}

impl TreeStats {
    /// All nodes.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.levels.iter().map(|level| level.pages).sum()
    }

    /// All entries of leaves.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.levels.first().map_or(0, |level| level.entries)
    }

    /// The part of the leaves' bodies that is in use, from 0 to 1.
    #[must_use]
    pub fn leaf_fill(&self) -> f64 {
        self.levels.first().map_or(0.0, |l| l.used_bytes as f64 / (l.pages * self.body_len).max(1) as f64)
    }
}

/// What two descents say about a range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Entries in the range, about.
    pub entries: u64,
    /// Entries in the tree, about.
    pub total: u64,
    /// Leaves of the range, about.
    pub leaves: u64,
}

/// Notes slot and count on each level.
struct Trail<'k> {
    key: Option<&'k [u8]>,
    /// Without a key: to the right end instead of the left one.
    to_end: bool,
    hops: Vec<(usize, usize)>,
}

impl Way for Trail<'_> {
    fn start(&mut self) {
        self.hops.clear();
    }

    fn choose<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>) -> Option<usize> {
        let count = node.count()?;
        let slot = match self.key {
            Some(key) => node.child_slot(key)?,
            None if self.to_end => count.checked_sub(1)?,
            None => 0,
        };
        self.hops.push((slot, count));
        Some(slot)
    }
}

/// Finds the position in the leaf.
struct Position<'k> {
    key: Option<&'k [u8]>,
    to_end: bool,
    /// A key that is there counts as before the position.
    behind: bool,
}

impl LeafReader for Position<'_> {
    type Out = (usize, usize);

    fn read<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>, _: &P, _: LeafAt) -> Option<(usize, usize)> {
        let count = node.count()?;
        let slot = match self.key {
            Some(key) => {
                let found = node.search(key)?;
                found.slot + usize::from(self.behind && found.exact)
            }
            None if self.to_end => count,
            None => 0,
        };
        Some((slot, count))
    }
}

/// The way to the leaf that lies at a fraction of the tree, all children of a node taken for equal.
struct AtFraction {
    at: f64,
    left: f64,
}

impl Way for AtFraction {
    fn start(&mut self) {
        self.left = self.at;
    }

    fn choose<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>) -> Option<usize> {
        let count = node.count()?;
        let place = self.left * count as f64;
        let slot = (place as usize).min(count.checked_sub(1)?);
        self.left = place - slot as f64;
        Some(slot)
    }
}

/// Copies all keys of a leaf.
struct CopyKeys<'o>(&'o mut Vec<Vec<u8>>);

impl LeafReader for CopyKeys<'_> {
    type Out = PageNo;

    fn read<P: PageRead + ?Sized>(&mut self, node: NodeRef<'_, P>, _: &P, at: LeafAt) -> Option<PageNo> {
        self.0.clear();
        for i in 0..node.count()? {
            let mut key = Vec::new();
            node.key_to(i, &mut key)?;
            self.0.push(key);
        }
        Some(at.no)
    }
}

/// So many looks for a leaf are made in a sample of a tree however small.
const LOOKS_MIN: usize = 1_000;
/// More looks than so many for each leaf find the same leaves again. An estimate of the leaves may
/// be too low, and nodes have more children here than there.
const LOOKS_PER_LEAF: u64 = 8;

impl Tree {
    /// Shows the keys of at most `leaves` leaves, spread evenly over the tree.
    ///
    /// # Errors
    /// Damage; the errors of reading pages.
    pub fn sample(&self, leaves: usize, acc: &Access<'_>, see: &mut dyn FnMut(&[Vec<u8>])) -> Result<()> {
        let mut looks = leaves;
        if looks > LOOKS_MIN {
            // The caller may want all of them, and not know how many there are.
            let all = self.estimate(Bound::Unbounded, Bound::Unbounded, acc)?.leaves;
            let most = usize::try_from(all.saturating_mul(LOOKS_PER_LEAF)).unwrap_or(usize::MAX);
            looks = looks.min(most.max(LOOKS_MIN));
        }
        let (mut keys, mut last) = (Vec::new(), None);
        for i in 0..looks {
            let mut way = AtFraction { at: (i as f64 + 0.5) / looks as f64, left: 0.0 };
            let leaf = self.read_leaf(&mut way, acc, &mut CopyKeys(&mut keys))?;
            if last.replace(leaf) != Some(leaf) {
                see(&keys);
            }
        }
        Ok(())
    }

    /// Estimates the number of entries between two bounds by one descent to each; exact if both are
    /// in one leaf.
    ///
    /// # Errors
    /// Damage; the errors of reading pages.
    pub fn estimate(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, acc: &Access<'_>) -> Result<Estimate> {
        let low = self.trail(from, false, acc)?;
        let high = self.trail(to, true, acc)?;
        if low.len() != high.len() {
            // The height changed between the descents: as good as nothing known.
            return self.estimate(Bound::Unbounded, Bound::Unbounded, acc);
        }
        Ok(combine(&low, &high))
    }

    /// (slot, count) on each level from the root to the leaf.
    fn trail(&self, bound: Bound<&[u8]>, to_end: bool, acc: &Access<'_>) -> Result<Vec<(usize, usize)>> {
        let (key, behind) = match bound {
            Bound::Included(key) => (Some(key), to_end),
            Bound::Excluded(key) => (Some(key), !to_end),
            Bound::Unbounded => (None, false),
        };
        let mut way = Trail { key, to_end, hops: Vec::new() };
        let leaf = self.read_leaf(&mut way, acc, &mut Position { key, to_end, behind })?;
        way.hops.push(leaf);
        Ok(way.hops)
    }

    /// Walks over all nodes and counts. Holds the structure mutex: no splits or merges meanwhile.
    ///
    /// # Errors
    /// Damage; the errors of reading pages.
    pub fn stats(&self, acc: &Access<'_>) -> Result<TreeStats> {
        let _structure = self.hold_structure();
        let mut stats = TreeStats { body_len: body_len(self.page_size()) as u64, ..TreeStats::default() };
        let mut todo = vec![(self.root, None)];
        while let Some((no, below)) = todo.pop() {
            self.count_node(no, below, acc, &mut stats, &mut todo)?;
        }
        stats.height = stats.levels.len() as u32;
        Ok(stats)
    }

    /// `below`: the level of the node that leads to this one. Levels fall, so damaged nodes make no
    /// circle.
    fn count_node(
        &self,
        no: PageNo,
        below: Option<usize>,
        acc: &Access<'_>,
        stats: &mut TreeStats,
        todo: &mut Vec<(PageNo, Option<usize>)>,
    ) -> Result<()> {
        let page = self.store().pool().fix_shared(self.space.space(), no, acc)?;
        let node = self.node(&page, no)?;
        let bad = || self.damaged(no, "a node whose slots make no sense");
        let (level, count) = (usize::from(node.level().ok_or_else(bad)?), node.count().ok_or_else(bad)?);
        if below.is_some_and(|below| level + 1 != below) {
            return Err(self.damaged(no, "a node of another level than its parent leads to"));
        }
        if stats.levels.len() <= level {
            stats.levels.resize(level + 1, LevelStats::default());
        }
        let sum = &mut stats.levels[level];
        sum.pages += 1;
        sum.entries += count as u64;
        sum.used_bytes += node.used_space().ok_or_else(bad)? as u64;
        if level > 0 {
            for slot in 0..count {
                todo.push((node.child(slot).ok_or_else(bad)?, Some(level)));
            }
        }
        Ok(())
    }
}

/// The entries between two trails of equal length: the slots between them where they part,
/// multiplied by the mean fan-out of the nodes seen below.
fn combine(low: &[(usize, usize)], high: &[(usize, usize)]) -> Estimate {
    let depth = low.len();
    let fan = |i: usize| ((low[i].1 + high[i].1) as f64 / 2.0).max(1.0);
    let below = |i: usize| (i + 1..depth).map(fan).product::<f64>();
    let total = (0..depth).map(fan).product::<f64>();
    let Some(parts) = (0..depth).find(|&i| low[i].0 != high[i].0) else {
        return Estimate { entries: 0, total: total as u64, leaves: 1 };
    };
    if low[parts].0 > high[parts].0 {
        return Estimate { entries: 0, total: total as u64, leaves: 0 };
    }
    // Whole subtrees strictly between, then the right part of the low side and the left part of the
    // high side.
    let between = |i: usize, n: usize| n as f64 * below(i);
    let last = depth - 1;
    let mut entries = 0.0;
    let mut leaves = 1.0;
    if parts == last {
        entries = (high[last].0 - low[last].0) as f64;
    } else {
        let per_leaf = fan(last);
        entries += between(parts, high[parts].0 - low[parts].0 - 1);
        for i in parts + 1..depth {
            let right = if i == last { low[i].1 - low[i].0.min(low[i].1) } else { low[i].1 - low[i].0 - 1 };
            entries += between(i, right) + between(i, high[i].0);
        }
        leaves += entries / per_leaf;
    }
    Estimate { entries: entries.round() as u64, total: total.round() as u64, leaves: leaves.round() as u64 }
}
