//! The entries of the indexes of a table that is salvaged: which indexes can be copied, and copying
//! them.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::limits::key_len_max;
use holdfast_metrics::Local;
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::{Direction, PageSet};
use holdfast_txn::{TableIndex, Txn, VersionHeader, values};

use crate::Result;
use crate::instance::Instance;
use crate::instance::options::WriteOptions;
use crate::maintenance::pieces::is_loss;
use crate::maintenance::verify::check_trees;
use crate::rows::entries;
use crate::schema::handle::TableHandle;
use crate::session::retry;
use crate::session::transaction::Transaction;

/// Bytes of rows or entries written by one transaction, but for one of them.
pub(super) const BATCH: usize = 1 << 20;
/// Rows or entries written by one transaction.
pub(super) const BATCH_ROWS: usize = 1_000;
/// Looks at what others are changing: at an index before it is taken for damaged, at a page before
/// the newest versions of its rows are taken, at all pages while rows move between them.
pub(super) const LOOKS: usize = 3;

/// True if every page of an index can be read and fits the others, and every entry can be what a
/// transaction has written.
pub(super) fn is_intact(instance: &Instance, index: &Arc<TableIndex>) -> Result<bool> {
    let access = instance.pool().access(AccessKind::Maintenance);
    for _ in 0..LOOKS {
        let watch = index.tree().space().watch();
        let mut found = PageSet::new();
        let mut check = check_trees(&instance.txns, std::slice::from_ref(index));
        let checked = check(&access, &mut PageSet::new(), &mut |finding| {
            found.insert(finding.page.no);
        });
        found.remove_all(&watch.changed());
        match checked {
            Err(error) if is_loss(&error) => return Ok(false),
            Err(error) => return Err(error),
            Ok(_) if found.is_empty() => return Ok(true),
            Ok(_) => {}
        }
    }
    Ok(false)
}

/// True if the entries of an index that `view` sees are short enough for the target's pages. Of a
/// damaged index that cannot be told. Entries whose rows are too long, too, do not count: such rows
/// are refused.
pub(super) fn has_room(
    instance: &Instance,
    index: &Arc<TableIndex>,
    view: &mut Txn,
    target: &Instance,
) -> Result<bool> {
    let [own, max] = [instance, target].map(|instance| key_len_max(instance.meta.page_size));
    if max >= own || !is_intact(instance, index)? {
        return Ok(true);
    }
    let access = instance.pool().access(AccessKind::Maintenance);
    let is_too_long = |(key, value): &(Vec<u8>, Vec<u8>)| {
        key.len() > max && entries::split_entry(key, value).is_some_and(|(_, row)| row.len() <= max)
    };
    let mut after = None;
    loop {
        let (batch, last) = read_entries(index, view, after.as_deref(), &access)?;
        if batch.iter().any(is_too_long) {
            return Ok(false);
        }
        if last.is_none() {
            return Ok(true);
        }
        after = last;
    }
}

/// Copies the entries of an intact index whose rows are in the new table.
pub(super) fn copy_entries(
    instance: &Instance,
    index: &TableIndex,
    view: &mut Txn,
    target: &Local<Arc<Instance>>,
    copy: &TableHandle,
    no: usize,
) -> Result<()> {
    let begin = || Transaction::begin_write(target, &WriteOptions::default());
    let access = instance.pool().access(AccessKind::Maintenance);
    let mut after = None;
    loop {
        let (batch, last) = read_entries(index, view, after.as_deref(), &access)?;
        retry::transact(begin, |txn| {
            txn.enter(copy)?;
            for (key, value) in &batch {
                let Some((_, row)) = entries::split_entry(key, value) else { continue };
                if txn.contains(copy, row)? {
                    txn.put_entry(copy, no, key, value)?;
                }
            }
            Ok(())
        })?;
        if last.is_none() {
            return Ok(());
        }
        after = last;
    }
}

/// Entries with their values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Some of the live entries behind `after`, and the last key that was looked at, if there may be
/// more.
fn read_entries(
    index: &TableIndex,
    view: &mut Txn,
    after: Option<&[u8]>,
    access: &Access<'_>,
) -> Result<(Pairs, Option<Vec<u8>>)> {
    let (mut batch, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
    let mut cursor = index.tree().cursor(access);
    cursor.seek(after.map_or(Bound::Unbounded, Bound::Excluded), Direction::Forward);
    while let Some((key, payload)) = cursor.next()? {
        looked_at += 1;
        let payload = seen_version(view, index, key, payload, access)?.unwrap_or_default();
        if let Some((version, body)) = VersionHeader::decode(&payload).filter(|(version, _)| !version.deleted) {
            let mut value = body.to_vec();
            if version.overflow {
                values::read(index.tree().space(), index.id(), body, access, &mut value)?;
            }
            bytes += key.len() + value.len();
            batch.push((key.to_vec(), value));
        }
        if looked_at == BATCH_ROWS || bytes > BATCH {
            return Ok((batch, Some(key.to_vec())));
        }
    }
    Ok((batch, None))
}

/// The version of an entry that `view` sees, the newest one if that cannot be told; none if it sees
/// none. The tree of `index` is intact.
fn seen_version(
    view: &mut Txn,
    index: &TableIndex,
    key: &[u8],
    newest: &[u8],
    access: &Access<'_>,
) -> Result<Option<Vec<u8>>> {
    let mut newest = newest.to_vec();
    for _ in 0..LOOKS {
        let mut payload = newest.clone();
        if let Some(is_there) = view.seen_version(index, key, &mut payload) {
            return Ok(is_there.then_some(payload));
        }
        // It may have been undone since it was read.
        if !index.tree().get(key, access, &mut newest)? {
            return Ok(None);
        }
    }
    Ok(Some(newest))
}
