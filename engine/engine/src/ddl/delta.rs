//! What happens to a table's rows while an index of them is built.
//!
//! Beside the index there is its *delta*: an index in which transactions that change rows note what
//! that does to entries, with undo, as they keep up any index. So it has no entries of transactions
//! that rolled back. The index itself is filled from one view, which is taken when the delta is
//! kept up already. At the end, when no transaction writes, what the delta says about a key is the
//! last word: what goes is removed first, then what has come is put in, so that an entry is a
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
use holdfast_txn::{CursorOptions, FlushAtCommit, TableIndex, Txn, TxnOptions};

use crate::instance::Instance;
use crate::{Error, Result};

/// Changes of an index that are one transaction.
const BATCH: usize = 1024;

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
        0 => Some(Note::Gone),
        1 => {
            let prefix = usize::try_from(r.varint()?).ok()?;
            Some(Note::There { prefix, value: r.rest() })
        }
        _ => None,
    }
}

/// Brings `index` up to date. The table's rows do not change, and no other thread knows the index.
/// An entry that is there twice is left in `refused`.
pub(crate) fn merge(
    instance: &Instance,
    index: &TableIndex,
    delta: &Arc<TableIndex>,
    refused: &mut Option<Refused>,
) -> Result<()> {
    each(instance, delta, &mut |txn, key, note| match note {
        Note::Gone => txn.delete(index, key, None).map(drop),
        Note::There { .. } => Ok(()),
    })?;
    each(instance, delta, &mut |txn, key, note| {
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

/// Shows all that the delta says, with a transaction for changes.
fn each(instance: &Instance, delta: &Arc<TableIndex>, act: &mut Act<'_>) -> Result<()> {
    let mut reading = instance.begin(TxnOptions::snapshot());
    let mut cursor = reading.cursor(delta, Bound::Unbounded, Bound::Unbounded, CursorOptions::default())?;
    loop {
        instance.txns.check_session()?;
        let mut txn = instance.begin(TxnOptions::default());
        let mut seen = 0;
        while seen < BATCH
            && let Some((key, note)) = cursor.next()?
        {
            let note = decode(note).ok_or_else(|| Error::damaged_file("delta", "a note that cannot be decoded"))?;
            act(&mut txn, key, note)?;
            seen += 1;
        }
        txn.commit(FlushAtCommit::Lazy)?;
        if seen < BATCH {
            return Ok(());
        }
    }
}
