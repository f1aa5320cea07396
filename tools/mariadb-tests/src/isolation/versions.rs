//! The versions of each row in their order, from the trails of the rows in the end and of the rows
//! that were deleted.
//!
//! A key may be inserted, deleted and inserted again: each life of it has a trail. Lives are in the
//! order in which the answers to their INSERTs came: the next INSERT waits for the transaction that
//! deleted the row, and that one for the first INSERT.

use std::collections::{BTreeMap, HashMap};

use super::finding::Finding;
use super::history::{Does, End, History, Key, Number, Row, State, Statement, Step, Token};
use super::level::Anomaly;

/// A version of a row; one without a state is a row that is not there.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub token: Token,
    pub state: Option<State>,
}

impl Version {
    pub fn writer(&self) -> Number {
        self.token.txn()
    }
}

/// The committed versions of all keys; the first of each is what was there before.
#[derive(Default)]
pub struct Versions {
    pub chains: BTreeMap<Key, Vec<Version>>,
    places: HashMap<(Key, Token), usize>,
}

/// The statements whose writes last: those of committed transactions that were not undone.
pub fn lasting(history: &History) -> impl Iterator<Item = &Statement> {
    let committed = history.txns.iter().filter(|txn| txn.end != End::Aborted);
    let writes = |s: &&Statement| s.undone.is_none() && !matches!(s.does, Does::Read { .. });
    committed.flat_map(|txn| &txn.statements).filter(writes)
}

/// One life of a key.
struct Life<'a> {
    trail: &'a [Step],
    born: u64,
    deleted_by: Option<Token>,
}

impl Versions {
    /// Puts the versions in order; what cannot be is found.
    pub fn new(history: &History) -> (Versions, Vec<Finding>) {
        let writes: HashMap<Token, &Statement> = lasting(history).map(|s| (s.token, s)).collect();
        let mut lives: BTreeMap<Key, Vec<Life<'_>>> = history.before.keys().map(|key| (*key, Vec::new())).collect();
        let mut live = |row: &'_ Row, trail, deleted_by| {
            let begins: Option<&Step> = <[Step]>::first(trail);
            let born = begins.and_then(|step| writes.get(&step.token)).map_or(0, |s| s.to);
            lives.entry(row.key).or_default().push(Life { trail, born, deleted_by });
        };
        for row in &history.after {
            live(row, row.trail.as_deref().unwrap_or_default(), None);
        }
        for statement in lasting(history) {
            let Does::Delete { rows, .. } = &statement.does else { continue };
            for row in rows {
                live(row, row.trail.as_deref().unwrap_or_default(), Some(statement.token));
            }
        }
        let (mut versions, mut findings) = (Versions::default(), Vec::new());
        for (key, mut lives) in lives {
            lives.sort_by_key(|life| (life.born, life.deleted_by.is_none()));
            let before = history.before.get(&key).copied().flatten();
            versions.add(key, before, &lives, &writes, &mut findings);
        }
        versions.count(history, &mut findings);
        (versions, findings)
    }

    fn add(
        &mut self,
        key: Key,
        before: Option<State>,
        lives: &[Life<'_>],
        writes: &HashMap<Token, &Statement>,
        findings: &mut Vec<Finding>,
    ) {
        let mut lost = |text: String, token: Token| findings.push(Finding::of_table(Anomaly::LostWrite, text, token));
        let mut chain = vec![Version { token: Token::default(), state: before }];
        for (at, life) in lives.iter().enumerate() {
            let steps = match life.trail.split_first() {
                Some((first, rest)) if first.token == Token::default() && at == 0 && before.is_some() => rest,
                _ => life.trail,
            };
            if at == 0 && before.is_some() && steps.len() == life.trail.len() {
                lost(format!("the row {key} that was there before is gone"), Token::default());
            }
            chain.extend(steps.iter().map(|step| Version { token: step.token, state: Some(step.state) }));
            match life.deleted_by {
                Some(token) => chain.push(Version { token, state: None }),
                None if at + 1 < lives.len() => {
                    lost(
                        format!("the row {key} was there when it was inserted once more"),
                        lives[at + 1].trail[0].token,
                    );
                }
                None => {}
            }
        }
        if lives.is_empty() && before.is_some() {
            lost(format!("the row {key} that was there before is gone"), Token::default());
        }
        for (place, version) in chain.iter().enumerate() {
            if place > 0 && !writes.contains_key(&version.token) {
                let text = format!("the row {key} has a write of {}, which was rolled back", version.token);
                findings.push(Finding::of_table(Anomaly::G1a, text, version.token));
            }
            if self.places.insert((key, version.token), place).is_some() {
                let text = format!("the row {key} has the write of {} twice", version.token);
                findings.push(Finding::of_table(Anomaly::LostWrite, text, version.token));
            }
        }
        self.chains.insert(key, chain);
    }

    /// Every write is there as often as the server said.
    fn count(&self, history: &History, findings: &mut Vec<Finding>) {
        let mut found: HashMap<Token, u64> = HashMap::new();
        for version in self.chains.values().flatten() {
            *found.entry(version.token).or_default() += 1;
        }
        for statement in lasting(history) {
            let expected = match &statement.does {
                Does::Update { rows, .. } => *rows,
                Does::Delete { rows, .. } => rows.len() as u64,
                Does::Put => 1,
                Does::Read { .. } => 0,
            };
            let found = found.get(&statement.token).copied().unwrap_or(0);
            if found != expected {
                let text = format!("{} wrote {expected} rows, of which {found} are there", statement.token);
                findings.push(Finding::of_table(Anomaly::LostWrite, text, statement.token));
            }
        }
    }

    /// The place of a version in the chain of its row.
    pub fn place(&self, key: Key, token: Token) -> Option<usize> {
        self.places.get(&(key, token)).copied()
    }

    /// The writer of the first version behind `place` that is by another transaction than that at
    /// `place`.
    pub fn next_writer(&self, key: Key, place: usize) -> Option<Number> {
        let chain = &self.chains[&key];
        chain[place..].iter().map(Version::writer).find(|writer| *writer != chain[place].writer())
    }

    /// True if the version is the last one of its writer.
    pub fn is_last_of_writer(&self, key: Key, place: usize) -> bool {
        let chain = &self.chains[&key];
        chain.get(place + 1).is_none_or(|next| next.writer() != chain[place].writer())
    }
}
