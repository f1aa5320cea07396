//! 2Q, full version (Johnson and Shasha, VLDB 1994): Kin a quarter of the frames, Kout half of
//! them.

use super::PerTouch;
use super::list::Lists;

const IN: usize = 0;
const OUT: usize = 1;
const MAIN: usize = 2;

pub(crate) struct TwoQ {
    lists: Lists<3>,
    frames: usize,
    k_in: usize,
    k_out: usize,
}

impl TwoQ {
    pub(crate) fn new(frames: usize, pages: usize) -> TwoQ {
        TwoQ { lists: Lists::new(pages), frames, k_in: (frames / 4).max(1), k_out: frames / 2 }
    }

    fn make_room(&mut self) {
        if self.lists.len(IN) + self.lists.len(MAIN) < self.frames {
            return;
        }
        if (self.lists.len(IN) > self.k_in || self.lists.len(MAIN) == 0)
            && let Some(p) = self.lists.pop_back(IN)
        {
            self.lists.push_front(OUT, p);
            if self.lists.len(OUT) > self.k_out {
                self.lists.pop_back(OUT);
            }
        } else {
            self.lists.pop_back(MAIN);
        }
    }
}

impl PerTouch for TwoQ {
    fn touch(&mut self, page: u32) -> bool {
        match self.lists.list_of(page) {
            Some(MAIN) => self.lists.move_to_front(MAIN, page),
            Some(IN) => {}
            known => {
                self.lists.remove(page);
                self.make_room();
                self.lists.push_front(if known.is_some() { MAIN } else { IN }, page);
                return false;
            }
        }
        true
    }
}
