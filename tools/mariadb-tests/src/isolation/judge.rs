//! Which anomalies a history contains.
//!
//! 1. The order of versions ([`super::versions`]): what is lost, doubled, or was rolled back.
//! 2. Each statement by itself ([`super::observe`]).
//! 3. Circles of dependencies. *ww* and *wr* edges of all transactions count, for each level. The
//!    exception are *wr* edges to a transaction whose level reads what is not committed: they say
//!    nothing of an order. The antidependencies of a transaction count for itself, in portions
//!    that its level promises to be of one moment; those of all transactions of a level count
//!    together for G2-item and G2.
//!
//! The checker of the whole simulation (`tools/sim/src/whole/judge.rs`) knows the order of
//! versions from its scheduler, and rows by their keys alone; here the order comes from the rows
//! themselves, and conditions leave rows out.

use std::collections::{BTreeMap, BTreeSet};

use super::engine::Engine;
use super::finding::Finding;
use super::graph::{Graph, Why};
use super::history::{Does, End, History, Number, Token, Txn};
use super::level::{Anomaly, Level};
use super::observe::{Observer, Sight};
use super::versions::Versions;

/// All that is found; if the order of versions is not known, only that.
pub fn judge(history: &History, engine: Engine) -> Vec<Finding> {
    let (versions, found) = Versions::new(history);
    if !found.is_empty() {
        return found;
    }
    let observer = Observer::new(history, &versions);
    let (sights, findings) = (observer.sights, observer.findings);
    let mut judge = Judge { history, engine, versions: &versions, sights, findings };
    judge.look_for_circles();
    judge.findings
}

struct Judge<'a> {
    history: &'a History,
    engine: Engine,
    versions: &'a Versions,
    sights: BTreeMap<Number, Vec<Sight>>,
    findings: Vec<Finding>,
}

/// What of a transaction is of one moment.
struct Portion<'a> {
    name: Anomaly,
    sights: Vec<&'a Sight>,
    writes: bool,
}

