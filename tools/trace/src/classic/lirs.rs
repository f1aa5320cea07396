//! LIRS (Jiang and Zhang, SIGMETRICS 2002): 1 % of the frames for resident HIR pages, history
//! unlimited.

use super::PerTouch;
use super::list::Lists;

const S: usize = 0;
const Q: usize = 0;

pub(crate) struct Lirs {
    /// The recency stack: all LIR pages, and HIR pages younger than the oldest LIR page.
    stack: Lists<1>,
    /// The resident HIR pages.
    queue: Lists<1>,
    lir: Vec<bool>,
    lir_len: usize,
    lir_max: usize,
    hir_max: usize,
}

impl Lirs {
    pub(crate) fn new(frames: usize, pages: usize) -> Lirs {
        let hir_max = (frames / 100).max(1);
        Lirs {
            stack: Lists::new(pages),
            queue: Lists::new(pages),
            lir: vec![false; pages],
            lir_len: 0,
            lir_max: frames.saturating_sub(hir_max),
            hir_max,
        }
    }

    /// Removes HIR pages from the bottom of the stack.
    fn prune(&mut self) {
        while let Some(p) = self.stack.back(S) {
            if self.lir[p as usize] {
                break;
            }
            self.stack.remove(p);
        }
    }

    /// The LIR page at the bottom becomes a resident HIR page.
    fn demote(&mut self) {
        if let Some(p) = self.stack.pop_back(S) {
            self.lir[p as usize] = false;
            self.lir_len -= 1;
            self.queue.push_front(Q, p);
            self.prune();
        }
    }

    fn promote(&mut self, page: u32) {
        self.lir[page as usize] = true;
        self.lir_len += 1;
        self.stack.move_to_front(S, page);
        if self.lir_len > self.lir_max {
            self.demote();
        }
    }
}

impl PerTouch for Lirs {
    fn touch(&mut self, page: u32) -> bool {
        if self.lir[page as usize] {
            self.stack.move_to_front(S, page);
            self.prune();
            return true;
        }
        let hit = self.queue.list_of(page).is_some();
        if !hit {
            if self.lir_len < self.lir_max && self.queue.len(Q) == 0 {
                self.promote(page);
                return false;
            }
            if self.queue.len(Q) >= self.hir_max {
                self.queue.pop_back(Q);
            }
        }
        if self.stack.list_of(page).is_some() {
            self.queue.remove(page);
            self.promote(page);
        } else {
            self.stack.push_front(S, page);
            self.queue.move_to_front(Q, page);
        }
        hit
    }
}
