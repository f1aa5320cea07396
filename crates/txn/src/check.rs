//! Verification of the undo space: the version tree and what was spilled from it, the directory of undo logs, the logs
//! that are not free, and their records.
//!
//! Transactions come and go meanwhile. Each log is judged by a copy of its first page, which changes whenever a page is added to the
//! log or taken from it: what does not fit together counts only if that page is still as it was; otherwise the log is looked at again.

use holdfast_base::{PageId, PageNo, Result};
use holdfast_pool::Access;
use holdfast_tree::{Finding, OverflowRef, PageSet};

use crate::system::TxnSystem;
use crate::undo::{Directory, LogState, UndoPage, UndoRecord, UndoSpace};
use crate::versions::spilled;

/// Times that a log is looked at which becomes another under the eyes of the one who looks.
const WALKS: usize = 64;

/// Who is told what is wrong.
type Sink<'a> = dyn FnMut(Finding) + 'a;

impl TxnSystem {
    /// Walks over everything in the undo space. Adds the pages that lead somewhere to `reached`, tells `sink` what is wrong. Returns the
    /// number of versions kept.
    ///
    /// # Errors
    /// Those of reading pages other than damage.
    pub fn verify(&self, acc: &Access<'_>, reached: &mut PageSet, sink: &mut Sink<'_>) -> Result<u64> {
        let mut chain = |_: &[u8], value: &[u8]| -> Option<OverflowRef> { spilled(value) };
        let versions = self.versions.tree().verify(acc, reached, &mut chain, sink)?;
        self.undo.verify(acc, reached, sink)?;
        Ok(versions)
    }

    /// Whether nothing but the newest versions is kept, and no transaction of an earlier run is unfinished.
    ///
    /// # Errors
    /// Those of reading the version tree.
    pub fn keeps_nothing_old(&self) -> Result<bool> {
        // A log in the hands of purge is in no list.
        let _purge = self.purge.lock();
        Ok(self.history.len() == 0 && self.shelf.is_empty() && !self.has_unfinished() && self.versions.is_empty()?)
    }
}

impl UndoSpace {
    fn verify(&self, acc: &Access<'_>, reached: &mut PageSet, sink: &mut Sink<'_>) -> Result<()> {
        let _kept = self.keep_logs();
        let mut no = self.first_directory(acc)?;
        while no != PageNo::NONE {
            if !reached.insert(no) {
                sink(self.finding(no, "the directory of undo logs comes back to it"));
                return Ok(());
            }
            let Some(page) = self.copy(no, acc, sink)? else { return Ok(()) };
            let Some(directory) = Directory::new(&page) else {
                sink(self.finding(no, "it is no directory of undo logs"));
                return Ok(());
            };
            for first in directory.entries() {
                self.verify_log(first, acc, reached, sink)?;
            }
            no = directory.next();
        }
        Ok(())
    }

    fn verify_log(&self, first: PageNo, acc: &Access<'_>, reached: &mut PageSet, sink: &mut Sink<'_>) -> Result<()> {
        if !reached.insert(first) {
            sink(self.finding(first, "it begins two undo logs"));
            return Ok(());
        }
        for _ in 0..WALKS {
            let mut extensions = PageSet::new();
            if !self.walk_log(first, acc, &mut extensions, sink)? {
                continue;
            }
            for no in extensions.iter() {
                if !reached.insert(no) {
                    sink(self.finding(no, format!("it is in the undo log that begins at page {first}, and elsewhere")));
                }
            }
            break;
        }
        Ok(())
    }

    /// Follows a log from its last page to its first, and adds those behind the first to `extensions`. False if the log has become
    /// another meanwhile, so that what was met means nothing.
    fn walk_log(&self, first: PageNo, acc: &Access<'_>, extensions: &mut PageSet, sink: &mut Sink<'_>) -> Result<bool> {
        let Some(head) = self.copy(first, acc, sink)? else { return Ok(true) };
        let Some((log, state)) = UndoPage::new(&head).and_then(|log| Some((log, log.state()?))) else {
            sink(self.finding(first, "it should begin an undo log"));
            return Ok(true);
        };
        if state == LogState::Free {
            return Ok(true);
        }
        let mut no = log.last();
        loop {
            let page = if no == first { Some(head.clone()) } else { self.copy(no, acc, sink)? };
            let Some(page) = page else { return Ok(true) };
            let undo = UndoPage::new(&page).filter(|page| page.owner() == log.owner());
            let sound = undo.is_some_and(|page| {
                (0..page.count())
                    .all(|slot| page.record(slot).is_some_and(|record| UndoRecord::decode(record).is_some()))
            });
            if !sound || (no != first && !extensions.insert(no)) {
                if self.copy(first, acc, sink)?.is_some_and(|now| now != head) {
                    return Ok(false);
                }
                sink(self.finding(no, format!("it does not fit the undo log that begins at page {first}")));
                return Ok(true);
            }
            match undo {
                Some(page) if no != first => no = page.prev(),
                _ => return Ok(true),
            }
        }
    }

    /// A copy of a page; `None` if it is damaged, which `sink` was told.
    fn copy(&self, no: PageNo, acc: &Access<'_>, sink: &mut Sink<'_>) -> Result<Option<Vec<u8>>> {
        match self.store().pool().fix_shared(self.file().space(), no, acc) {
            Ok(page) => Ok(Some(page.to_vec())),
            Err(error) if error.is_damage() => {
                sink(self.finding(no, error.to_string()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn finding(&self, no: PageNo, what: impl Into<String>) -> Finding {
        Finding::damage(PageId::new(self.file().id(), no), what)
    }
}
