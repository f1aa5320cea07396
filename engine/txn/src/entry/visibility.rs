//! Which version of an entry a view sees: the newest, one of the undo logs or of the shelf, or one
//! of the version tree.
//!
//! # Protocol
//! The newest version comes from a copy of the leaf and may be out of date by the time it is
//! judged. So the chain is followed defensively: a roll pointer is believed only if the undo page
//! belongs to the version's writer and the record is about the key; if not, that log is on the
//! shelf, or it was purged - and what the view needs was put into the version tree before - or
//! rolled back. If it is the log of the newest version's writer, and that was active, start over.
//! Else, if the version tree has nothing either: the log of a writer that had committed was purged,
//! so there is nothing for this view; a newest version that has changed since means to start over.
//!
//! What no sound chain can be ends with an error: a writer whose id was never given out, versions
//! in a circle, a version of an active writer that is found again and again without its record (see
//! [`crate::entry::reread`]).
//!
//! Old versions are read as a scan reads, so that a dump cannot wash out the pool through the undo
//! logs.
//!
//! # Rows of the reader's own
//! A transaction may replace a version of a row that its view does not see: without snapshot
//! isolation a change acts on the newest committed version. From then on the row is the
//! transaction's own, and is read by its newest version. The entries that lead to it have version
//! chains of their own, and their writers are others where the change did not touch them: at the
//! view they would say what the row was. So the entries of such a row are read by their newest
//! versions, too. That is sound: the row's lock keeps all others from changing them.
//!
//! Whose row an entry leads to is asked only if it matters, by a look at the row: the newest
//! version of the entry is not visible, and the transaction has replaced such a version in the
//! table ([`Owner::has_replaced_unseen`]). If the newest version of the entry is visible, both
//! rules give that one.

use holdfast_base::{Error, Result, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind};

use crate::entry::index::TableIndex;
use crate::entry::reread::{Circle, Rereads};
use crate::entry::row::{VERSION_HEADER_LEN, VersionHeader, row_key_begin};
use crate::entry::values::{self, Part};
use crate::mvcc::commit_map::CommitMap;
use crate::mvcc::view::View;
use crate::system::TxnSystem;
use crate::undo::space::Prior;
use holdfast_lock::Owner;

/// What is in the payload of a version that can be shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The caller's buffer holds the payload, header included.
    Version,
    /// There is no entry for this view.
    Nothing,
    /// The entry has changed since it was read: read it again.
    Stale,
}

/// The reader of entries: what its view sees, and what it has written itself.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub view: &'a View,
    /// Its id; [`TxnId::NONE`] if it has written nothing.
    pub me: TxnId,
    pub owner: Option<&'a Owner>,
}

impl Reader<'_> {
    /// True if it sees versions written by `txn`.
    #[inline]
    pub fn sees(&self, txn: TxnId, map: &CommitMap) -> bool {
        (txn == self.me && self.me != TxnId::NONE) || self.view.sees(txn, map)
    }

    /// The rows that `index` leads to, if it has replaced versions of some that its view does not
    /// see.
    fn replaced_rows<'i>(&self, index: &'i TableIndex) -> Option<&'i TableIndex> {
        let rows = index.rows_led_to()?;
        self.owner?.has_replaced_unseen(rows.id()).then_some(rows)
    }
}

/// The header and body of a payload that a tree returned.
#[inline]
pub(crate) fn split<'p>(index: &TableIndex, payload: &'p [u8]) -> Result<(VersionHeader, &'p [u8])> {
    VersionHeader::decode(payload).ok_or_else(|| no_header(index))
}

#[cold]
fn no_header(index: &TableIndex) -> Error {
    Error::damaged_file(
        format!("index {}", index.id()),
        "an entry has no version header, or a value under a delete mark",
    )
}

