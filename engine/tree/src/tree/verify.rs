//! Verification: walks over all nodes, with the key range that the parents give each, and reports
//! what does not fit.
//!
//! # Turns
//! The walk holds the structure mutex, since it compares nodes with their parents. After every
//! [`TURN`] nodes it hands the mutex to a writer that waits for it, and it does not hold the mutex
//! while it follows chains: a large index takes minutes, and each writer that needs a split would
//! wait for the end. If the structure has changed then, the walk descends again to the node that
//! comes next.
//!
//! A node that is neither allocated nor freed meanwhile keeps its level, but for the root, and the
//! lower end of its range: a split gives away the upper part, a merge keeps the left node. So the
//! walk, which takes nodes in the order of their ranges and parents first, knows from level and
//! lower end whether it has seen a node. It comes to such a node again if that is above the next
//! one, or has taken in what follows it. A page that was freed meanwhile may be another node.

use std::cmp::Ordering;

use holdfast_base::blocking::release_to_waiter;
use holdfast_base::{PageId, PageNo, Result, thread};
use holdfast_pool::Access;

use super::Tree;
use crate::finding::{PageFinding, PageSet};
use crate::node::{NodeRef, fence_prefix_len};
use crate::overflow::OverflowRef;
use crate::space::AllocationWatch;

/// Tells which overflow chain an entry (key, payload) refers to, if any.
pub type FindOverflow<'f> = dyn FnMut(&[u8], &[u8]) -> Option<OverflowRef> + 'f;

/// Nodes that are looked at before structure changes have their turn.
const TURN: u32 = 64;

/// A node to look at, and what its parent says about it.
struct Task {
    no: PageNo,
    level: Option<u8>,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

/// Where a walk goes on after the structure has changed: at the node that would have been the next
/// one.
struct Place {
    level: u8,
    low: Option<Vec<u8>>,
}

impl Place {
    /// True if a node on this level, with this lower end, comes before the place.
    fn is_behind(&self, level: u8, low: Option<&[u8]>) -> bool {
        match low.cmp(&self.low.as_deref()) {
            Ordering::Less => true,
            Ordering::Equal => level > self.level,
            Ordering::Greater => false,
        }
    }

    /// True if a range that ends at `high` ends before the place.
    fn is_past(&self, high: Option<&[u8]>) -> bool {
        high.is_some_and(|high| Some(high) <= self.low.as_deref())
    }
}

/// How far a walk has come.
struct Progress<'t> {
    /// Where it went on when the structure had changed.
    from: Option<Place>,
    watch: AllocationWatch<'t>,
}

impl Progress<'_> {
    /// True if the walk has been at a node on this level, with this lower end. Of the root it does
    /// not know the level.
    fn has_seen(&self, level: Option<u8>, low: Option<&[u8]>) -> bool {
        self.from.as_ref().is_some_and(|from| level.is_none_or(|level| from.is_behind(level, low)))
    }

    /// The first key that the walk has not seen, if it went on in the middle.
    fn first(&self) -> Option<&[u8]> {
        self.from.as_ref().and_then(|from| from.low.as_deref())
    }

    fn is_past(&self, task: &Task) -> bool {
        self.from.as_ref().is_some_and(|from| from.is_past(task.high.as_deref()))
    }
}

impl Tree {
    /// Checks the whole tree: every node's layout, levels, the order of all keys against the bounds
    /// in the parents, and that no page is reached twice. Adds the reached pages to `reached`,
    /// those of overflow chains that `overflow` knows included. Damage goes to `sink`; pages behind
    /// it are not reached. Returns the number of entries seen. Other changes go on meanwhile, so
    /// what is found in a page that was allocated or freed since the call began means nothing
    /// ([`SpaceFile::watch`](crate::SpaceFile::watch)).
    ///
    /// # Errors
    /// The errors of reading pages other than damage.
    pub fn verify(
        &self,
        acc: &Access<'_>,
        reached: &mut PageSet,
        overflow: &mut FindOverflow<'_>,
        sink: &mut dyn FnMut(PageFinding),
    ) -> Result<u64> {
        self.verify_while(acc, reached, overflow, sink, &|| Ok(()))
    }

