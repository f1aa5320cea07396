//! S3-FIFO (Yang et al., SOSP 2023) without a correlation window: small 10 %, ghost 0.9, two bits,
//! to main after two touches.

use super::PerTouch;
use super::list::Lists;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
const FREQ_MAX: u8 = 3;
const PROMOTE_AT: u8 = 2;

pub(crate) struct S3Fifo {
    lists: Lists<3>,
    freq: Vec<u8>,
    frames: usize,
    small: usize,
}

impl S3Fifo {
    pub(crate) fn new(frames: usize, pages: usize) -> S3Fifo {
        S3Fifo { lists: Lists::new(pages), freq: vec![0; pages], frames, small: (frames / 10).max(1) }
    }

    fn evict(&mut self) {
        if self.lists.len(SMALL) > self.small || self.lists.len(MAIN) == 0 {
            while let Some(p) = self.lists.pop_back(SMALL) {
                if self.freq[p as usize] < PROMOTE_AT {
                    self.lists.push_front(GHOST, p);
                    if self.lists.len(GHOST) > self.frames - self.small {
                        self.lists.pop_back(GHOST);
                    }
                    return;
                }
                self.freq[p as usize] = 0;
                self.lists.push_front(MAIN, p);
            }
        }
        while let Some(p) = self.lists.pop_back(MAIN) {
            if self.freq[p as usize] == 0 {
                return;
            }
            self.freq[p as usize] -= 1;
            self.lists.push_front(MAIN, p);
        }
    }
}

impl PerTouch for S3Fifo {
    fn touch(&mut self, page: u32) -> bool {
        let known = self.lists.list_of(page);
        if let Some(SMALL | MAIN) = known {
            self.freq[page as usize] = (self.freq[page as usize] + 1).min(FREQ_MAX);
            return true;
        }
        self.lists.remove(page);
        if self.lists.len(SMALL) + self.lists.len(MAIN) == self.frames {
            self.evict();
        }
        self.freq[page as usize] = 0;
        self.lists.push_front(if known.is_some() { MAIN } else { SMALL }, page);
        false
    }
}
