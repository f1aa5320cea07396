//! Dependencies between transactions, and circles in them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::history::Number;

/// Why a transaction comes before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The other one overwrote its version.
    Overwritten,
    /// The other one saw its version.
    Seen,
    /// The other one wrote the version behind the one that it saw.
    Missed { predicate: bool },
}

/// Edges with their reasons.
#[derive(Clone, Default)]
pub struct Graph(BTreeMap<Number, BTreeMap<Number, Why>>);

impl Graph {
    /// Enters an edge; of several reasons the strongest stays.
    pub fn add(&mut self, from: Number, to: Number, why: Why) {
        if from == 0 || to == 0 || from == to {
            return;
        }
        let reason = self.0.entry(from).or_default().entry(to).or_insert(why);
        *reason = why.min(*reason);
    }

    pub fn nodes(&self) -> impl Iterator<Item = Number> + '_ {
        self.0.keys().copied()
    }

    /// The shortest path to one of `goals`, both ends included, along edges that `takes` accepts.
    pub fn path(&self, from: Number, goals: &BTreeSet<Number>, takes: impl Fn(Why) -> bool) -> Option<Vec<Number>> {
        let mut before: BTreeMap<Number, Number> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if goals.contains(&at) {
                return Some(unwind(from, at, &before));
            }
            for (next, why) in self.0.get(&at).into_iter().flatten() {
                if takes(*why) && *next != from && !before.contains_key(next) {
                    before.insert(*next, at);
                    queue.push_back(*next);
                }
            }
        }
        None
    }

    /// The shortest circle through `node` along edges that `takes` accepts: its nodes from `node`
    /// on.
    pub fn circle(&self, node: Number, takes: impl Fn(Why) -> bool + Copy) -> Option<Vec<Number>> {
        let next = self.0.get(&node)?.iter().filter(|(_, why)| takes(**why));
        let back = BTreeSet::from([node]);
        let paths = next.filter_map(|(next, _)| self.path(*next, &back, takes));
        let shortest = paths.min_by_key(Vec::len)?;
        Some(std::iter::once(node).chain(shortest).collect())
    }

    /// The reason of an edge.
    pub fn why(&self, from: Number, to: Number) -> Option<Why> {
        self.0.get(&from)?.get(&to).copied()
    }
}

fn unwind(from: Number, to: Number, before: &BTreeMap<Number, Number>) -> Vec<Number> {
    let mut path = vec![to];
    while let Some(&last) = path.last().filter(|last| **last != from) {
        path.push(before[&last]);
    }
    path.reverse();
    path
}
