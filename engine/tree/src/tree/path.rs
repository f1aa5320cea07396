//! The way from the root to a key as a structure change sees it. While the structure mutex is held,
//! inner nodes and key ranges do not change, so the path can be read with one shared latch at a
//! time and stays true.

use holdfast_base::{PageNo, Result};
use holdfast_pool::Access;

use super::Tree;

/// One node on the way.
#[derive(Debug)]
pub(super) struct Hop {
    pub no: PageNo,
    /// Slot of the child that the way takes; 0 in the last node.
    pub slot: usize,
    /// Entries at the time of looking; does not change in inner nodes.
    pub count: usize,
    /// The node's range: keys from here on ...
    pub low: Option<Vec<u8>>,
    /// ... and less than this.
    pub high: Option<Vec<u8>>,
}

/// The nodes from the root down to `level`, looked up by level.
#[derive(Debug)]
pub(super) struct Path {
    /// Root first.
    hops: Vec<Hop>,
    /// Level of the last one.
    bottom: u8,
}

impl Path {
    /// Level of the root.
    pub(super) fn root_level(&self) -> u8 {
        self.bottom + self.hops.len() as u8 - 1
    }

    /// The node on `level`.
    ///
    /// # Panics
    /// If the path does not reach that level.
    pub(super) fn at(&self, level: u8) -> &Hop {
        &self.hops[usize::from(self.root_level() - level)]
    }
}

impl Tree {
    /// The nodes on the way to `key`, down to `level` or, if the tree is lower, to its leaf. No
    /// latch is held afterwards; the caller holds the structure mutex.
    pub(super) fn path(&self, key: &[u8], level: u8, acc: &Access<'_>) -> Result<Path> {
        let (pool, space) = (self.store().pool(), self.space.space());
        let mut hops: Vec<Hop> = Vec::new();
        let (mut no, mut low, mut high) = (self.root, None, None);
        let mut above = None;
        loop {
            let page = pool.fix_shared(space, no, acc)?;
            let node = self.node(&page, no)?;
            let bad = || self.damaged(no, "a node whose slots make no sense");
            let here = node.level().ok_or_else(bad)?;
            if above.is_some_and(|above: u8| here + 1 != above) {
                return Err(self.damaged(no, "a node on a wrong level"));
            }
            let count = node.count().ok_or_else(bad)?;
            if here <= level {
                hops.push(Hop { no, slot: 0, count, low, high });
                return Ok(Path { hops, bottom: here });
            }
            let slot = node.child_slot(key).ok_or_else(bad)?;
            let child = node.child(slot).ok_or_else(bad)?;
            let child_low = if slot > 0 { Some(node.key(slot).ok_or_else(bad)?) } else { low.clone() };
            let child_high = if slot + 1 < count { Some(node.key(slot + 1).ok_or_else(bad)?) } else { high.clone() };
            hops.push(Hop { no, slot, count, low, high });
            (no, low, high) = (child, child_low, child_high);
            above = Some(here);
        }
    }
}
