//! Verification of the undo space: the version tree and what was spilled from it, the directory of
//! undo logs, the logs that are not free, and their records. And of the version headers of an
//! index's entries, beside the structure of its tree.
//!
//! Transactions come and go meanwhile. Each log is judged by a copy of its first page, which
//! changes whenever a page is added to the log or taken from it: what does not fit together counts
//! only if that page is still as it was; otherwise the log is looked at again.

use std::ops::Bound;

use holdfast_base::page::{PageHeader, PageType};
use holdfast_base::{Error, HashMap, HashSet, PageId, PageNo, Result, RollPtr, SpaceId, TxnId};
use holdfast_pool::Access;
use holdfast_tree::node::NodeRef;
use holdfast_tree::{Direction, OverflowRef, PageFinding, PageSet, SpaceFile};

use crate::entry::index::TableIndex;
use crate::entry::reread::shown;
use crate::entry::row::VersionHeader;
use crate::entry::values;
use crate::purge::versions::spilled;
use crate::recovery::references::Kept;
use crate::system::TxnSystem;
use crate::undo::{Directory, LogState, UndoPage, UndoRecord, UndoSpace};

/// How often a log is read again that becomes another one while it is read.
const WALKS: usize = 64;
/// Entries of an index with bad headers that are reported.
const ENTRIES_REPORTED: usize = 100;
/// Entries whose undo records are looked up after a walk over their index, before more of them are
/// looked for.
const SUSPECTS_AT_ONCE: usize = 1_000;

/// The receiver of what is wrong.
type Sink<'a> = dyn FnMut(PageFinding) + 'a;

/// Says whether the content of an undo record may be.
type Judge<'a> = dyn Fn(UndoRecord<'_>) -> bool + 'a;

/// Entries, by their keys, whose undo records have to be looked up.
type Suspects = Vec<(Vec<u8>, VersionHeader)>;

/// What undo there was when the check of an index began.
struct Undo<'s> {
    /// Pages of the undo space.
    pages: u32,
    kept: Kept<'s>,
}

