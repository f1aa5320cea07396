//! The pages that sysbench's transactions refer to, as a trace for the simulator of replacement
//! policies. The same clients with the same seeds produce the statements, which are looked up in a
//! map of the tree's pages instead of being run.

use std::ops::RangeInclusive;

use anyhow::{Context, Result, anyhow};
use holdfast::io::{FileKind, OpenOptions};
use holdfast::{Database, Disk};
use holdfast_base::IndexId;
use holdfast_policy::ScanHint;
use holdfast_trace::{Class, Declared, PolicyName, Request, Trace};
use holdfast_tree::node::NodeRef;
use holdfast_workload::Failure;
use holdfast_workload::dist::{Distribution, Kind};
use holdfast_workload::sysbench::{Client, Mix, SbRow, Sql, id_of};

/// The pages of a clustered index, by row.
pub struct PageMap {
    /// First id and page of each leaf, ascending.
    leaves: Vec<(u32, u32)>,
    /// The inner pages over each leaf, the root first.
    above: Vec<Vec<u32>>,
}

impl PageMap {
    /// Reads the pages of `file`, which contains the clustered index of `table`.
    pub fn read(db: &Database, disk: &dyn Disk, table: &str, file: &str) -> Result<PageMap> {
        let (cache, tables) = db.cache_stats();
        let table = tables.iter().find(|t| t.name == table).ok_or_else(|| anyhow!("there is no table {table}"))?;
        let index =
            IndexId(table.indexes.first().ok_or_else(|| anyhow!("a table without a clustered index"))?.index_id);
        let file = disk.open(file, OpenOptions::new(FileKind::Data).read_only(true))?;
        let mut page = vec![0; cache.page_size];
        let mut pages: Vec<(u32, Vec<u8>)> = Vec::new();
        for no in 0..file.len()? / cache.page_size as u64 {
            file.read_at(no * cache.page_size as u64, &mut page)?;
            if NodeRef::new(page.as_slice(), index).is_some() {
                pages.push((u32::try_from(no)?, page.clone()));
            }
        }
        Self::of(&pages).context("the tree is not what it should be")
    }

    fn of(pages: &[(u32, Vec<u8>)]) -> Option<PageMap> {
        let mut leaves = Vec::new();
        let mut parent = std::collections::HashMap::new();
        for (no, bytes) in pages {
            let node = NodeRef::assume(bytes.as_slice());
            if node.is_leaf()? {
                let key = node.key(0)?;
                leaves.push((id_of(&key).ok()?, *no));
                continue;
            }
            for slot in 0..node.count()? {
                parent.insert(node.child(slot)?.0, *no);
            }
        }
        leaves.sort_unstable();
        let way = |leaf: u32| {
            let mut way: Vec<u32> = std::iter::successors(parent.get(&leaf), |no| parent.get(no)).copied().collect();
            way.reverse();
            way
        };
        let above = leaves.iter().map(|&(_, no)| way(no)).collect();
        Some(PageMap { leaves, above })
    }

    /// Pages of the index.
    pub fn pages(&self) -> usize {
        let mut inner: Vec<u32> = self.above.iter().flatten().copied().collect();
        inner.sort_unstable();
        inner.dedup();
        self.leaves.len() + inner.len()
    }

    /// The numbers of the leaves that hold `ids`.
    fn leaves_of(&self, ids: &RangeInclusive<u32>) -> std::ops::Range<usize> {
        let first = self.leaves.partition_point(|l| l.0 <= *ids.start()).saturating_sub(1);
        first..self.leaves.partition_point(|l| l.0 <= *ids.end()).max(first + 1)
    }
}

/// Executes statements by recording the pages that they refer to.
struct Recorder<'m> {
    map: &'m PageMap,
    trace: Trace,
    statement: u32,
}

impl Recorder<'_> {
    /// Records a cursor, which goes down from the root for every leaf.
    fn refer(&mut self, ids: &RangeInclusive<u32>) {
        self.statement = self.statement.wrapping_add(1).max(1);
        for leaf in self.map.leaves_of(ids) {
            let above = self.map.above[leaf].iter().copied();
            for page in above.chain([self.map.leaves[leaf].1]) {
                let statement = self.statement;
                let (class, scan) = (Class::Foreground, ScanHint::None);
                self.trace.requests.push(Request { page, statement, touches: 1, class, scan });
            }
        }
    }

    fn range(&mut self, ids: RangeInclusive<u32>) -> Result<u64, Failure> {
        self.refer(&ids);
        Ok(0)
    }
}

impl Sql for Recorder<'_> {
    fn begin(&mut self, _: bool) -> Result<(), Failure> {
        Ok(())
    }
    fn commit(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    fn rollback(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    fn point_select(&mut self, id: u32) -> Result<u64, Failure> {
        self.range(id..=id)
    }
    fn simple_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64, Failure> {
        self.range(ids)
    }
    fn sum_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64, Failure> {
        self.range(ids)
    }
    fn order_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64, Failure> {
        self.range(ids)
    }
    fn distinct_range(&mut self, ids: RangeInclusive<u32>) -> Result<u64, Failure> {
        self.range(ids)
    }
    fn index_update(&mut self, _: u32) -> Result<(), Failure> {
        Err(Failure::fatal("a read-only mix"))
    }
    fn non_index_update(&mut self, _: u32, _: &[u8]) -> Result<(), Failure> {
        Err(Failure::fatal("a read-only mix"))
    }
    fn delete(&mut self, _: u32) -> Result<(), Failure> {
        Err(Failure::fatal("a read-only mix"))
    }
    fn insert(&mut self, _: &SbRow) -> Result<(), Failure> {
        Err(Failure::fatal("a read-only mix"))
    }
}

/// The parameters of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub mix: Mix,
    /// Rows of the table.
    pub rows: u32,
    /// Sessions, which take turns by transaction.
    pub sessions: usize,
    /// Transactions that warm the cache up, and those that are counted.
    pub transactions: [usize; 2],
    pub seed: u64,
}

/// Misses per transaction of the engine's policy in a pool of each of `frames`, for the references
/// of `plan`.
pub fn misses_per_transaction(map: &PageMap, plan: &Plan, frames: &[usize]) -> Result<Vec<f64>> {
    let last = map.leaves.iter().map(|l| l.1).chain(map.above.iter().flatten().copied()).max().unwrap_or(0);
    let keys = (0..=u64::from(last)).collect();
    let trace = Trace { name: "sysbench".into(), keys, requests: Vec::new(), measured_from: 0 };
    let mut recorder = Recorder { map, trace, statement: 0 };
    let client =
        |n| Client::new(plan.mix, plan.rows, Distribution::new(Kind::Uniform, u64::from(plan.rows)), plan.seed, n);
    let mut clients: Vec<Client> = (0..plan.sessions as u64).map(client).collect();
    let count = clients.len();
    for n in 0..plan.transactions.iter().sum() {
        if n == plan.transactions[0] {
            recorder.trace.measured_from = recorder.trace.requests.len();
        }
        clients[n % count].event(&mut recorder).map_err(|f| anyhow!("the trace: {f}"))?;
    }
    let rows = holdfast_trace::run(&[PolicyName::Holdfast], frames, &[recorder.trace], Declared::AsTraced)?;
    Ok(rows.iter().map(|row| row.misses as f64 / plan.transactions[1] as f64).collect())
}