impl TxnSystem {
    /// Reads the value of `key` that `reader` sees. Returns whether there is one.
    pub(crate) fn read_at(
        &self,
        index: &TableIndex,
        key: &[u8],
        reader: Reader<'_>,
        part: Part,
        acc: &Access<'_>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let view = reader.view;
        // The newest version is mostly the one: then the buffer that it was read into is the value,
        // but for the header.
        if !index.read(key, acc, value)? {
            value.clear();
            return view.check().map(|()| false);
        }
        let (newest, body) = split(index, value)?;
        let begin = values::begin_in_body(newest.overflow, body, part);
        let seen = reader.sees(newest.txn, &self.map);
        if seen && newest.deleted {
            value.clear();
            return view.check().map(|()| false);
        }
        if seen && let Some(begin) = begin {
            value.drain(..VERSION_HEADER_LEN + begin);
            return view.check().map(|()| true);
        }
        let mut payload = std::mem::take(value);
        let mut rereads = Rereads::default();
        loop {
            match self.version_at(index, key, &mut payload, reader)? {
                Seen::Version => {
                    self.value_of(index, &payload, part, Some(view), acc, value)?;
                    return Ok(true);
                }
                Seen::Stale if index.read(key, acc, &mut payload)? => {
                    rereads.again(index, key, Some(split(index, &payload)?.0))?;
                }
                Seen::Stale | Seen::Nothing => {
                    value.clear();
                    return view.check().map(|()| false);
                }
            }
        }
    }

    /// Copies the value of a version, or its head, from its chain if it is there. `view`: the one
    /// that sees the version.
    pub(crate) fn value_of(
        &self,
        index: &TableIndex,
        payload: &[u8],
        part: Part,
        view: Option<&View>,
        acc: &Access<'_>,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let (header, body) = split(index, payload)?;
        value.clear();
        let read = match values::begin_in_body(header.overflow, body, part) {
            Some(begin) => {
                value.extend_from_slice(&body[begin..]);
                Ok(())
            }
            None => values::read(index.tree().space(), index.id(), body, acc, value),
        };
        // A cancelled view's versions are freed under its hands: then that is the error, whatever
        // was read.
        view.map_or(Ok(()), View::check)?;
        read
    }

    /// Turns `payload`, the newest version of `key`, into the one that `reader` sees.
    pub(crate) fn version_at(
        &self,
        index: &TableIndex,
        key: &[u8],
        payload: &mut Vec<u8>,
        reader: Reader<'_>,
    ) -> Result<Seen> {
        let newest = split(index, payload)?.0;
        if reader.sees(newest.txn, &self.map) {
            return Ok(if newest.deleted { Seen::Nothing } else { Seen::Version });
        }
        self.check_writer(index, key, newest.txn)?;
        let Some(rows) = reader.replaced_rows(index) else {
            return self.older_version(index, key, payload, newest, reader);
        };
        if !newest.deleted {
            let own = self.leads_to_own(index, rows, key, payload, reader.me);
            if newest.overflow && !self.is_newest(index, key, newest)? {
                return Ok(Seen::Stale); // Its chain may have been freed while it was read.
            }
            if own? {
                return Ok(Seen::Version);
            }
            return self.older_version(index, key, payload, newest, reader);
        }
        // Under a delete mark nothing says where the row key begins: an older version does, if
        // there is one.
        let seen = self.older_version(index, key, payload, newest, reader)?;
        let own = seen == Seen::Version && self.leads_to_own(index, rows, key, payload, reader.me)?;
        Ok(if own { Seen::Nothing } else { seen })
    }

    /// True if the index key of an entry, of which `payload` is a live version, has `len` bytes.
    /// One that does not say so counts as if it had.
    pub(crate) fn has_index_key_of(
        &self,
        index: &TableIndex,
        key: &[u8],
        payload: &[u8],
        len: usize,
        acc: &Access<'_>,
    ) -> Result<bool> {
        if index.rows_led_to().is_none() {
            return Ok(true);
        }
        let mut value = Vec::new();
        self.value_of(index, payload, Part::Whole, None, acc, &mut value)?;
        Ok(row_key_begin(key, &value).is_none_or(|begin| begin == len))
    }

