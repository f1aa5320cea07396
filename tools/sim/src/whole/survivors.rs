//! What must be there after a life: all that was acknowledged as durable, nothing of what was
//! rolled back, no transaction in part.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};
use holdfast::raw::{RawDatabase, RawOptions};
use holdfast::{Database, FlushAtCommit, Isolation};

use super::history::{End, Item, Txn, Version, Write};
use super::places;
use super::plan::Plan;
use super::raw_rows::RawRows;
use super::values::{table, tag_of, version_of};

/// All rows.
///
/// # Errors
/// If they cannot be read, or a value is not one that was written.
pub(super) fn read_all(raw: &RawDatabase, plan: &Plan) -> anyhow::Result<BTreeMap<Item, Version>> {
    let mut found = BTreeMap::new();
    for no in 0..plan.tables {
        found.extend(read_table(raw.database(), no)?);
    }
    let options = RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: true };
    let mut txn = raw.begin(&options)?;
    for (name, number) in places::changing(raw.database()) {
        for (key, value) in RawRows::open(raw, &name, number, &[])?.compare(&mut txn)? {
            let version = version_of(&value).with_context(|| format!("table {name}, key {key}"))?;
            found.insert(Item { table: number, key }, version);
        }
    }
    Ok(found)
}

/// The rows of table `no` of those that stay.
///
/// # Errors
/// The errors of [`read_all`].
pub(super) fn read_table(db: &Database, no: usize) -> anyhow::Result<BTreeMap<Item, Version>> {
    let (txn, mut found, mut tags) = (db.begin_read()?, BTreeMap::new(), BTreeMap::new());
    for row in txn.open_table(&table(&format!("t{no}")))?.iter()? {
        let (key, value) = row?;
        let version = version_of(&value).with_context(|| format!("table {no}, key {key}"))?;
        let twin = tags.insert(tag_of(&value), key);
        ensure!(twin.is_none(), "keys {key} and {twin:?} of table {no} have the same unique tag");
        found.insert(Item { table: no, key }, version);
    }
    Ok(found)
}

/// Checks that `found` is what the transactions of a life made of `before`.
///
/// # Errors
/// What is lost, undone in part, or there though it should not be.
pub(super) fn check(
    txns: &[Txn],
    before: &BTreeMap<Item, Version>,
    found: &BTreeMap<Item, Version>,
    closed: bool,
) -> anyhow::Result<()> {
    let known: BTreeMap<u64, &Txn> = txns.iter().map(|t| (t.number, t)).collect();
    let chains = chains(txns, before);
    let must = |txn: &Txn| match txn.end {
        End::Committed(flush) => closed || flush == FlushAtCommit::Sync,
        _ => false,
    };
    // For each row, the places in its chain at which it may be.
    let mut there: BTreeMap<u64, bool> = BTreeMap::new();
    for (item, chain) in &chains {
        let version = found.get(item).copied();
        let places: Vec<usize> =
            (0..chain.len()).filter(|&i| chain[i].map_or(before.get(item).copied(), |w| kept(&w)) == version).collect();
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            bail!("{item:?} is {version:?}, which no transaction that may have committed has written");
        };
        for (place, write) in chain.iter().enumerate().filter_map(|(i, w)| Some((i, w.as_ref()?))) {
            let number = write.version.txn();
            let txn = known[&number];
            if place > *last {
                ensure!(!must(txn), "{item:?} is {version:?}: the acknowledged transaction {number} is lost");
                let present = there.insert(number, false);
                ensure!(present != Some(true), "transaction {number} is there in part: {item:?} is {version:?}");
            } else if place == *first && *first == *last {
                let present = there.insert(number, true);
                ensure!(present != Some(false), "transaction {number} is there in part: {item:?} is {version:?}");
            }
        }
    }
    in_order(txns, &there)?;
    let unwritten =
        found.iter().find(|(item, version)| !chains.contains_key(item) && before.get(item) != Some(version));
    let writer = unwritten.and_then(|(_, version)| known.get(&version.txn()));
    ensure!(unwritten.is_none(), "{unwritten:?} is there, which no transaction has written: {writer:?}");
    let gone = before.keys().find(|item| !chains.contains_key(item) && !found.contains_key(item));
    ensure!(gone.is_none(), "{gone:?} is gone, which no transaction has deleted");
    Ok(())
}

/// A log is kept from its beginning: what a transaction that is `there` depends on is there, and
/// what was acknowledged before it was to commit.
fn in_order(txns: &[Txn], there: &BTreeMap<u64, bool>) -> anyhow::Result<()> {
    let lacks = |number: u64| there.get(&number) == Some(&false);
    let kept = || txns.iter().filter(|t| there.get(&t.number) == Some(&true));
    for txn in kept() {
        let lost = txn.reads.iter().filter_map(|read| read.version).map(Version::txn).find(|writer| lacks(*writer));
        ensure!(lost.is_none(), "transaction {} is there, {lost:?}, whose row it has read, is not", txn.number);
    }
    if let Some(last) = kept().max_by_key(|t| t.asked) {
        let earlier = |t: &&Txn| lacks(t.number) && matches!(t.end, End::Committed(_)) && t.over < last.asked;
        let lost = txns.iter().find(earlier).map(|t| t.number);
        ensure!(lost.is_none(), "transaction {} is there, {lost:?}, acknowledged before it, is not", last.number);
    }
    Ok(())
}

fn kept(write: &Write) -> Option<Version> {
    (!write.deletes).then_some(write.version)
}

/// For each row that was changed: nothing (what was there before), then the last change of each
/// transaction that may have committed.
fn chains(txns: &[Txn], before: &BTreeMap<Item, Version>) -> BTreeMap<Item, Vec<Option<Write>>> {
    let mut chains: BTreeMap<Item, Vec<Option<Write>>> = BTreeMap::new();
    let mut items: BTreeSet<Item> = before.keys().copied().collect();
    for txn in txns.iter().filter(|t| matches!(t.end, End::Committed(_) | End::Unknown)) {
        let last: BTreeMap<Item, Write> = txn.writes.iter().map(|w| (w.item, *w)).collect();
        for (item, write) in last {
            items.insert(item);
            chains.entry(item).or_insert_with(|| vec![None]).push(Some(write));
        }
    }
    for chain in chains.values_mut() {
        chain.sort_by_key(|link| link.map_or(0, |w| w.at));
    }
    chains
}

/// The history of all tables but these.
pub(super) fn rest(txns: &[Txn], without: &BTreeSet<usize>) -> Vec<Txn> {
    let cut = |txn: &Txn| {
        let mut txn = txn.clone();
        txn.reads.retain(|read| !without.contains(&read.item.table));
        txn.writes.retain(|write| !without.contains(&write.item.table));
        txn
    };
    txns.iter().map(cut).collect()
}

/// The rows of all tables but these.
pub(super) fn without(rows: &BTreeMap<Item, Version>, tables: &BTreeSet<usize>) -> BTreeMap<Item, Version> {
    rows.iter().filter(|(item, _)| !tables.contains(&item.table)).map(|(item, version)| (*item, *version)).collect()
}
