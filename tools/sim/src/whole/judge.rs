//! What a history must not contain.
//!
//! The versions of a row are in the order of the writes that made them: a writer holds the row's
//! lock from its write to the end of its transaction. So the dependencies of Adya's thesis ("Weak
//! Consistency", MIT 1999) follow from the history: *ww* from a version's writer to the next one's,
//! *wr* from a version's writer to its reader, *rw* from a reader to the writer of the next
//! version.
//!
//! - **G1a**: no committed or running transaction read a version whose writer was rolled back.
//! - **G1b**: no version was read that its own writer replaced.
//! - **G1c**: *ww* and *wr* have no cycle.
//! - **G-single**: what a snapshot shows has no cycle with exactly one *rw*, which begins at the
//!   reader.
//! - **G2**: with the *rw* of serializable transactions there is no cycle at all.
//! - **Fresh**: a transaction sees what was acknowledged before it began.
//! - **Newest**: a locking read saw the newest version that was committed, or the reader's own.
//! - **Locked**: what a transaction has read with a lock is not changed by another before it ends.
//!
//! A read that found no row is not used for edges if the row was deleted more than once: whose
//! deletion it saw is not known.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure};
use holdfast::Isolation;

use super::history::{End, Item, Read, Txn, Version, Write};
use super::places;

/// One version of a row in the order of versions.
#[derive(Clone, Copy)]
struct Link {
    version: Option<Version>,
    /// 0: it was there before the history.
    writer: u64,
    at: u64,
}

/// Checks the history of one life, which began with the rows `before`.
///
/// # Errors
/// What it contains.
pub(super) fn judge(txns: &[Txn], before: &BTreeMap<Item, Version>) -> anyhow::Result<()> {
    let history = Judged::new(txns, before)?;
    history.check_reads(txns)?;
    history.check_newest(txns)?;
    check_locked(txns)?;
    history.check_fresh(txns)?;
    let edges = history.dependencies(txns);
    if let Some(cycle) = find_cycle(&edges) {
        bail!("G1c: transactions depend on each other in a circle: {cycle:?}");
    }
    history.check_snapshots(txns, &edges)?;
    let mut all = edges;
    for txn in txns.iter().filter(|t| t.isolation == Isolation::Serializable && history.counts(t)) {
        for (reader, writer) in history.antidependencies(txn) {
            all.entry(reader).or_default().insert(writer);
        }
    }
    if let Some(cycle) = find_cycle(&all) {
        bail!("G2: serializable transactions are in a circle: {cycle:?}");
    }
    Ok(())
}

/// No transaction changes what another one has locked by reading it. At READ COMMITTED a lock may
/// be given up early, and a prepared transaction may release what it has only read; only
/// SERIALIZABLE keeps the place of every row free that was not there. The definer may truncate a
/// table of which a transaction has only read rows. When a transaction of two threads read and
/// wrote is not known if one of them has met its rollback.
fn check_locked(txns: &[Txn]) -> anyhow::Result<()> {
    let mut writes: BTreeMap<Item, Vec<(u64, u64)>> = BTreeMap::new();
    let timely = || txns.iter().filter(|txn| !txn.noted_late);
    for txn in timely() {
        txn.writes.iter().for_each(|write| writes.entry(write.item).or_default().push((write.at, txn.number)));
    }
    for txn in timely().filter(|txn| txn.isolation != Isolation::ReadCommitted) {
        // It had not ended when it read or wrote last, nor when its commit was asked for.
        let acts = txn.reads.iter().map(|read| read.at).chain(txn.writes.iter().map(|write| write.at));
        let until = acts.fold(txn.asked, u64::max);
        let until = if txn.released > 0 { until.min(txn.released) } else { until };
        let keeps = |read: &&Read| read.version.is_some() || txn.isolation == Isolation::Serializable;
        let locked = txn.reads.iter().filter(|read| read.locking && !places::is_changing(read.item.table));
        for read in locked.filter(keeps) {
            let others = writes.get(&read.item).into_iter().flatten().filter(|(_, writer)| *writer != txn.number);
            for (at, writer) in others {
                ensure!(
                    !(read.at..until).contains(at),
                    "transaction {} had locked {:?} when transaction {writer} changed it",
                    txn.number,
                    read.item
                );
            }
        }
    }
    Ok(())
}

