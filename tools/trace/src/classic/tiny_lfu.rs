//! W-TinyLFU (Einziger, Friedman and Manes, TOS 2017): a window LRU before a segmented LRU (80 %
//! protected). A page that leaves the window is admitted if the sketch has counted it more often
//! than the page that it would replace.

use super::PerTouch;
use super::list::Lists;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

pub(crate) struct TinyLfu {
    lists: Lists<3>,
    sketch: Sketch,
    frames: usize,
    window: usize,
    protected: usize,
}

impl TinyLfu {
    pub(crate) fn new(frames: usize, pages: usize, window_pct: usize) -> TinyLfu {
        let window = (frames * window_pct / 100).clamp(1, frames);
        let protected = (frames - window) * 8 / 10;
        TinyLfu { lists: Lists::new(pages), sketch: Sketch::new(frames), frames, window, protected }
    }

    fn shrink_window(&mut self) {
        if self.lists.len(WINDOW) <= self.window {
            return;
        }
        let Some(candidate) = self.lists.pop_back(WINDOW) else { return };
        let main = self.lists.len(PROBATION) + self.lists.len(PROTECTED);
        if main >= self.frames - self.window {
            let victim = self.lists.back(PROBATION).or(self.lists.back(PROTECTED));
            match victim {
                Some(v) if self.sketch.estimate(candidate) > self.sketch.estimate(v) => self.lists.remove(v),
                _ => return,
            }
        }
        self.lists.push_front(PROBATION, candidate);
    }
}

impl PerTouch for TinyLfu {
    fn touch(&mut self, page: u32) -> bool {
        self.sketch.add(page);
        match self.lists.list_of(page) {
            Some(PROBATION) => {
                self.lists.move_to_front(PROTECTED, page);
                if self.lists.len(PROTECTED) > self.protected
                    && let Some(p) = self.lists.pop_back(PROTECTED)
                {
                    self.lists.push_front(PROBATION, p);
                }
            }
            Some(list) => self.lists.move_to_front(list, page),
            None => {
                self.lists.push_front(WINDOW, page);
                self.shrink_window();
                return false;
            }
        }
        true
    }
}

/// A count-min sketch of counters up to 15, halved after ten touches per frame.
struct Sketch {
    rows: [Vec<u8>; 4],
    mask: u64,
    added: usize,
    sample: usize,
}

impl Sketch {
    fn new(frames: usize) -> Sketch {
        let width = (frames * 4).next_power_of_two().max(64);
        let row = || vec![0; width];
        Sketch { rows: [row(), row(), row(), row()], mask: width as u64 - 1, added: 0, sample: frames * 10 }
    }

    fn bucket(&self, row: usize, page: u32) -> usize {
        let h = (u64::from(page) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (row as u64) << 33 | 1);
        ((h ^ h >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20 & self.mask) as usize
    }

    fn estimate(&self, page: u32) -> u8 {
        (0..4).map(|row| self.rows[row][self.bucket(row, page)]).min().unwrap_or(0)
    }

    fn add(&mut self, page: u32) {
        let least = self.estimate(page);
        if least < 15 {
            for row in 0..4 {
                let bucket = self.bucket(row, page);
                let counter = &mut self.rows[row][bucket];
                *counter += u8::from(*counter == least);
            }
        }
        self.added += 1;
        if self.added == self.sample {
            self.rows.iter_mut().flatten().for_each(|c| *c /= 2);
            self.added /= 2;
        }
    }
}