impl TxnSystem {
    /// Walks over everything in the undo space. Adds the pages that lead somewhere to `reached`,
    /// tells `sink` what is wrong. Returns the number of versions kept.
    ///
    /// # Errors
    /// The errors of reading pages other than damage.
    pub fn verify(&self, acc: &Access<'_>, reached: &mut PageSet, sink: &mut Sink<'_>) -> Result<u64> {
        let (versions, mut wrong) = (&self.purger.versions, Vec::new());
        let mut chain = |key: &[u8], value: &[u8]| -> Option<OverflowRef> {
            if let Err(what) = versions.check_entry(key, value, self.clock.next_id())
                && wrong.len() < ENTRIES_REPORTED
            {
                wrong.push(format!("index {}: the entry {} {what}", versions.tree().index(), shown(key)));
            }
            spilled(value)
        };
        let kept = versions.tree().verify(acc, reached, &mut chain, sink)?;
        let root = versions.tree().root();
        wrong.into_iter().for_each(|what| sink(self.undo.finding(root, what)));
        self.undo.verify(&|record: UndoRecord<'_>| self.is_of_versions(record), acc, reached, sink)?;
        Ok(kept)
    }

    /// True if a record's image, if there is one, is a version by a transaction that there was, and
    /// its chain, if the change wrote one, a reference to one and no more. What else an image says
    /// was copied from the entry, so the check of the index judges it.
    fn is_of_versions(&self, record: UndoRecord<'_>) -> bool {
        let is_version =
            |image| VersionHeader::decode(image).is_some_and(|(header, _)| header.txn < self.clock.next_id());
        let is_reference = |chain| values::decode(chain).is_ok_and(|(_, rest)| rest.is_empty());
        record.prior.is_none_or(is_version) && record.new_chain.is_none_or(is_reference)
    }

    /// Tells `sink` of those of the pages of a space, to which a check came by no way, that are not
    /// just lost:
    /// - a page of an undo log, or of the directory, in the undo space: what is not in the
    ///   directory is neither undone nor purged. No crash leaves such a page, since it is linked by
    ///   the mini-transaction that allocates it, and given back by the one that cuts it off;
    /// - a node above the root of its index: the root is another page then, and what is not below
    ///   the one that is taken for it is not read.
    ///
    /// # Errors
    /// The errors of [`SpaceFile::visit_unreached`]. What cannot be read is found where all pages
    /// are read.
    pub fn verify_unreached(
        &self,
        space: &SpaceFile,
        unreached: impl IntoIterator<Item = PageNo>,
        acc: &Access<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let is_undo = space.id() == self.undo.file().id();
        space.visit_unreached(unreached, acc, &mut |no, page| {
            let what = if is_undo && (UndoPage::new(page).is_some() || Directory::new(page).is_some()) {
                "it is of an undo log, or of their directory, and nothing leads to it"
            } else if self.is_above_root(page) {
                "it leads to the page that is taken for the root of its index, and nothing leads to it"
            } else {
                return;
            };
            sink(PageFinding::damage(PageId::new(space.id(), no), what));
        })
    }

    /// True if a page is a node that leads to the root of its index.
    fn is_above_root(&self, page: &[u8]) -> bool {
        let Some(PageHeader { page_type: PageType::Tree, index, .. }) = PageHeader::decode(page) else { return false };
        let versions = self.purger.versions.tree();
        let root = match self.index(index) {
            Some(index) => index.tree().root(),
            None if index == versions.index() => versions.root(),
            None => return false,
        };
        let node = NodeRef::assume(page);
        let leads = |slot| node.child(slot) == Some(root);
        node.is_leaf() == Some(false) && (0..node.count().unwrap_or(0)).any(leads)
    }

    /// Checks the tree of an index, and that the header of each entry is one that a transaction can
    /// have written: its writer's id was given out, and its roll pointer may be that of a record.
    /// While the writer is active, or its log waits for purge, the record has to be there, and says
    /// whether there is a delete mark: an entry without a body could have or lack one by one bit.
    /// A chain has at least as many references as versions of the entry refer to it. Adds the pages
    /// that are reached to `reached`, tells `sink` what is wrong, and returns the number of entries
    /// whose newest version is none that says that there is nothing.
    ///
    /// # Errors
    /// The errors of reading pages other than damage; the errors of [`TxnSystem::check_session`].
    pub fn verify_index(
        &self,
        index: &TableIndex,
        acc: &Access<'_>,
        reached: &mut PageSet,
        sink: &mut Sink<'_>,
    ) -> Result<u64> {
        let (mut suspects, mut wrong) = (Suspects::new(), Vec::new());
        let undo = Undo { pages: self.undo.file().header(acc)?.pages, kept: Kept::by(self, acc)? };
        let mut entries = 0;
        let mut look = |key: &[u8], payload: &[u8]| match self.look_at(payload) {
            Ok((header, chain)) => {
                entries += u64::from(!header.deleted);
                if suspects.len() < SUSPECTS_AT_ONCE && self.is_suspect(header, &undo) {
                    suspects.push((key.to_vec(), header));
                }
                chain
            }
            Err(what) => {
                if wrong.len() < ENTRIES_REPORTED {
                    wrong.push((key.to_vec(), what));
                }
                None
            }
        };
        index.tree().verify_while(acc, reached, &mut look, sink, &|| self.check_session())?;
        for (key, what) in wrong {
            report(index.damaged_entry(&key, what), sink)?;
        }
        let mut reported = 0;
        loop {
            reported += self.judge_suspects(index, &suspects, acc, sink)?;
            for (key, header) in &suspects {
                if let Some(error) = undo.kept.lacks_references(index, key, *header, acc)? {
                    report(error, sink)?;
                    reported += 1;
                }
            }
            // A large transaction has written more entries than are looked up at once.
            let may_be_more = suspects.len() == SUSPECTS_AT_ONCE && reported < ENTRIES_REPORTED;
            let Some((last, _)) = suspects.pop().filter(|_| may_be_more) else { return Ok(entries) };
            suspects = self.suspects_behind(index, &last, &undo, acc)?;
        }
    }

    /// True if the undo record of an entry with this header has to be looked up, or older versions
    /// that may share its chain.
    fn is_suspect(&self, header: VersionHeader, undo: &Undo<'_>) -> bool {
        let has_record = self.map.is_active(header.txn) || undo.kept.waits_for_purge(header.txn);
        header.roll.page().0 >= undo.pages || has_record || undo.kept.may_share(header)
    }

    /// The next suspects behind the key `after`. Damage of the tree ends the search: the walk over
    /// the tree reports it.
    fn suspects_behind(&self, index: &TableIndex, after: &[u8], undo: &Undo<'_>, acc: &Access<'_>) -> Result<Suspects> {
        let mut suspects = Suspects::new();
        let mut cursor = index.tree().cursor(acc);
        cursor.seek(Bound::Excluded(after), Direction::Forward);
        while suspects.len() < SUSPECTS_AT_ONCE {
            self.check_session()?;
            let (key, payload) = match cursor.next() {
                Ok(Some(entry)) => entry,
                Err(error) if !error.is_damage() => return Err(error),
                Ok(None) | Err(_) => break,
            };
            if let Some((header, _)) = VersionHeader::decode(payload)
                && self.is_suspect(header, undo)
            {
                suspects.push((key.to_vec(), header));
            }
        }
        Ok(suspects)
    }

    /// The header of an entry and the chain that it refers to, or what is wrong with it.
    fn look_at(&self, payload: &[u8]) -> Result<(VersionHeader, Option<OverflowRef>), String> {
        let Some((header, body)) = VersionHeader::decode(payload) else {
            return Err("has no version header, or a value under a delete mark".into());
        };
        // It was read before: what is on a page by now was given out by now. The message does not
        // name the next id, which grows: what is wrong is believed if the next look says the same.
        let next = self.clock.next_id();
        if header.txn >= next {
            if holdfast_base::planted!("finding-names-the-next-transaction") {
                return Err(format!("has a version by {:?}, and the next transaction is {next}", header.txn));
            }
            return Err(format!("has a version by {:?}, and there was no such transaction", header.txn));
        }
        let slots = self.undo.page_size() / 2;
        if !header.roll.is_none()
            && (header.txn == TxnId::NONE || header.roll.page() == PageNo(0) || header.roll.offset() >= slots)
        {
            return Err(format!("has a roll pointer, {:?}, that leads nowhere", header.roll));
        }
        if !header.overflow {
            return Ok((header, None));
        }
        match values::decode(body) {
            Ok((chain, _)) => Ok((header, Some(chain))),
            Err(_) => Err("has a reference to a large value that cannot be decoded".into()),
        }
    }

    /// Looks up the undo records of suspects, and tells `sink` of those whose roll pointer leads
    /// out of the undo space, whose record is of another kind of change, or not there while their
    /// writer is active or its log waits for purge. Returns how many there are.
    fn judge_suspects(
        &self,
        index: &TableIndex,
        suspects: &Suspects,
        acc: &Access<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<usize> {
        let (mut wrong, mut lacking) = (Vec::new(), Vec::new());
        for (key, header) in suspects {
            let (txn, roll) = (header.txn, header.roll);
            if roll.page().0 >= self.undo.file().header(acc)?.pages {
                let what = format_args!("has a roll pointer, {roll:?}, past the end of the undo space");
                wrong.push(index.damaged_entry(key, what));
                continue;
            }
            // Rollback passes over an index that is not registered, and cuts its records.
            if self.index(index.id()).is_none() {
                continue;
            }
            match self.undo.put_mark(txn, roll, index.id(), key, acc) {
                Ok(Some(mark)) if mark == header.deleted => {}
                Ok(Some(_)) if self.is_version(index, key, *header, acc)? => {
                    let what = format_args!("has a version by {txn:?} whose delete mark contradicts its undo record");
                    wrong.push(index.damaged_entry(key, what));
                }
                Ok(Some(_)) => {}
                Ok(None) => lacking.push((key, *header)),
                // The walk over the undo space reports it.
                Err(error) if (error.is_damage() || error.is_unread()) && !self.map.is_active(txn) => {}
                Err(error) if error.is_damage() => lacking.push((key, *header)),
                Err(error) => return Err(error),
            }
        }
        // It may have been undone, or purged: then the entry has changed, or no log has it.
        let waiting = self.waiting_records(&lacking);
        for (key, header) in lacking {
            let (txn, roll) = (header.txn, header.roll);
            let is_kept = self.map.is_active(txn) || waiting.contains(&(txn, roll));
            if is_kept && self.is_version(index, key, header, acc)? {
                let what = format_args!("has a version by {txn:?} without its undo record, {roll:?}");
                wrong.push(index.damaged_entry(key, what));
            }
        }
        let count = wrong.len();
        wrong.into_iter().try_for_each(|error| report(error, sink)).map(|()| count)
    }

    /// True if an entry's newest version has this header.
    fn is_version(&self, index: &TableIndex, key: &[u8], header: VersionHeader, acc: &Access<'_>) -> Result<bool> {
        let mut payload = Vec::new();
        let is_there = index.read(key, acc, &mut payload)?;
        Ok(is_there && VersionHeader::decode(&payload).is_some_and(|(now, _)| now == header))
    }

    /// Those of the records of these entries that are in logs which wait for purge.
    fn waiting_records(&self, entries: &[(&Vec<u8>, VersionHeader)]) -> HashSet<(TxnId, RollPtr)> {
        let mut of_writers: HashMap<TxnId, Vec<RollPtr>> = HashMap::default();
        for (_, header) in entries {
            of_writers.entry(header.txn).or_default().push(header.roll);
        }
        let mut waiting = HashSet::default();
        if !of_writers.is_empty() {
            self.purger.history.each(|log| {
                let rolls = of_writers.get(&log.txn()).map(|rolls| log.kept(rolls)).unwrap_or_default();
                waiting.extend(rolls.into_iter().map(|roll| (log.txn(), roll)));
            });
        }
        waiting
    }

    /// True if nothing but the newest versions is kept, and no transaction of an earlier run is
    /// unfinished.
    ///
    /// # Errors
    /// The errors of reading the version tree.
    pub fn keeps_nothing_old(&self) -> Result<bool> {
        Ok(!self.has_unfinished() && self.purger.keeps_nothing()?)
    }

    /// True if no old version may refer to a large value in `space`, as far as that is known at no
    /// great expense, and no transaction of an earlier run is unfinished.
    ///
    /// # Errors
    /// The errors of reading the version tree but for damage.
    pub fn keeps_nothing_old_of(&self, space: SpaceId) -> Result<bool> {
        Ok(!self.has_unfinished() && self.purger.keeps_nothing_of(space)?)
    }
}

/// Tells `sink` of damage.
fn report(error: Error, sink: &mut Sink<'_>) -> Result<()> {
    match error {
        Error::DamagedPage { page, what } => sink(PageFinding::damage(page, what)),
        error => return Err(error),
    }
    Ok(())
}

impl UndoSpace {
    fn verify(&self, judge: &Judge<'_>, acc: &Access<'_>, reached: &mut PageSet, sink: &mut Sink<'_>) -> Result<()> {
        let _kept = self.keep_logs();
        let mut no = self.first_directory(acc)?;
        while no != PageNo::NONE {
            let again = "the directory of undo logs comes back to it";
            let Some(page) = self.reach(no, again, acc, reached, sink)? else { return Ok(()) };
            let Some(directory) = Directory::new(&page) else {
                sink(self.finding(no, "it is no directory of undo logs"));
                return Ok(());
            };
            for first in directory.entries() {
                self.verify_log(first, judge, acc, reached, sink)?;
            }
            no = directory.next();
        }
        Ok(())
    }

    fn verify_log(
        &self,
        first: PageNo,
        judge: &Judge<'_>,
        acc: &Access<'_>,
        reached: &mut PageSet,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        if self.reach(first, "it begins two undo logs", acc, reached, sink)?.is_none() {
            return Ok(());
        }
        for _ in 0..WALKS {
            let mut extensions = PageSet::new();
            if !self.walk_log(first, judge, acc, &mut extensions, sink)? {
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

    /// Follows a log from its last page to its first, and adds those behind the first to
    /// `extensions`. False if the log has become another meanwhile, so that what was met means
    /// nothing.
    fn walk_log(
        &self,
        first: PageNo,
        judge: &Judge<'_>,
        acc: &Access<'_>,
        extensions: &mut PageSet,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let Some(head) = self.copy(first, acc, sink)? else { return Ok(true) };
        let Some((log, state)) = UndoPage::new(&head).and_then(|log| Some((log, log.standing()?.0))) else {
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
                (0..page.count()).all(|slot| page.record(slot).and_then(UndoRecord::decode).is_some_and(judge))
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

    /// Adds a page to `reached`, and returns a copy of it; `None` if it is damaged, or was reached
    /// before, which is what `again` says: `sink` was told. A number past the end of the file is
    /// not added, so the set grows no larger than the file.
    fn reach(
        &self,
        no: PageNo,
        again: &str,
        acc: &Access<'_>,
        reached: &mut PageSet,
        sink: &mut Sink<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let page = self.copy(no, acc, sink)?;
        if page.is_none() && !self.is_in_file(no)? {
            return Ok(None);
        }
        if !reached.insert(no) {
            sink(self.finding(no, again));
            return Ok(None);
        }
        Ok(page)
    }

    fn is_in_file(&self, no: PageNo) -> Result<bool> {
        Ok(u64::from(no.0) * (self.page_size() as u64) < self.file().space().file().len()?)
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

    fn finding(&self, no: PageNo, what: impl Into<String>) -> PageFinding {
        PageFinding::damage(PageId::new(self.file().id(), no), what)
    }
}