type Edges = BTreeMap<u64, BTreeSet<u64>>;

struct Judged<'a> {
    txns: BTreeMap<u64, &'a Txn>,
    /// Transactions whose commit was not acknowledged and that others have read.
    seen: BTreeSet<u64>,
    chains: BTreeMap<Item, Vec<Link>>,
    /// Rows that a transaction has changed of which it is not known whether it committed: their
    /// chains may lack a version.
    doubtful: BTreeSet<Item>,
    /// The last version of each transaction, by row.
    finals: BTreeMap<(u64, Item), Write>,
}

impl<'a> Judged<'a> {
    fn new(txns: &'a [Txn], before: &BTreeMap<Item, Version>) -> anyhow::Result<Judged<'a>> {
        let by_number: BTreeMap<u64, &Txn> = txns.iter().map(|t| (t.number, t)).collect();
        let unknown = |number: u64| by_number.get(&number).is_some_and(|t| t.end == End::Unknown);
        let reads = txns.iter().flat_map(|t| t.reads.iter().map(move |r| (t.number, r)));
        let seen = reads.filter_map(|(reader, r)| r.version.map(|v| (reader, v.txn())));
        let seen =
            seen.filter(|(reader, writer)| reader != writer && unknown(*writer)).map(|(_, writer)| writer).collect();
        let (chains, finals, doubtful) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut judged = Judged { txns: by_number, seen, chains, doubtful, finals };
        let in_doubt = txns.iter().filter(|t| t.end == End::Unknown && !judged.counts(t));
        judged.doubtful = in_doubt.flat_map(|t| t.writes.iter().map(|w| w.item)).collect();
        for txn in txns.iter().filter(|t| judged.counts(t)).collect::<Vec<_>>() {
            for write in &txn.writes {
                judged.finals.insert((txn.number, write.item), *write);
            }
        }
        for ((number, item), write) in &judged.finals {
            let start = Link { version: before.get(item).copied(), writer: 0, at: 0 };
            let chain = judged.chains.entry(*item).or_insert_with(|| vec![start]);
            let version = (!write.deletes).then_some(write.version);
            chain.push(Link { version, writer: *number, at: write.at });
        }
        for chain in judged.chains.values_mut() {
            chain.sort_by_key(|link| link.at);
        }
        for (item, version) in before {
            let start = Link { version: Some(*version), writer: 0, at: 0 };
            judged.chains.entry(*item).or_insert_with(|| vec![start]);
        }
        Ok(judged)
    }

    /// True if the transaction's changes are part of the history.
    fn counts(&self, txn: &Txn) -> bool {
        matches!(txn.end, End::Committed(_)) || self.seen.contains(&txn.number)
    }

    /// What was acknowledged before a transaction began is no secret to it.
    fn check_fresh(&self, txns: &[Txn]) -> anyhow::Result<()> {
        for txn in txns {
            for read in &txn.reads {
                let Some((chain, place)) = self.place(read.item, read.version) else { continue };
                let Some(next) = chain.get(place + 1).and_then(|link| self.txns.get(&link.writer)) else { continue };
                ensure!(
                    !matches!(next.end, End::Committed(_)) || next.over > txn.begun,
                    "transaction {} saw {:?} of {:?}, which transaction {} had replaced before it began",
                    txn.number,
                    read.version,
                    read.item,
                    next.number
                );
            }
        }
        Ok(())
    }

    /// G1a and G1b.
    fn check_reads(&self, txns: &[Txn]) -> anyhow::Result<()> {
        for txn in txns {
            for read in &txn.reads {
                let Some(version) = read.version else { continue };
                let Some(writer) = self.txns.get(&version.txn()) else { continue };
                if writer.number == txn.number {
                    continue;
                }
                ensure!(
                    self.counts(writer),
                    "G1a: transaction {} read {version:?} of {:?}, whose writer was rolled back ({:?})",
                    txn.number,
                    read.item,
                    writer.end
                );
                let last = self.finals.get(&(writer.number, read.item));
                ensure!(
                    last.is_some_and(|last| last.version == version && !last.deletes),
                    "G1b: transaction {} read {version:?} of {:?}, which its writer replaced",
                    txn.number,
                    read.item
                );
            }
        }
        Ok(())
    }

    /// The place in the chain of what a read saw, if that is certain.
    fn place(&self, item: Item, version: Option<Version>) -> Option<(&[Link], usize)> {
        let chain = self.chains.get(&item).filter(|_| !self.doubtful.contains(&item))?;
        let mut places = chain.iter().enumerate().filter(|(_, link)| link.version == version);
        let (place, _) = places.next()?;
        places.next().is_none().then_some((chain.as_slice(), place))
    }

    /// A locking read saw what was committed last when it was made.
    fn check_newest(&self, txns: &[Txn]) -> anyhow::Result<()> {
        for txn in txns {
            for read in txn.reads.iter().filter(|r| r.locking && r.version.is_some()) {
                let Some((chain, place)) = self.place(read.item, read.version) else { continue };
                let Some(next) = chain.get(place + 1) else { continue };
                ensure!(
                    next.at > read.at || next.writer == txn.number,
                    "a locking read of transaction {} saw {:?} of {:?}, but transaction {} had replaced it",
                    txn.number,
                    read.version,
                    read.item,
                    next.writer
                );
            }
        }
        Ok(())
    }

    /// *ww* of all and *wr* of transactions that committed.
    fn dependencies(&self, txns: &[Txn]) -> Edges {
        let mut edges = Edges::new();
        for chain in self.chains.values() {
            for pair in chain.windows(2).filter(|pair| pair[0].writer != 0) {
                edges.entry(pair[0].writer).or_default().insert(pair[1].writer);
            }
        }
        for txn in txns.iter().filter(|t| self.counts(t)) {
            edges.entry(txn.number).or_default();
            for writer in self.writers_seen(txn) {
                edges.entry(writer).or_default().insert(txn.number);
            }
        }
        edges
    }

    /// Those whose versions a transaction has seen.
    fn writers_seen<'s>(&'s self, txn: &'s Txn) -> impl Iterator<Item = u64> + 's {
        let seen = txn.reads.iter().filter_map(|read| {
            let (chain, place) = self.place(read.item, read.version)?;
            Some(chain[place].writer)
        });
        seen.filter(move |writer| *writer != 0 && *writer != txn.number)
    }

    /// Pairs of a reader and the writer of the version behind the one that it saw.
    fn antidependencies<'s>(&'s self, txn: &'s Txn) -> impl Iterator<Item = (u64, u64)> + 's {
        let behind = txn.reads.iter().filter_map(|read| {
            let (chain, place) = self.place(read.item, read.version)?;
            Some(chain.get(place + 1)?.writer)
        });
        behind.filter(move |writer| *writer != txn.number).map(move |writer| (txn.number, writer))
    }

    /// G-single for what each snapshot shows: from the writer of a version that it does not see no
    /// path leads to a writer that it sees.
    fn check_snapshots(&self, txns: &[Txn], edges: &Edges) -> anyhow::Result<()> {
        for txn in txns.iter().filter(|t| t.isolation == Isolation::RepeatableRead) {
            let reads = || txn.reads.iter().filter(|read| !read.locking || txn.snapshot_isolation);
            let places = || reads().filter_map(|read| self.place(read.item, read.version));
            let seen: BTreeSet<u64> = places().map(|(chain, place)| chain[place].writer).filter(|w| *w != 0).collect();
            let behind = places().filter_map(|(chain, place)| Some(chain.get(place + 1)?.writer));
            for hidden in behind.filter(|w| *w != txn.number).collect::<BTreeSet<_>>() {
                if let Some(writer) = reaches(edges, hidden, &seen) {
                    bail!(
                        "G-single: the snapshot of transaction {} shows {writer}, but not {hidden}, on which that depends:\n{:?}\n{:?}",
                        txn.number,
                        txn,
                        self.txns.get(&hidden)
                    );
                }
            }
        }
        Ok(())
    }
}

/// One of `goals` that can be reached from `from`, itself included.
fn reaches(edges: &Edges, from: u64, goals: &BTreeSet<u64>) -> Option<u64> {
    let (mut todo, mut visited) = (vec![from], BTreeSet::from([from]));
    while let Some(at) = todo.pop() {
        if goals.contains(&at) {
            return Some(at);
        }
        todo.extend(edges.get(&at).into_iter().flatten().filter(|next| visited.insert(**next)));
    }
    None
}

/// A cycle, if there is one.
fn find_cycle(edges: &Edges) -> Option<Vec<u64>> {
    let mut done = BTreeSet::new();
    for start in edges.keys() {
        let mut path: Vec<(u64, Vec<u64>)> = Vec::new();
        let targets = |at: u64| edges.get(&at).map_or(Vec::new(), |to| to.iter().copied().collect());
        if !done.contains(start) {
            path.push((*start, targets(*start)));
        }
        while let Some((at, todo)) = path.last_mut() {
            let at = *at;
            let Some(next) = todo.pop() else {
                done.insert(at);
                path.pop();
                continue;
            };
            if let Some(begin) = path.iter().position(|(on_path, _)| *on_path == next) {
                return Some(path[begin..].iter().map(|(on_path, _)| *on_path).collect());
            }
            if !done.contains(&next) {
                path.push((next, targets(next)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use holdfast::FlushAtCommit;

    use super::*;

    const A: Item = Item { table: 0, key: 1 };
    const B: Item = Item { table: 0, key: 2 };

    /// Transactions from what they do: reads `r(item, version)` and writes `w(item, version)`, in
    /// order of time.
    fn txn(
        number: u64,
        isolation: Isolation,
        end: End,
        reads: &[(Item, Option<Version>, u64)],
        writes: &[(Item, u64)],
    ) -> Txn {
        let read = |&(item, version, at): &(Item, Option<Version>, u64)| Read { item, version, locking: false, at };
        let write = |&(item, at): &(Item, u64)| Write { item, version: Version::new(number, at), deletes: false, at };
        let (reads, writes) = (reads.iter().map(read).collect(), writes.iter().map(write).collect());
        Txn { reads, writes, end, over: OVER, ..Txn::new(number, isolation, true, 0) }
    }

    /// When every transaction is over that does not say otherwise.
    const OVER: u64 = 100;

    const DONE: End = End::Committed(FlushAtCommit::Sync);

    fn before() -> BTreeMap<Item, Version> {
        BTreeMap::from([(A, Version::new(1, 1)), (B, Version::new(1, 2))])
    }

    fn verdict(txns: &[Txn]) -> String {
        judge(txns, &before()).map_or_else(|e| e.to_string(), |()| "sound".into())
    }

    #[test]
    fn a_read_of_what_was_rolled_back_is_found() {
        let writer = txn(10, Isolation::RepeatableRead, End::Aborted, &[], &[(A, 5)]);
        let reader = txn(11, Isolation::ReadCommitted, DONE, &[(A, Some(Version::new(10, 5)), 6)], &[]);
        assert!(verdict(&[writer, reader]).starts_with("G1a"));
    }

    #[test]
    fn a_read_of_what_its_writer_replaced_is_found() {
        let writer = txn(10, Isolation::RepeatableRead, DONE, &[], &[(A, 5), (A, 7)]);
        let reader = txn(11, Isolation::ReadCommitted, DONE, &[(A, Some(Version::new(10, 5)), 6)], &[]);
        assert!(verdict(&[writer, reader]).starts_with("G1b"));
    }

    #[test]
    fn half_of_a_transaction_in_a_snapshot_is_found() {
        let writer = txn(10, Isolation::RepeatableRead, DONE, &[], &[(A, 5), (B, 6)]);
        let seen = [(A, Some(Version::new(10, 5)), 7), (B, Some(Version::new(1, 2)), 8)];
        let reader = txn(11, Isolation::RepeatableRead, End::Aborted, &seen, &[]);
        assert!(verdict(&[writer.clone(), reader]).starts_with("G-single"));
        let both = [(A, Some(Version::new(10, 5)), 7), (B, Some(Version::new(10, 6)), 8)];
        assert_eq!(verdict(&[writer, txn(11, Isolation::RepeatableRead, DONE, &both, &[])]), "sound");
    }

    #[test]
    fn write_skew_is_found_where_it_is_forbidden() {
        let pair = |isolation| {
            let first = txn(10, isolation, DONE, &[(B, Some(Version::new(1, 2)), 3)], &[(A, 5)]);
            let second = txn(11, isolation, DONE, &[(A, Some(Version::new(1, 1)), 4)], &[(B, 6)]);
            [first, second]
        };
        assert!(verdict(&pair(Isolation::Serializable)).starts_with("G2"));
        assert_eq!(verdict(&pair(Isolation::RepeatableRead)), "sound");
    }

    #[test]
    fn a_read_of_what_was_replaced_before_the_transaction_began_is_found() {
        let writer = txn(10, Isolation::RepeatableRead, DONE, &[], &[(A, 5)]);
        let reader = txn(11, Isolation::ReadCommitted, DONE, &[(A, Some(Version::new(1, 1)), 9)], &[]);
        let late = Txn { begun: OVER, ..reader.clone() };
        assert_eq!(verdict(&[writer.clone(), reader]), "sound");
        assert!(verdict(&[writer, late]).contains("before it began"));
    }

    #[test]
    fn a_locking_read_of_an_old_version_is_found() {
        let writer = txn(10, Isolation::RepeatableRead, DONE, &[], &[(A, 5)]);
        let mut reader = txn(11, Isolation::RepeatableRead, DONE, &[(A, Some(Version::new(1, 1)), 9)], &[]);
        reader.reads[0].locking = true;
        assert!(verdict(&[writer, reader]).starts_with("a locking read"));
    }

    #[test]
    fn a_change_of_what_another_has_locked_is_found() {
        let [writer, late] = [(10, 6), (12, 9)].map(|(n, at)| txn(n, Isolation::ReadCommitted, DONE, &[], &[(A, at)]));
        let mut reader = txn(11, Isolation::RepeatableRead, DONE, &[(A, Some(Version::new(1, 1)), 4)], &[]);
        reader.asked = 8;
        assert_eq!(verdict(&[writer.clone(), late.clone(), reader.clone()]), "sound");
        reader.reads[0].locking = true;
        assert_eq!(verdict(&[late, reader.clone()]), "sound");
        assert!(verdict(&[writer.clone(), reader.clone()]).contains("had locked"));
        let released = Txn { released: 5, ..reader.clone() };
        assert_eq!(verdict(&[writer.clone(), released]), "sound");
        let undone = Txn { noted_late: true, ..writer.clone() };
        assert_eq!(verdict(&[undone, reader.clone()]), "sound");
        reader.isolation = Isolation::ReadCommitted;
        assert_eq!(verdict(&[writer, reader]), "sound");
    }
}
