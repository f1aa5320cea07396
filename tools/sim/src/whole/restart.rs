//! What a restart must keep of prepared transactions: of each that was prepared durably either all,
//! invisible and locked, or what was decided, and never a part.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use holdfast::raw::{RawDatabase, RawLock, RawOptions};
use holdfast::{Error, FlushAtCommit, Isolation};

use super::history::{Coverage, End, Item, Txn, Version};
use super::places;
use super::plan::Dice;
use super::raw_rows::RawRows;
use super::xa::number_in;

/// Says of each transaction how it has ended, now that the prepared ones are listed; returns those
/// that wait.
///
/// # Errors
/// A name that was not given; a prepared transaction that is lost, or there although that was
/// decided.
pub(super) fn settle(txns: &mut [Txn], listed: &[Vec<u8>], closed: bool) -> anyhow::Result<Vec<Txn>> {
    let mut waiting = Vec::new();
    for xid in listed {
        let known = txns.iter().any(|txn| txn.prepared.as_ref().is_some_and(|(name, _)| name == xid));
        ensure!(known, "a transaction is listed as prepared that was not: {:?}", number_in(xid));
    }
    for txn in txns {
        let Some((xid, flush)) = &txn.prepared else { continue };
        let durable = closed || *flush == FlushAtCommit::Sync;
        if listed.contains(xid) {
            let may_be = match txn.end {
                End::Open | End::Unknown | End::InDoubt | End::Prepared(_) => true,
                End::Committed(flush) => !closed && flush != FlushAtCommit::Sync,
                End::Aborted => !durable,
            };
            ensure!(may_be, "transaction {} is prepared, though its end was {:?}", txn.number, txn.end);
            txn.end = End::Prepared(FlushAtCommit::Sync);
            txn.prepared = Some((xid.clone(), FlushAtCommit::Sync));
            waiting.push(txn.clone());
            continue;
        }
        txn.end = match txn.end {
            End::Prepared(_) if durable => bail!("the prepared transaction {} is lost", txn.number),
            End::Prepared(_) | End::InDoubt => End::Aborted,
            // It was prepared, so it has been decided.
            End::Committed(_) | End::Unknown if durable => End::Committed(FlushAtCommit::Sync),
            end => end,
        };
    }
    Ok(waiting)
}

/// The transactions that waited when the life before ended, as part of the next one's history.
pub(super) fn carried(waiting: Vec<Txn>) -> BTreeMap<u64, Txn> {
    let carry = |mut txn: Txn| {
        txn.reads.clear();
        (txn.asked, txn.over, txn.end) = (0, 0, End::Prepared(FlushAtCommit::Sync));
        // The rows have not changed since.
        txn.writes.iter_mut().for_each(|write| write.at = 0);
        (txn.number, txn)
    };
    waiting.into_iter().map(carry).collect()
}

/// The names under which items are found.
pub(super) fn names(raw: &RawDatabase) -> BTreeMap<usize, String> {
    let changing = places::changing(raw.database()).into_iter().map(|(name, number)| (number, name));
    let fixed = raw.database().list_tables().into_iter().filter_map(|table| {
        let number = table.name.strip_prefix('t')?.parse().ok()?;
        Some((number, table.name))
    });
    changing.chain(fixed).collect()
}

/// Fails if another transaction gets the rows that the prepared transactions have changed.
pub(super) fn check_locks(raw: &RawDatabase, waiting: &[Txn], coverage: &Coverage) -> anyhow::Result<()> {
    let names = names(raw);
    for txn in waiting {
        for item in txn.outcome().into_keys().take(5) {
            let name = names.get(&item.table).with_context(|| format!("the table of {item:?} is gone"))?;
            let rows = RawRows::open(raw, name, item.table, &[])?;
            let isolation = Isolation::RepeatableRead;
            let mut other = raw.begin(&RawOptions { isolation, snapshot_isolation: false, read_only: false })?;
            other.statement(std::time::Duration::ZERO)?;
            let got =
                rows.get(&mut other, item.key, Some(RawLock { exclusive: false, skip_locked: false, linked: false }));
            ensure!(
                matches!(got, Err(Error::WouldBlock)),
                "{item:?} is not locked, though the prepared transaction {} has changed it: {:?}",
                txn.number,
                got.map(|value| value.map(|v| v.len()))
            );
            coverage.count("xa: lock kept by a restart");
        }
    }
    Ok(())
}

/// Decides some of the transactions, and changes `rows` as those that commit do; those that are
/// left.
pub(super) fn decide_some(
    raw: &RawDatabase,
    waiting: Vec<Txn>,
    rows: &mut BTreeMap<Item, Version>,
    dice: &mut Dice,
    coverage: &Coverage,
) -> anyhow::Result<Vec<Txn>> {
    let mut left = Vec::new();
    for txn in waiting {
        let Some((xid, _)) = &txn.prepared else { continue };
        if dice.percent(40) {
            left.push(txn);
            continue;
        }
        let mut adopted = raw.adopt(xid).with_context(|| format!("adopting transaction {}", txn.number))?;
        if dice.percent(50) {
            coverage.count("xa: commit after a restart");
            adopted.commit(FlushAtCommit::Sync)?;
            for (item, write) in txn.outcome() {
                if write.deletes {
                    rows.remove(&item)
                } else {
                    rows.insert(item, write.version)
                };
            }
        } else {
            coverage.count("xa: rollback after a restart");
            adopted.txn().rollback()?;
        }
        ensure!(!raw.prepared().contains(xid), "transaction {} is listed after its end", txn.number);
    }
    Ok(left)
}