    /// True if the row that an entry leads to, of which `payload` is a live version, was written
    /// last by transaction `me`.
    fn leads_to_own(
        &self,
        index: &TableIndex,
        rows: &TableIndex,
        key: &[u8],
        payload: &[u8],
        me: TxnId,
    ) -> Result<bool> {
        let acc = self.store.pool().access(AccessKind::Point).with_stats(rows.access_stats());
        let mut value = Vec::new();
        self.value_of(index, payload, Part::Whole, None, &acc, &mut value)?;
        let begin = row_key_begin(key, &value).ok_or_else(|| {
            Error::damaged_file(format!("index {}", index.id()), "an entry does not say where its row key begins")
        })?;
        Ok(rows.read(&key[begin..], &acc, &mut value)? && split(rows, &value)?.0.txn == me)
    }

    /// True if `header` is that of the newest version of an entry.
    fn is_newest(&self, index: &TableIndex, key: &[u8], header: VersionHeader) -> Result<bool> {
        let acc = self.store.pool().access(AccessKind::Purge);
        let mut payload = Vec::new();
        Ok(index.read(key, &acc, &mut payload)? && split(index, &payload)?.0 == header)
    }

    /// Turns `payload`, the newest version of `key`, which `reader` does not see, into the one that
    /// its view sees.
    fn older_version(
        &self,
        index: &TableIndex,
        key: &[u8],
        payload: &mut Vec<u8>,
        newest: VersionHeader,
        reader: Reader<'_>,
    ) -> Result<Seen> {
        let Reader { view, .. } = reader;
        let sees = |txn: TxnId| reader.sees(txn, &self.map);
        let acc = self.store.pool().access(AccessKind::Purge);
        self.metrics.inc(Counter::VersionReads);
        // Asked before the undo log is read: a log whose owner had ended by then is not written to
        // any more.
        let was_active = self.map.is_active(newest.txn);
        let (mut version, mut circle) = (newest, Circle::default());
        loop {
            if circle.step(version) {
                let roll = version.roll;
                return Err(index.damaged_entry(key, format_args!("has versions in a circle, through {roll:?}")));
            }
            if circle.is_time_to_ask() && reader.owner.is_some_and(Owner::is_killed) {
                return Err(Error::Interrupted);
            }
            let prior = if version.roll.is_none() {
                Prior::Absent
            } else {
                self.purger.prior(version.txn, version.roll, index.id(), key, &acc, payload)?
            };
            match prior {
                Prior::Absent => return Ok(Seen::Nothing),
                Prior::Image => {
                    let record = version.roll;
                    version = split(index, payload)?.0;
                    if sees(version.txn) {
                        return Ok(if version.deleted { Seen::Nothing } else { Seen::Version });
                    }
                    if version.txn >= self.clock.next_id() {
                        return Err(self.undo.damaged(record.page()));
                    }
                }
                Prior::Gone => break,
            }
        }
        let first_gone = version.txn == newest.txn;
        if first_gone && was_active {
            // It was undone, and may have been done again under the same roll pointer; or it has
            // committed and is purged.
            view.check()?;
            return Ok(Seen::Stale);
        }
        let found = self.purger.versions.find(index.id(), key, view, &self.map, &acc, payload);
        if matches!(found, Ok(true)) {
            return Ok(Seen::Version);
        }
        view.check()?;
        if first_gone {
            // If it was undone, nothing was to be looked for, and an error of looking is none.
            if !self.is_newest(index, key, newest)? {
                return Ok(Seen::Stale);
            }
        }
        // Older writers have committed: their log is gone because it was purged.
        found?;
        self.purger.lost.check(view).map(|()| Seen::Nothing)
    }
}
