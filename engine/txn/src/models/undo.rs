//! What stands for an undo log: the history is explored without the pool.

/// A log of so many pages.
#[derive(Debug)]
pub(crate) struct UndoLog {
    pages: u64,
}

impl UndoLog {
    pub fn in_memory(pages: u64) -> UndoLog {
        UndoLog { pages }
    }

    pub fn pages(&self) -> usize {
        self.pages as usize
    }

    pub fn held_pages(&self) -> u64 {
        self.pages
    }

    pub fn asks_purge(&self) -> bool {
        false
    }
}
