//! Histories written by hand, one for each anomaly, and their harmless neighbours.

use std::collections::BTreeMap;

use super::engine::Engine;
use super::history::{Column, Does, End, History, Key, Range, Row, State, Statement, Step, Token, Txn};
use super::judge::judge;
use super::level::{Anomaly, Level, excludes};

const fn state(b: u64) -> State {
    State { b, u: None }
}

fn step(token: Token, b: u64) -> Step {
    Step { token, state: state(b) }
}

/// The row as it was before: `b` is its key.
fn first(key: Key) -> Row {
    Row { key, last: step(Token::default(), key), trail: None }
}

fn row(key: Key, token: Token, b: u64) -> Row {
    Row { key, last: step(token, b), trail: None }
}

fn w(txn: u64, n: u64) -> Token {
    Token::new(txn, n)
}

fn item(key: Key) -> Range {
    Range { column: Column::Id, low: key, high: key }
}

fn by_b(low: u64, high: u64) -> Range {
    Range { column: Column::B, low, high }
}

/// Transactions are told one statement after the other; the clock goes on with each.
struct Story {
    clock: u64,
    engine: Engine,
    history: History,
    trails: BTreeMap<Key, Vec<Step>>,
}

impl Story {
    /// Rows 1, 2 and 3; 4 is not there.
    fn new() -> Story {
        let before = (1..=4).map(|key| (key, (key < 4).then(|| state(key)))).collect();
        let trails = (1..=3).map(|key| (key, vec![step(Token::default(), key)])).collect();
        Story { clock: 0, engine: Engine::Holdfast, history: History { before, ..History::default() }, trails }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn txn(&mut self, number: u64, level: Level) -> &mut Txn {
        let txns = &mut self.history.txns;
        let at = txns.iter().position(|txn| txn.number == number).unwrap_or_else(|| {
            let (statements, end) = (Vec::new(), End::Aborted);
            txns.push(Txn { number, level, long: true, snapshot: None, begun_anew: None, statements, end });
            txns.len() - 1
        });
        &mut txns[at]
    }

    fn does(&mut self, number: u64, level: Level, does: Does) -> Token {
        let (from, to) = (self.tick(), self.tick());
        let txn = self.txn(number, level);
        let token = Token::new(number, txn.statements.len() as u64 + 1);
        txn.statements.push(Statement { token, from, to, does, undone: None, sql: String::new() });
        token
    }

    fn reads(&mut self, number: u64, level: Level, range: Range, rows: &[Row]) {
        self.does(number, level, Does::Read { range, locking: false, rows: rows.to_vec() });
    }

    fn locks(&mut self, number: u64, level: Level, range: Range, rows: &[Row]) {
        self.does(number, level, Does::Read { range, locking: true, rows: rows.to_vec() });
    }

    /// Sets `b` of a row.
    fn writes(&mut self, number: u64, level: Level, key: Key, b: u64) -> Token {
        let token = self.does(number, level, Does::Update { range: item(key), rows: 1 });
        self.trails.entry(key).or_default().push(step(token, b));
        token
    }

    fn inserts(&mut self, number: u64, level: Level, key: Key, b: u64) -> Token {
        let token = self.does(number, level, Does::Put);
        self.trails.insert(key, vec![step(token, b)]);
        token
    }

    fn deletes(&mut self, number: u64, level: Level, key: Key) {
        let trail = self.trails.remove(&key).unwrap();
        let row = Row { key, last: *trail.last().unwrap(), trail: Some(trail) };
        self.does(number, level, Does::Delete { range: item(key), rows: vec![row] });
    }

    fn commits(&mut self, number: u64) {
        let (from, to) = (self.tick(), self.tick());
        self.txn(number, Level::ReadCommitted).end = End::Committed { from, to };
    }

    /// What is found, each once, at the levels that exclude it if `strict`.
    fn findings(mut self, strict: bool) -> Vec<Anomaly> {
        let row = |(key, trail): (Key, Vec<Step>)| Row { key, last: *trail.last().unwrap(), trail: Some(trail) };
        self.history.after = self.trails.into_iter().map(row).collect();
        let findings = judge(&self.history, self.engine);
        let findings = findings.iter().filter(|f| !strict || excludes(f.level, f.anomaly));
        let mut anomalies: Vec<_> = findings.map(|f| f.anomaly).collect();
        anomalies.sort();
        anomalies.dedup();
        anomalies
    }
}

use Level::{ReadCommitted as RC, ReadUncommitted as RU, RepeatableRead as RR, Serializable as SER, Snapshot as SI};

#[test]
fn writes_in_a_circle_are_g0() {
    let mut story = Story::new();
    story.writes(1, RC, 1, 10);
    story.writes(2, RC, 1, 20);
    story.writes(2, RC, 2, 20);
    story.writes(1, RC, 2, 10);
    story.commits(1);
    story.commits(2);
    assert_eq!(story.findings(false)[0], Anomaly::G0);
}

#[test]
fn a_read_of_what_was_rolled_back_is_g1a() {
    let mut story = Story::new();
    let token = story.writes(1, RC, 1, 10);
    story.reads(2, RC, item(1), &[row(1, token, 10)]);
    story.commits(2);
    story.trails.get_mut(&1).unwrap().pop();
    assert_eq!(story.findings(false), [Anomaly::G1a]);
}

#[test]
fn a_write_that_was_rolled_back_and_stays_is_g1a() {
    let mut story = Story::new();
    story.writes(1, RC, 1, 10);
    assert_eq!(story.findings(false), [Anomaly::G1a]);
}

#[test]
fn a_read_of_what_its_writer_replaced_is_g1b() {
    let mut story = Story::new();
    let token = story.writes(1, RC, 1, 10);
    story.reads(2, RC, item(1), &[row(1, token, 10)]);
    story.writes(1, RC, 1, 11);
    story.commits(1);
    story.commits(2);
    assert_eq!(story.findings(false)[0], Anomaly::G1b);
}

#[test]
fn reads_of_each_other_s_writes_are_g1c() {
    let mut story = Story::new();
    let one = story.writes(1, RC, 1, 10);
    let two = story.writes(2, RC, 2, 20);
    story.reads(1, RC, item(2), &[row(2, two, 20)]);
    story.reads(2, RC, item(1), &[row(1, one, 10)]);
    story.commits(1);
    story.commits(2);
    assert!(story.findings(false).contains(&Anomaly::G1c));
}

#[test]
fn a_level_that_reads_what_is_not_committed_puts_no_other_level_into_a_circle() {
    let circle = |engine, level| {
        let mut story = Story::new();
        story.engine = engine;
        let one = story.writes(1, SER, 1, 10);
        story.writes(2, level, 2, 20);
        story.reads(2, level, item(1), &[row(1, one, 10)]);
        story.commits(2);
        story.writes(1, SER, 2, 21);
        story.commits(1);
        story.findings(false)
    };
    assert_eq!(circle(Engine::Innodb, RU), [Anomaly::DirtyRead]);
    for (engine, level) in [(Engine::Innodb, RC), (Engine::Holdfast, RU)] {
        assert_eq!(circle(engine, level), [Anomaly::G1c, Anomaly::DirtyRead]);
    }
}

#[test]
fn a_read_before_the_commit_is_dirty() {
    let mut story = Story::new();
    let token = story.writes(1, RC, 1, 10);
    story.reads(2, RC, item(1), &[row(1, token, 10)]);
    story.commits(2);
    story.commits(1);
    assert_eq!(story.findings(false), [Anomaly::DirtyRead]);
}

#[test]
fn a_read_of_what_was_replaced_long_ago_is_stale() {
    for locking in [false, true] {
        let mut story = Story::new();
        story.writes(1, RC, 1, 10);
        story.commits(1);
        if locking {
            story.reads(2, RR, item(2), &[first(2)]);
            story.locks(2, RR, item(1), &[first(1)]);
        } else {
            story.reads(2, RR, item(1), &[first(1)]);
        }
        story.commits(2);
        assert!(story.findings(true).contains(&Anomaly::StaleRead), "{locking}");
    }
}

#[test]
fn a_snapshot_may_be_older_than_its_reads_but_not_than_its_beginning() {
    let mut story = Story::new();
    story.reads(2, RR, item(2), &[first(2)]);
    story.writes(1, RC, 1, 10);
    story.commits(1);
    story.reads(2, RR, item(1), &[first(1)]);
    story.commits(2);
    assert_eq!(story.findings(true), []);
}

/// T1 reads, goes back to a savepoint, and reads what T2 has changed meanwhile.
fn reads_again_after_going_back(begins_anew: bool) -> Story {
    let mut story = Story::new();
    story.reads(1, RR, item(1), &[first(1)]);
    let token = story.writes(2, RR, 1, 7);
    story.commits(2);
    let at = story.tick();
    let txn = story.txn(1, RR);
    txn.statements[0].undone = Some(at);
    txn.begun_anew = begins_anew.then_some(at);
    story.reads(1, RR, item(1), &[row(1, token, 7)]);
    story.commits(1);
    story
}

#[test]
fn a_view_outlasts_a_rollback_to_a_savepoint_but_for_one_before_the_first_use_of_the_engine() {
    assert_eq!(reads_again_after_going_back(false).findings(true), [Anomaly::DirtyRead, Anomaly::SnapshotSkew]);
    assert_eq!(reads_again_after_going_back(true).findings(true), []);
}

#[test]
fn what_was_read_before_a_rollback_to_a_savepoint_counts() {
    let mut story = Story::new();
    story.locks(1, SER, item(1), &[first(1)]);
    story.writes(2, SER, 1, 7);
    let token = story.writes(2, SER, 2, 7);
    story.commits(2);
    let at = story.tick();
    story.txn(1, SER).statements[0].undone = Some(at);
    story.locks(1, SER, item(2), &[row(2, token, 7)]);
    story.commits(1);
    assert!(story.findings(true).contains(&Anomaly::LockSkew));
}

#[test]
fn a_row_that_mixes_versions_is_torn() {
    let mut story = Story::new();
    let token = story.writes(1, RC, 1, 10);
    story.commits(1);
    story.reads(2, RC, item(1), &[row(1, token, 1)]);
    assert_eq!(story.findings(false), [Anomaly::TornRow]);
}

#[test]
fn a_row_that_is_not_what_was_asked_for_is_torn() {
    let mut story = Story::new();
    let token = story.writes(1, RC, 1, 10);
    story.commits(1);
    story.reads(2, RC, by_b(1, 2), &[row(1, token, 10), first(2)]);
    assert_eq!(story.findings(false), [Anomaly::TornRow]);
}

#[test]
fn a_row_that_an_index_shows_twice_is_found() {
    let mut story = Story::new();
    story.reads(1, RC, by_b(1, 1), &[first(1), first(1)]);
    assert_eq!(story.findings(false), [Anomaly::RowTwice]);
}

#[test]
fn a_row_that_an_index_does_not_show_is_found() {
    let mut story = Story::new();
    story.reads(1, RC, by_b(1, 2), &[first(1)]);
    assert_eq!(story.findings(false), [Anomaly::RowMissing]);
}

#[test]
fn a_locking_statement_may_pass_over_a_row_that_moves() {
    for (level, anomaly) in [(RC, Anomaly::RowPassed), (RR, Anomaly::RowMissing)] {
        let mut story = Story::new();
        story.does(1, level, Does::Read { range: by_b(1, 2), locking: true, rows: vec![first(1)] });
        // While that statement was under way, the row 2 became 1.
        story.writes(2, RC, 2, 1);
        story.commits(2);
        let late = story.clock + 1;
        story.txn(1, level).statements[0].to = late;
        assert_eq!(story.findings(false)[0], anomaly);
    }
}

/// T1 locks a range of an index. Meanwhile T2 moves the row 3 within the range, T3 deletes it, and
/// reads what T1 left: the answer to T1's statement comes late.
fn a_row_moves_and_goes(level: Level) -> Story {
    let mut story = Story::new();
    let token = story.does(1, level, Does::Update { range: by_b(1, 9), rows: 2 });
    story.writes(2, RC, 3, 1);
    story.commits(2);
    story.trails.get_mut(&1).unwrap().push(step(token, 7));
    story.trails.get_mut(&2).unwrap().push(step(token, 8));
    let rows = vec![row(1, token, 7)];
    story.does(3, RC, Does::Read { range: item(1), locking: true, rows });
    story.deletes(3, RC, 3);
    story.commits(3);
    let (from, to) = (story.txn(1, level).statements[0].from, story.clock + 1);
    let txn = story.txn(1, level);
    txn.statements[0].to = to;
    txn.long = false;
    txn.end = End::Committed { from, to };
    story
}

#[test]
fn a_row_that_may_have_been_passed_over_says_nothing_of_who_deleted_it() {
    assert_eq!(a_row_moves_and_goes(RC).findings(true), []);
    // Where ranges are locked, nothing is passed over: the deletion was seen.
    assert!(a_row_moves_and_goes(RR).findings(true).contains(&Anomaly::G1c));
}

#[test]
fn an_own_write_that_is_not_seen_is_found() {
    let mut story = Story::new();
    story.writes(1, RC, 1, 10);
    story.reads(1, RC, item(1), &[first(1)]);
    story.commits(1);
    assert_eq!(story.findings(false), [Anomaly::OwnWrite]);
    let mut story = Story::new();
    story.writes(1, RC, 1, 10);
    story.reads(1, RC, by_b(10, 10), &[]);
    story.commits(1);
    assert_eq!(story.findings(false), [Anomaly::OwnWrite]);
}

#[test]
fn half_of_a_transaction_in_a_statement_is_found() {
    let mut story = Story::new();
    let one = story.writes(1, RC, 1, 10);
    story.writes(1, RC, 2, 12);
    story.reads(2, RC, Range { column: Column::Id, low: 1, high: 2 }, &[row(1, one, 10), first(2)]);
    story.commits(1);
    // The statement was under way when the transaction committed.
    let late = story.clock + 1;
    story.txn(2, RC).statements[0].to = late;
    assert_eq!(story.findings(true), [Anomaly::StatementSkew]);
}

#[test]
fn half_of_a_transaction_in_a_snapshot_is_found() {
    let half = |level| {
        let mut story = Story::new();
        story.reads(2, level, item(1), &[first(1)]);
        story.writes(1, RC, 1, 10);
        let two = story.writes(1, RC, 2, 20);
        story.commits(1);
        story.reads(2, level, item(2), &[row(2, two, 20)]);
        story.commits(2);
        story.findings(true)
    };
    assert_eq!(half(RC), []);
    assert_eq!(half(RR)[..], [Anomaly::DirtyRead, Anomaly::SnapshotSkew]);
    assert!(half(SI).contains(&Anomaly::GSingle));
}

#[test]
fn half_of_a_deletion_in_a_snapshot_is_found() {
    let mut story = Story::new();
    story.reads(2, RR, by_b(1, 1), &[first(1)]);
    story.deletes(1, RC, 1);
    story.inserts(1, RC, 4, 4);
    story.commits(1);
    let token = w(1, 2);
    story.reads(2, RR, by_b(4, 4), &[row(4, token, 4)]);
    story.commits(2);
    assert!(story.findings(true).contains(&Anomaly::SnapshotSkew));
}

#[test]
fn locking_reads_that_do_not_lock_are_found() {
    let mut story = Story::new();
    story.locks(1, RR, by_b(1, 3), &[first(1), first(2), first(3)]);
    let two = story.writes(2, RR, 2, 3);
    story.writes(2, RR, 3, 3);
    story.commits(2);
    story.locks(1, RR, item(2), &[row(2, two, 3)]);
    story.commits(1);
    assert_eq!(story.findings(true), [Anomaly::LockSkew]);
}

#[test]
fn a_lost_update_is_found_where_it_is_forbidden() {
    let lost = |level, strict| {
        let mut story = Story::new();
        story.reads(1, level, item(1), &[first(1)]);
        story.reads(2, level, item(1), &[first(1)]);
        story.writes(1, level, 1, 10);
        story.commits(1);
        story.writes(2, level, 1, 20);
        story.commits(2);
        story.findings(strict)
    };
    assert_eq!(lost(RR, false), [Anomaly::LostUpdate]);
    assert_eq!(lost(RR, true), []);
    assert_eq!(lost(SI, true), [Anomaly::LostUpdate]);
    assert!(lost(SER, true).contains(&Anomaly::LostUpdate));
}

#[test]
fn write_skew_is_found_where_it_is_forbidden() {
    let skew = |level, range: fn(Key) -> Range, strict| {
        let mut story = Story::new();
        for txn in [1, 2] {
            story.reads(txn, level, range(1), &[first(1)]);
            story.reads(txn, level, range(2), &[first(2)]);
        }
        story.writes(1, level, 1, 10);
        story.writes(2, level, 2, 20);
        story.commits(1);
        story.commits(2);
        story.findings(strict)
    };
    assert_eq!(skew(SI, item, false), [Anomaly::G2Item]);
    assert_eq!(skew(SI, item, true), []);
    assert_eq!(skew(SER, item, true), [Anomaly::G2Item]);
}

#[test]
fn phantoms_in_a_circle_are_g2() {
    let skew = |level, strict| {
        let mut story = Story::new();
        for txn in [1, 2] {
            story.reads(txn, level, by_b(7, 9), &[]);
        }
        story.inserts(1, level, 4, 7);
        story.writes(2, level, 3, 8);
        story.commits(1);
        story.commits(2);
        story.findings(strict)
    };
    assert_eq!(skew(SI, false), [Anomaly::G2]);
    assert_eq!(skew(SI, true), []);
    assert_eq!(skew(SER, true), [Anomaly::G2]);
}

#[test]
fn a_write_that_is_nowhere_is_lost() {
    let mut story = Story::new();
    story.writes(1, RC, 1, 10);
    story.commits(1);
    story.trails.get_mut(&1).unwrap().pop();
    assert_eq!(story.findings(false), [Anomaly::LostWrite]);
}

#[test]
fn a_row_that_is_gone_or_back_is_a_lost_write() {
    let mut story = Story::new();
    story.trails.remove(&1);
    assert_eq!(story.findings(false), [Anomaly::LostWrite]);
    let mut story = Story::new();
    let trail = story.trails[&1].clone();
    story.deletes(1, RC, 1);
    story.commits(1);
    story.trails.insert(1, trail);
    assert_eq!(story.findings(false)[0], Anomaly::LostWrite);
}

#[test]
fn keys_that_come_again_are_in_order() {
    let mut story = Story::new();
    story.deletes(1, RC, 1);
    story.commits(1);
    story.inserts(2, RC, 1, 7);
    story.commits(2);
    story.deletes(3, RC, 1);
    story.inserts(3, RC, 1, 8);
    let last = story.writes(3, RC, 1, 9);
    story.commits(3);
    story.reads(4, SER, item(1), &[row(1, last, 9)]);
    story.commits(4);
    assert_eq!(story.findings(false), []);
}
