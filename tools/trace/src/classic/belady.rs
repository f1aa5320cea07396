//! Belady's optimum: it evicts the page whose next request is farthest away. It needs the future,
//! so no policy has fewer misses.

use std::collections::BinaryHeap;

use super::Cache;
use crate::trace::Request;

const NEVER: u32 = u32::MAX;

pub(crate) struct Belady<'a> {
    /// For each request the index of the next one for the same page. Shared by all cache sizes.
    next_use: &'a [u32],
    /// The next use of each resident page; `None` if not resident.
    resident: Vec<Option<u32>>,
    len: usize,
    /// (next use, page); an entry that is not the page's present next use is stale.
    heap: BinaryHeap<(u32, u32)>,
    frames: usize,
}

/// For each request the index of the next request for the same page.
pub(crate) fn next_uses(requests: &[Request], pages: usize) -> Vec<u32> {
    let mut next_of = vec![NEVER; pages];
    let mut next_use = vec![NEVER; requests.len()];
    for (i, r) in requests.iter().enumerate().rev() {
        next_use[i] = std::mem::replace(&mut next_of[r.page as usize], i as u32);
    }
    next_use
}

impl<'a> Belady<'a> {
    pub(crate) fn new(frames: usize, pages: usize, next_use: &'a [u32]) -> Belady<'a> {
        Belady { next_use, resident: vec![None; pages], len: 0, heap: BinaryHeap::new(), frames }
    }
}

impl Cache for Belady<'_> {
    fn request(&mut self, index: usize, r: &Request, _: u32) -> bool {
        let hit = self.resident[r.page as usize].is_some();
        if !hit {
            if self.len == self.frames {
                while let Some((next, page)) = self.heap.pop() {
                    if self.resident[page as usize] == Some(next) {
                        self.resident[page as usize] = None;
                        break;
                    }
                }
            } else {
                self.len += 1;
            }
        }
        let next = self.next_use[index];
        self.resident[r.page as usize] = Some(next);
        self.heap.push((next, r.page));
        hit
    }
}
