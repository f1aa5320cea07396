//! Verification: walks over all nodes, with the key range that the parents give each, and reports
//! what does not fit.

use holdfast_base::{PageId, PageNo, Result};
use holdfast_pool::Access;

use super::Tree;
use crate::finding::{PageFinding, PageSet};
use crate::node::{NodeRef, fence_prefix_len};
use crate::overflow::OverflowRef;

/// Tells which overflow chain an entry (key, payload) refers to, if any.
pub type FindOverflow<'f> = dyn FnMut(&[u8], &[u8]) -> Option<OverflowRef> + 'f;

/// A node to look at, and what its parent says about it.
struct Task {
    no: PageNo,
    level: Option<u8>,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl Tree {
    /// Checks the whole tree: every node's layout, levels, the order of all keys against the bounds
    /// in the parents, and that no page is reached twice. Adds the reached pages to `reached`,
    /// those of overflow chains that `overflow` knows included. Damage goes to `sink`; pages behind
    /// it are not reached. Returns the number of entries seen. Structure changes wait meanwhile,
    /// other changes do not.
    ///
    /// # Errors
    /// Those of reading pages other than damage.
    pub fn verify(
        &self,
        acc: &Access<'_>,
        reached: &mut PageSet,
        overflow: &mut FindOverflow<'_>,
        sink: &mut dyn FnMut(PageFinding),
    ) -> Result<u64> {
        self.verify_while(acc, reached, overflow, sink, &|| Ok(()))
    }

    /// As [`Tree::verify`]; asks `go_on` before each node.
    ///
    /// # Errors
    /// As [`Tree::verify`]; those of `go_on`.
    pub fn verify_while(
        &self,
        acc: &Access<'_>,
        reached: &mut PageSet,
        overflow: &mut FindOverflow<'_>,
        sink: &mut dyn FnMut(PageFinding),
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<u64> {
        let _structure = self.lock_structure();
        let mut todo = vec![Task { no: self.root, level: None, low: None, high: None }];
        let mut entries = 0;
        while let Some(task) = todo.pop() {
            go_on()?;
            // A copy, so that nothing is latched while chains are followed.
            let page = match self.store().pool().fix_shared(self.space.space(), task.no, acc) {
                Ok(page) => page.to_vec(),
                Err(error) if error.is_damage() => {
                    if self.is_in_file(task.no)? {
                        reached.insert(task.no);
                    }
                    sink(self.finding(task.no, error.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Only now: the number of a page that exists, so the set grows no larger than the file.
            if !reached.insert(task.no) {
                sink(self.finding(task.no, "is reached twice"));
                continue;
            }
            let Some(node) = NodeRef::new(page.as_slice(), self.index) else {
                sink(self.finding(task.no, "a page that is no node of it"));
                continue;
            };
            match self.verify_node(node, &task) {
                Err(what) => sink(self.finding(task.no, what)),
                Ok(0) => entries += self.verify_leaf(node, acc, reached, overflow, sink)?,
                Ok(level) => todo.extend(children(node, level, &task)),
            }
        }
        Ok(entries)
    }

    /// Whether the file has such a page.
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

    fn verify_leaf(
        &self,
        node: NodeRef<'_, [u8]>,
        acc: &Access<'_>,
        reached: &mut PageSet,
        overflow: &mut FindOverflow<'_>,
        sink: &mut dyn FnMut(PageFinding),
    ) -> Result<u64> {
        let count = node.count().unwrap_or(0);
        for slot in 0..count {
            if let (Some(key), Some(payload)) = (node.key(slot), node.payload(slot))
                && let Some(chain) = overflow(&key, payload)
            {
                crate::overflow::verify_chain(&self.space, self.index, chain, acc, reached, sink)?;
            }
        }
        Ok(count as u64)
    }
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
