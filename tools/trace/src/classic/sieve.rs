//! SIEVE (Zhang et al., NSDI 2024): like CLOCK, but pages that are spared keep their position.

use super::PerTouch;
use super::list::Lists;

pub(crate) struct Sieve {
    list: Lists<1>,
    visited: Vec<bool>,
    hand: Option<u32>,
    frames: usize,
}

impl Sieve {
    pub(crate) fn new(frames: usize, pages: usize) -> Sieve {
        Sieve { list: Lists::new(pages), visited: vec![false; pages], hand: None, frames }
    }

    fn evict(&mut self) {
        let mut at = self.hand.or(self.list.back(0));
        while let Some(p) = at {
            let next = self.list.towards_front(p);
            if !std::mem::take(&mut self.visited[p as usize]) {
                self.hand = next;
                return self.list.remove(p);
            }
            at = next.or(self.list.back(0));
        }
    }
}

impl PerTouch for Sieve {
    fn touch(&mut self, page: u32) -> bool {
        if self.list.list_of(page).is_some() {
            self.visited[page as usize] = true;
            return true;
        }
        if self.list.len(0) == self.frames {
            self.evict();
        }
        self.list.push_front(0, page);
        false
    }
}