    /// As [`Tree::verify`]; asks `go_on` before each node and each chain, with nothing latched.
    ///
    /// # Errors
    /// The errors of [`Tree::verify`]; the errors of `go_on`.
    pub fn verify_while(
        &self,
        acc: &Access<'_>,
        reached: &mut PageSet,
        overflow: &mut FindOverflow<'_>,
        sink: &mut dyn FnMut(PageFinding),
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<u64> {
        let root = || Task { no: self.root, level: None, low: None, high: None };
        let mut progress = Progress { from: None, watch: self.space.watch() };
        let mut structure = self.hold_structure();
        let (mut todo, mut seen) = (vec![root()], *structure);
        let (mut entries, mut nodes) = (0, 0u32);
        while let Some(task) = todo.pop() {
            go_on()?;
            nodes = nodes.wrapping_add(1);
            if nodes.is_multiple_of(TURN) {
                release_to_waiter(structure);
                thread::yield_now();
                structure = self.hold_structure();
            }
            if *structure != seen
                && let Some(level) = task.level
            {
                if !progress.has_seen(task.level, task.low.as_deref()) {
                    progress.from = Some(Place { level, low: task.low });
                }
                (seen, todo) = (*structure, vec![root()]);
                continue;
            }
            let Some(page) = self.reach(&task, &progress, acc, reached, sink)? else { continue };
            let Some(node) = NodeRef::new(page.as_slice(), self.index) else {
                sink(self.finding(task.no, "a page that is no node of it"));
                continue;
            };
            match self.verify_node(node, &task) {
                Err(what) => sink(self.finding(task.no, what)),
                Ok(0) => {
                    let (count, chains) = entries_from(node, progress.first(), overflow);
                    entries += count;
                    if !chains.is_empty() {
                        // Which takes as long as the values are large.
                        drop(structure);
                        for chain in chains {
                            go_on()?;
                            crate::overflow::verify_chain(&self.space, self.index, chain, acc, reached, sink)?;
                        }
                        structure = self.hold_structure();
                    }
                }
                Ok(level) => {
                    let below = children(node, level, &task);
                    todo.extend(below.into_iter().filter(|task| !progress.is_past(task)));
                }
            }
        }
        Ok(entries)
    }

    /// Reads a node and adds it to `reached`. `None` if there is no more to be said about it.
    fn reach(
        &self,
        task: &Task,
        progress: &Progress<'_>,
        acc: &Access<'_>,
        reached: &mut PageSet,
        sink: &mut dyn FnMut(PageFinding),
    ) -> Result<Option<Vec<u8>>> {
        // A copy, so that nothing is latched while chains are followed.
        let page = match self.store().pool().fix_shared(self.space.space(), task.no, acc) {
            Ok(page) => page.to_vec(),
            Err(error) if error.is_damage() => {
                if self.is_in_file(task.no)? {
                    reached.insert(task.no);
                }
                sink(self.finding(task.no, error.to_string()));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // Only now: the number of a page that exists, so the set grows no larger than the file.
        let is_new = reached.insert(task.no);
        if is_new || progress.has_seen(task.level, task.low.as_deref()) || progress.watch.has_changed(task.no) {
            return Ok(Some(page));
        }
        sink(self.finding(task.no, "is reached twice"));
        Ok(None)
    }

    /// True if the file has such a page.
    fn is_in_file(&self, no: PageNo) -> Result<bool> {
        Ok(u64::from(no.0) * (self.page_size() as u64) < self.space.space().file().len()?)
    }

    fn finding(&self, no: PageNo, what: impl std::fmt::Display) -> PageFinding {
        PageFinding::damage(PageId::new(self.space.id(), no), format!("index {}: {what}", self.index))
    }

    /// The node itself, and against its parent. Returns its level.
    fn verify_node(&self, node: NodeRef<'_, [u8]>, task: &Task) -> Result<u8, String> {
        node.check()?;
        let level = node.level().ok_or("level out of range")?;
        if task.level.is_some_and(|expected| expected != level) {
            return Err(format!("it is on level {level}, its parent expects another"));
        }
        let prefix = node.prefix().ok_or("no prefix")?;
        let fence = fence_prefix_len(task.low.as_deref(), task.high.as_deref());
        if prefix.len() > fence || task.low.as_ref().is_some_and(|low| !low.starts_with(prefix)) {
            return Err("its prefix is not that of its key range".to_string());
        }
        let count = node.count().ok_or("no count")?;
        let first = usize::from(level > 0);
        if first < count {
            let (least, greatest) = (node.key(first).ok_or("no key")?, node.key(count - 1).ok_or("no key")?);
            let below = task.low.as_ref().is_some_and(|low| if level > 0 { least <= *low } else { least < *low });
            if below || task.high.as_ref().is_some_and(|high| greatest >= *high) {
                return Err("it has keys outside the range that its parents give it".to_string());
            }
        }
        Ok(level)
    }
}

/// How many entries of a leaf do not come before `first`, and the chains that they refer to.
fn entries_from(
    node: NodeRef<'_, [u8]>,
    first: Option<&[u8]>,
    overflow: &mut FindOverflow<'_>,
) -> (u64, Vec<OverflowRef>) {
    let (mut entries, mut chains) = (0, Vec::new());
    for slot in 0..node.count().unwrap_or(0) {
        let (Some(key), Some(payload)) = (node.key(slot), node.payload(slot)) else { continue };
        if first.is_none_or(|first| key.as_slice() >= first) {
            entries += 1;
            chains.extend(overflow(&key, payload));
        }
    }
    (entries, chains)
}

fn children(node: NodeRef<'_, [u8]>, level: u8, task: &Task) -> Vec<Task> {
    let count = node.count().unwrap_or(0);
    let mut tasks: Vec<Task> = Vec::with_capacity(count);
    for slot in (0..count).rev() {
        let Some(no) = node.child(slot) else { continue };
        let low = if slot > 0 { node.key(slot) } else { task.low.clone() };
        let high = tasks.last().map_or_else(|| task.high.clone(), |right| right.low.clone());
        tasks.push(Task { no, level: Some(level - 1), low, high });
    }
    tasks
}
