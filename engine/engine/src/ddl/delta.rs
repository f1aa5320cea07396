//! What happens to a table's rows while an index of them is built.
//!
//! Beside the index there is its *delta*: an index in which transactions that change rows note what
//! that does to entries, with undo, as they keep up any index. So it has no entries of transactions
//! that rolled back. The index itself is filled from one view, which is taken when the delta is
//! kept up already. What a later view sees of the delta about a key is the last word as of that
//! view: what goes is removed first, then what has come is put in. Where an earlier view has been
//! followed, only what it does not see alike is followed. When no transaction writes, an entry is a
//! duplicate only if both are there in the end.
//!
//! ```text
//! delta:  the entry's key -> u8 0: it has gone
//!                            u8 1, how many bytes of the key have to be unique (varint),
//!                            the entry's value
//! ```

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::codec::{Reader, Writer as _};
use holdfast_txn::{CursorOptions, FlushAtCommit, RowCursor, TableIndex, Txn, TxnOptions};

use crate::instance::Instance;
use crate::{Error, Result};

/// Changes of an index that are one transaction.
pub(crate) const BATCH: usize = 1024;

/// An entry that must not be there a second time: its key and its value.
pub(crate) type Refused = (Vec<u8>, Vec<u8>);

/// The visitor of the notes: gets a transaction for changes, the entry's key, and what is said
/// about it.
type Act<'a> = dyn FnMut(&mut Txn, &[u8], Note<'_>) -> Result<()> + 'a;

/// What the delta says about an entry.
enum Note<'v> {
    Gone,
    There { prefix: usize, value: &'v [u8] },
}

/// Notes that an entry has gone.
pub(crate) fn gone() -> Vec<u8> {
    vec![0]
}

/// Notes that an entry has come, or has another value.
pub(crate) fn there(prefix: usize, value: &[u8]) -> Vec<u8> {
    let mut out = vec![1];
    out.varint(prefix as u64);
    out.extend_from_slice(value);
    out
}

fn decode(note: &[u8]) -> Option<Note<'_>> {
    let mut r = Reader::new(note);
    match r.u8()? {
        0 => r.is_empty().then_some(Note::Gone),
        1 => {
            let prefix = usize::try_from(r.varint()?).ok()?;
            Some(Note::There { prefix, value: r.rest() })
        }
        _ => None,
    }
}

/// Brings `index`, which is as the delta says to `before`, to what it says to `now`; without
/// `before`, all that it says is followed. No other thread knows the index. An entry that is there
/// twice is left in `refused`. Returns how many notes were followed.
pub(crate) fn merge(
    instance: &Instance,
    index: &TableIndex,
    delta: &Arc<TableIndex>,
    mut before: Option<&mut Txn>,
    now: &mut Txn,
    refused: &mut Option<Refused>,
) -> Result<usize> {
    Notes::new(delta, before.as_deref_mut(), now)?.each(instance, &mut |txn, key, note| match note {
        Note::Gone => txn.delete(index, key, None).map(drop),
        Note::There { .. } => Ok(()),
    })?;
    Notes::new(delta, before, now)?.each(instance, &mut |txn, key, note| {
        let Note::There { prefix, value } = note else { return Ok(()) };
        if txn.update(index, key, value, None)? {
            return Ok(());
        }
        let put = if prefix < key.len() {
            txn.insert_unique(index, key, prefix, value)
        } else {
            txn.insert(index, key, value)
        };
        if matches!(put, Err(Error::DuplicateKey)) {
            *refused = Some((key.to_vec(), value.to_vec()));
        }
        put
    })
}

/// What one view sees of a delta and an earlier one does not.
struct Notes {
    now: RowCursor,
    before: Option<Before>,
}

impl Notes {
    fn new(delta: &Arc<TableIndex>, before: Option<&mut Txn>, now: &mut Txn) -> Result<Notes> {
        let all = |txn: &mut Txn| txn.cursor(delta, Bound::Unbounded, Bound::Unbounded, CursorOptions::default());
        let before = before.map(all).transpose()?;
        Ok(Notes { now: all(now)?, before: before.map(Before::new).transpose()? })
    }

    /// Shows each note, with a transaction for changes, and returns how many there are.
    fn each(mut self, instance: &Instance, act: &mut Act<'_>) -> Result<usize> {
        let mut shown = 0;
        loop {
            instance.txns.check_session()?;
            let mut txn = instance.begin(TxnOptions::default());
            let mut read = 0;
            while read < BATCH
                && let Some((key, note)) = self.now.next()?
            {
                read += 1;
                if let Some(before) = &mut self.before
                    && before.has(key, note)?
                {
                    continue;
                }
                let note = decode(note).ok_or_else(|| Error::damaged_file("delta", "a note that cannot be decoded"))?;
                act(&mut txn, key, note)?;
                shown += 1;
            }
            txn.commit(FlushAtCommit::Lazy)?;
            if read < BATCH {
                return Ok(shown);
            }
        }
    }
}

/// What an earlier view sees of a delta: keys that a later one sees, too, since no note is removed.
struct Before {
    cursor: RowCursor,
    /// The key and the note that the cursor has come to; none at its end.
    at: Option<(Vec<u8>, Vec<u8>)>,
}

impl Before {
    fn new(cursor: RowCursor) -> Result<Before> {
        let mut before = Before { cursor, at: None };
        before.step()?;
        Ok(before)
    }

    fn step(&mut self) -> Result<()> {
        self.at = self.cursor.next()?.map(|(key, note)| (key.to_vec(), note.to_vec()));
        Ok(())
    }

    /// True if the view sees this note; keys are asked for in ascending order.
    fn has(&mut self, key: &[u8], note: &[u8]) -> Result<bool> {
        while self.at.as_ref().is_some_and(|(at, _)| at.as_slice() < key) {
            self.step()?;
        }
        Ok(self.at.as_ref().is_some_and(|(at, seen)| at == key && seen == note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_an_entry_has_gone_says_no_more() {
        assert!(matches!(decode(&gone()), Some(Note::Gone)));
        assert!(matches!(decode(&there(3, b"value")), Some(Note::There { prefix: 3, value: b"value" })));
        let mut note = there(3, b"value");
        note[0] = 0;
        assert!(decode(&note).is_none());
    }
}
