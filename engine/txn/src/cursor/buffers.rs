//! What cursors read into, kept by each thread for its next cursor: most are open for a few rows,
//! and would spend a quarter of their time with the allocator.

use std::cell::RefCell;

use holdfast_tree::Batch;

/// Most buffers that a thread keeps: a join has a cursor open for each of its tables.
const KEPT: usize = 8;
/// Larger ones are not kept: a thread that has read one long row must not hold its memory for ever.
const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    static SPARE: RefCell<Vec<Buffers>> = const { RefCell::new(Vec::new()) };
}

/// See the module's description. Empty when they are taken.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub batch: Batch,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Buffers {
    pub fn take() -> Buffers {
        SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }

    /// Keeps them for [`Buffers::take`], if there is room.
    pub fn give(mut self) {
        let bytes = self.batch.capacity() + self.key.capacity() + self.value.capacity();
        if bytes > KEPT_BYTES {
            return;
        }
        self.batch.clear();
        self.key.clear();
        self.value.clear();
        // A thread that ends has no spare ones any more.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
                spare.push(self);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        SPARE.with_borrow(Vec::len)
    }

    #[test]
    fn a_few_small_ones_are_kept_and_empty_when_taken() {
        let mut buffers = Buffers::take();
        buffers.value.extend_from_slice(&[1; 100]);
        buffers.give();
        let again = Buffers::take();
        assert!(again.value.is_empty() && again.value.capacity() >= 100);
        let large = Buffers { value: vec![0; KEPT_BYTES + 1], ..Buffers::default() };
        large.give();
        assert_eq!(kept(), 0);
        for _ in 0..2 * KEPT {
            Buffers::default().give();
        }
        assert_eq!(kept(), KEPT);
    }
}
