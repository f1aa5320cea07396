//! Three sessions and tables that refer to each other, mostly at READ COMMITTED: parents are
//! deleted while another session moves their children in the index of the FOREIGN KEY, by a later
//! column of it or by the primary key, and are inserted again under another primary key.

use std::collections::VecDeque;

use holdfast_workload::rng::Rng;

use super::super::script::Step;
use super::dice::Dice;

pub const SESSIONS: usize = 3;
/// Primary keys of parents are below that.
const PARENTS: u64 = 6;
/// Primary keys of children, and what moves them, are below that.
const CHILDREN: u64 = 10;
const ACTIONS: [&str; 5] =
    [" ON DELETE CASCADE", " ON DELETE CASCADE", "", " ON DELETE SET NULL", " ON DELETE CASCADE ON UPDATE CASCADE"];

/// Parents `p`, with a primary key and a unique one, and the children of each: `c` and `f`.
pub struct Family;

impl Family {
    /// New tables with rows, and the statements that make them.
    pub fn create(rng: &mut Rng) -> (Family, VecDeque<Step>) {
        let level = *rng.one_of(&["READ COMMITTED", "READ COMMITTED", "READ COMMITTED", "REPEATABLE READ"]);
        let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
        let mut story: VecDeque<Step> = (0..SESSIONS).map(|session| Step::say(session, &set)).collect();
        story.push_back(Step::say(0, "CREATE TABLE p (id INT PRIMARY KEY, u INT, UNIQUE KEY (u))"));
        for (child, parent) in [("c", "id"), ("f", "u")] {
            let (key, action) = (*rng.one_of(&["x, s", "x, s", "x"]), *rng.one_of(&ACTIONS));
            let reference = format!("CONSTRAINT {child}p FOREIGN KEY (x) REFERENCES p ({parent}){action}");
            story.push_back(Step::say(
                0,
                format!("CREATE TABLE {child} (id INT PRIMARY KEY, x INT, s INT, KEY xs ({key}), {reference})"),
            ));
        }
        let parents: Vec<_> = (0..PARENTS - 2).map(|id| format!("({id}, {id})")).collect();
        story.push_back(Step::say(0, format!("INSERT INTO p VALUES {}", parents.join(", "))));
        for child in ["c", "f"] {
            // Mostly of two parents.
            let rows: Vec<_> =
                (0..CHILDREN - 2).map(|id| format!("({id}, {}, {})", rng.below(4) / 2, rng.below(CHILDREN))).collect();
            story.push_back(Step::say(0, format!("INSERT INTO {child} VALUES {}", rows.join(", "))));
        }
        (Family, story)
    }

    /// What comes next.
    pub fn step(&self, rng: &mut Rng) -> VecDeque<Step> {
        match rng.below(10) {
            0..=2 => moved(rng),
            3 => inserted_again(rng),
            _ => {
                let sql = match rng.below(20) {
                    0..=1 => "BEGIN".to_owned(),
                    2..=5 => "COMMIT".to_owned(),
                    6 => "ROLLBACK".to_owned(),
                    7..=8 => delete(rng),
                    9..=11 => insert_parent(rng),
                    12..=14 => insert_child(rng),
                    15 => format!("DELETE FROM {} WHERE id = {}", child(rng), rng.below(CHILDREN)),
                    16 => format!("UPDATE p SET u = {} WHERE id = {}", rng.below(PARENTS), rng.below(PARENTS)),
                    17 => format!("SELECT id, x FROM {} WHERE x = {}", child(rng), rng.below(3)),
                    _ => a_move(rng),
                };
                VecDeque::from([Step::say(rng.below(SESSIONS as u64) as usize, sql)])
            }
        }
    }
}

fn child(rng: &mut Rng) -> &'static str {
    rng.one_of::<&'static str>(&["c", "c", "f"])
}

fn delete(rng: &mut Rng) -> String {
    let column = *rng.one_of(&["id", "id", "u"]);
    format!("DELETE FROM p WHERE {column} = {}", rng.below(3))
}

fn insert_parent(rng: &mut Rng) -> String {
    format!("INSERT INTO p VALUES ({}, {})", rng.below(PARENTS), rng.below(PARENTS))
}

fn insert_child(rng: &mut Rng) -> String {
    format!("INSERT INTO {} VALUES ({}, {}, {})", child(rng), rng.below(CHILDREN), rng.below(3), rng.below(CHILDREN))
}

/// A child gets another place in the indexes.
fn a_move(rng: &mut Rng) -> String {
    let column = *rng.one_of(&["s", "s", "s", "id", "x"]);
    let value = if column == "x" { rng.below(3) } else { rng.below(CHILDREN) };
    format!("UPDATE {} SET {column} = {value} WHERE id = {}", child(rng), rng.below(CHILDREN))
}

/// The sessions in any order.
fn cast(rng: &mut Rng) -> [usize; SESSIONS] {
    let first = rng.below(SESSIONS as u64) as usize;
    let [second, third] = [(first + 1) % SESSIONS, (first + 2) % SESSIONS];
    if rng.chance(50) { [first, second, third] } else { [first, third, second] }
}

/// A parent is deleted, which waits for a child that is locked; another child is moved meanwhile.
fn moved(rng: &mut Rng) -> VecDeque<Step> {
    let [keeper, deleter, mover] = cast(rng);
    let (child, one) = (child(rng), rng.below(CHILDREN));
    let keep = match rng.below(3) {
        0 => format!("UPDATE {child} SET s = s + 1 WHERE id = {one}"),
        _ => format!("SELECT id FROM {child} WHERE id = {one} FOR UPDATE"),
    };
    let mut story = VecDeque::from([Step::say(keeper, "BEGIN"), Step::say(keeper, keep)]);
    if rng.chance(30) {
        story.push_back(Step::say(deleter, "BEGIN"));
    }
    story.push_back(Step::say(deleter, delete(rng)));
    for _ in 0..1 + rng.below(2) {
        story.push_back(Step::say(mover, a_move(rng)));
    }
    let end = *rng.one_of(&["COMMIT", "COMMIT", "ROLLBACK"]);
    story.extend([(keeper, end), (mover, "COMMIT"), (deleter, "COMMIT")].map(|(session, sql)| Step::say(session, sql)));
    story
}

/// A parent is deleted and inserted again, under another primary key, while a child refers to it.
fn inserted_again(rng: &mut Rng) -> VecDeque<Step> {
    let [deleter, inserter, _] = cast(rng);
    let (value, id) = (rng.below(3), rng.below(PARENTS));
    let again = match rng.below(3) {
        0 => format!("INSERT INTO p VALUES ({value}, {id})"),
        _ => format!("INSERT INTO p VALUES ({id}, {value})"),
    };
    let delete = format!("DELETE FROM p WHERE {} = {value}", rng.one_of(&["id", "u", "u"]));
    let refer = if rng.chance(60) { insert_child(rng) } else { a_move(rng) };
    let said = [(deleter, "BEGIN".to_owned()), (deleter, delete), (inserter, refer), (deleter, again)];
    let mut story: VecDeque<Step> = said.into_iter().map(|(session, sql)| Step::say(session, sql)).collect();
    story.extend([Step::say(deleter, "COMMIT"), Step::say(inserter, "COMMIT")]);
    story
}