impl Judge<'_> {
    fn look_for_circles(&mut self) {
        let overwrites = self.overwrites();
        self.find_circles(&overwrites, None, |_, _| Anomaly::G0);
        let mut depends = overwrites;
        let reads_committed = |txn: &&Txn| txn.end != End::Aborted && txn.level.reads_committed(self.engine);
        for txn in self.history.txns.iter().filter(reads_committed) {
            for sight in self.sights.get(&txn.number).into_iter().flatten() {
                depends.add(sight.from, txn.number, Why::Seen);
            }
        }
        self.find_circles(&depends, None, |_, _| Anomaly::G1c);
        if self.findings.iter().any(|finding| finding.anomaly <= Anomaly::G1c) {
            return;
        }
        let mut skews = Vec::new();
        for txn in &self.history.txns {
            for portion in self.portions(txn) {
                skews.extend(self.skew(txn, &portion, &depends));
            }
        }
        self.findings.extend(skews);
        for level in Level::ALL {
            let mut all = depends.clone();
            for txn in self.history.txns.iter().filter(|txn| txn.level == level && txn.end != End::Aborted) {
                for sight in self.sights.get(&txn.number).into_iter().flatten() {
                    all.add(txn.number, sight.to.unwrap_or(0), Why::Missed { predicate: sight.predicate });
                }
            }
            self.find_circles(&all, Some(level), kind);
        }
    }

    /// Which transaction overwrote versions of which other.
    fn overwrites(&self) -> Graph {
        let mut graph = Graph::default();
        for chain in self.versions.chains.values() {
            for pair in chain.windows(2) {
                graph.add(pair[0].writer(), pair[1].writer(), Why::Overwritten);
            }
        }
        graph
    }

    /// A circle through each transaction, of the kind that `name` says; with a level, those of its
    /// transactions alone.
    fn find_circles(&mut self, graph: &Graph, level: Option<Level>, name: impl Fn(&Graph, &[Number]) -> Anomaly) {
        let levels: BTreeMap<Number, Level> = self.history.txns.iter().map(|t| (t.number, t.level)).collect();
        for node in graph.nodes().filter(|node| level.is_none_or(|level| levels.get(node) == Some(&level))) {
            let Some(circle) = graph.circle(node, |_| true) else { continue };
            let anomaly = name(graph, &circle);
            // A circle with one antidependency is the affair of the transaction that has it.
            if level.is_some() && anomaly < Anomaly::G2Item {
                continue;
            }
            let text = describe(graph, &circle);
            self.findings.push(Finding { anomaly, level: levels[&node], text, txns: circle.into_iter().collect() });
        }
    }

    /// The portions of a transaction: what its level promises, and all of it.
    fn portions(&self, txn: &Txn) -> Vec<Portion<'_>> {
        let sights = self.sights.get(&txn.number).map_or(&[][..], Vec::as_slice);
        let of = |takes: &dyn Fn(&Sight) -> bool| sights.iter().filter(|sight| takes(sight)).collect::<Vec<_>>();
        let mut portions = vec![Portion { name: Anomaly::GSingle, sights: of(&|_| true), writes: true }];
        let plain: BTreeSet<Token> = sights.iter().filter(|s| !s.locking).map(|s| s.token).collect();
        for token in plain {
            let sights = of(&|sight| sight.token == token);
            portions.push(Portion { name: Anomaly::StatementSkew, sights, writes: false });
        }
        portions.push(Portion { name: Anomaly::SnapshotSkew, sights: of(&|s| !s.locking), writes: false });
        if txn.level.locks_ranges() {
            portions.push(Portion { name: Anomaly::LockSkew, sights: of(&|s| s.locking), writes: true });
        }
        portions
    }

    /// True if a transaction whose version the portion did not see comes before one whose version
    /// the portion saw or overwrote.
    fn skew(&self, txn: &Txn, portion: &Portion<'_>, depends: &Graph) -> Option<Finding> {
        let mut goals: BTreeSet<Number> = portion.sights.iter().map(|sight| sight.from).collect();
        let writes = portion.writes && txn.end != End::Aborted;
        if writes {
            goals.extend(depends.nodes().filter(|n| depends.why(*n, txn.number) == Some(Why::Overwritten)));
        }
        goals.remove(&0);
        for sight in &portion.sights {
            let Some(missed) = sight.to.filter(|to| *to != txn.number) else { continue };
            let Some(path) = depends.path(missed, &goals, |_| true) else { continue };
            let lost = portion.name == Anomaly::GSingle && writes && self.overwrites_unseen(txn, sight);
            let anomaly = if lost { Anomaly::LostUpdate } else { portion.name };
            let text = format!(
                "{} saw the row {} before T{missed} changed it, but {} comes behind that: {path:?}",
                sight.token,
                sight.key,
                path.last().map_or(String::new(), |last| format!("T{last}"))
            );
            let txns = path.into_iter().chain([txn.number]).collect();
            return Some(Finding { anomaly, level: txn.level, text, txns });
        }
        None
    }

    /// True if the transaction wrote the very row, after another one whose version of the row it
    /// had not seen.
    fn overwrites_unseen(&self, txn: &Txn, sight: &Sight) -> bool {
        let chain = &self.versions.chains[&sight.key];
        let missed = chain.iter().position(|version| Some(version.writer()) == sight.to);
        let own = chain.iter().position(|version| version.writer() == txn.number);
        let later = |statement: &&super::history::Statement| {
            statement.token > sight.token && !matches!(statement.does, Does::Read { .. })
        };
        !sight.predicate && txn.statements.iter().any(|s| later(&s)) && missed.zip(own).is_some_and(|(m, o)| m < o)
    }
}

/// What kind of circle it is.
fn kind(graph: &Graph, circle: &[Number]) -> Anomaly {
    let edges: Vec<Why> = edges(circle).filter_map(|(from, to)| graph.why(from, to)).collect();
    let missed = |why: &&Why| matches!(why, Why::Missed { .. });
    match edges.iter().filter(missed).count() {
        0 if edges.contains(&Why::Seen) => Anomaly::G1c,
        0 => Anomaly::G0,
        1 => Anomaly::GSingle,
        _ if edges.contains(&Why::Missed { predicate: true }) => Anomaly::G2,
        _ => Anomaly::G2Item,
    }
}

fn edges(circle: &[Number]) -> impl Iterator<Item = (Number, Number)> + '_ {
    circle.iter().zip(circle.iter().skip(1)).map(|(from, to)| (*from, *to))
}

/// The circle in words.
fn describe(graph: &Graph, circle: &[Number]) -> String {
    let edge = |(from, to)| match graph.why(from, to) {
        Some(Why::Overwritten) => format!("T{from} -ww-> T{to}"),
        Some(Why::Seen) => format!("T{from} -wr-> T{to}"),
        Some(Why::Missed { predicate: false }) => format!("T{from} -rw-> T{to}"),
        Some(Why::Missed { predicate: true }) => format!("T{from} -rw (condition)-> T{to}"),
        None => format!("T{from} ... T{to}"),
    };
    edges(circle).map(edge).collect::<Vec<_>>().join(", ")
}
