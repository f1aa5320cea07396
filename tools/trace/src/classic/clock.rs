//! CLOCK with one reference bit (second chance).

use super::PerTouch;
use super::list::Lists;

/// The clock as a list: the hand is at the back.
pub(crate) struct Clock {
    list: Lists<1>,
    used: Vec<bool>,
    frames: usize,
}

impl Clock {
    pub(crate) fn new(frames: usize, pages: usize) -> Clock {
        Clock { list: Lists::new(pages), used: vec![false; pages], frames }
    }
}

impl PerTouch for Clock {
    fn touch(&mut self, page: u32) -> bool {
        if self.list.list_of(page).is_some() {
            self.used[page as usize] = true;
            return true;
        }
        if self.list.len(0) == self.frames {
            while let Some(p) = self.list.pop_back(0) {
                if !std::mem::take(&mut self.used[p as usize]) {
                    break;
                }
                self.list.push_front(0, p);
            }
        }
        self.list.push_front(0, page);
        false
    }
}
