//! Memory for the images of pages on their way to disk.
//!
//! A batch takes up to a megabyte, and there are as many at a time as threads that write pages. On
//! the heap, freed batches fragment: later allocations split the gap, the next batch needs new
//! memory, and a process that writes pages for hours grows. So each batch has a mapping of its own,
//! and what is not kept for the next batch goes back to the system at once.

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, Result};
use memmap2::MmapMut;

/// Mappings kept for reuse, for each core: the removal of a mapping interrupts every core that runs
/// a thread of the process, which drops its translations of it.
const KEPT_PER_CORE: usize = 2;

/// Images of pages, one behind the other.
pub(crate) struct Images {
    map: MmapMut,
    len: usize,
}

impl Images {
    /// Adds a copy of `page`.
    ///
    /// # Panics
    /// If there are as many as there is memory for.
    pub(crate) fn push(&mut self, page: &[u8]) {
        self.map[self.len..][..page.len()].copy_from_slice(page);
        self.len += page.len();
    }

    /// All of them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map[..self.len]
    }

    /// All of them, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[..self.len]
    }
}

/// Where they come from, and go.
pub(crate) struct ImageMemory {
    bytes: usize,
    most: usize,
    kept: Mutex<Vec<MmapMut>>,
}

impl ImageMemory {
    /// Memory for batches of up to `pages` pages.
    pub(crate) fn new(pages: usize, page_size: usize) -> ImageMemory {
        let cores = holdfast_base::thread::cores();
        ImageMemory { bytes: pages * page_size, most: KEPT_PER_CORE * cores, kept: Mutex::default() }
    }

    /// Room for a batch.
    ///
    /// # Errors
    /// If the system has no memory.
    pub(crate) fn take(&self) -> Result<Images> {
        let kept = self.kept.lock().pop();
        let map = kept.map_or_else(|| MmapMut::map_anon(self.bytes), Ok);
        let map = map.map_err(|e| Error::io("map", "memory for images of pages", e))?;
        Ok(Images { map, len: 0 })
    }

    /// The batch is written.
    pub(crate) fn give(&self, images: Images) {
        let mut kept = self.kept.lock();
        if kept.len() < self.most {
            kept.push(images.map);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_the_images_that_were_put_there_and_none_of_the_batch_before() {
        let memory = ImageMemory::new(3, 4096);
        let mut images = memory.take().unwrap();
        (1..=3).for_each(|n| images.push(&[n; 4096]));
        images.bytes_mut()[4096] = 9;
        assert_eq!(images.bytes().iter().step_by(4096).copied().collect::<Vec<u8>>(), [1, 9, 3]);
        memory.give(images);
        let mut again = memory.take().unwrap();
        assert!(again.bytes().is_empty());
        again.push(&[5; 4096]);
        assert_eq!(again.bytes(), [5; 4096]);
    }

    #[test]
    fn no_more_is_kept_than_a_few_writers_need() {
        let memory = ImageMemory::new(1, 4096);
        let all: Vec<Images> = (0..2 * memory.most).map(|_| memory.take().unwrap()).collect();
        all.into_iter().for_each(|images| memory.give(images));
        assert_eq!(memory.kept.lock().len(), memory.most);
    }
}
