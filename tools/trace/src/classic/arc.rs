//! ARC (Megiddo and Modha, FAST 2003), as the paper's figure 4 gives it.

use super::PerTouch;
use super::list::Lists;

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

pub(crate) struct Arc {
    lists: Lists<4>,
    c: usize,
    /// Target length of T1; real-valued, as in the paper.
    p: f64,
}

impl Arc {
    pub(crate) fn new(frames: usize, pages: usize) -> Arc {
        Arc { lists: Lists::new(pages), c: frames, p: 0.0 }
    }

    fn replace(&mut self, in_b2: bool) {
        let t1 = self.lists.len(T1);
        let (from, to) =
            if t1 > 0 && (t1 as f64 > self.p || (in_b2 && t1 as f64 >= self.p)) { (T1, B1) } else { (T2, B2) };
        if let Some(p) = self.lists.pop_back(from) {
            self.lists.push_front(to, p);
        }
    }

    fn make_room_for_new(&mut self) {
        let (l1, l2) = (self.lists.len(T1) + self.lists.len(B1), self.lists.len(T2) + self.lists.len(B2));
        if l1 == self.c {
            if self.lists.len(T1) < self.c {
                self.lists.pop_back(B1);
                self.replace(false);
            } else {
                self.lists.pop_back(T1);
            }
        } else if l1 + l2 >= self.c {
            if l1 + l2 == 2 * self.c {
                self.lists.pop_back(B2);
            }
            self.replace(false);
        }
    }
}

impl PerTouch for Arc {
    fn touch(&mut self, page: u32) -> bool {
        let (b1, b2) = (self.lists.len(B1), self.lists.len(B2));
        match self.lists.list_of(page) {
            Some(T1 | T2) => {
                self.lists.move_to_front(T2, page);
                return true;
            }
            Some(B1) => {
                self.p = (self.p + (b2 as f64 / b1 as f64).max(1.0)).min(self.c as f64);
                self.replace(false);
                self.lists.move_to_front(T2, page);
            }
            Some(_) => {
                self.p = (self.p - (b1 as f64 / b2 as f64).max(1.0)).max(0.0);
                self.replace(true);
                self.lists.move_to_front(T2, page);
            }
            None => {
                self.make_room_for_new();
                self.lists.push_front(T1, page);
            }
        }
        false
    }
}
