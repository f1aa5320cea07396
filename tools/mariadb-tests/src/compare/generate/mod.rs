//! Scenarios, step by step: what comes next depends on what has succeeded so far.

mod alters;
mod changes;
mod conditions;
mod create;
mod dice;
mod kinds;
mod long_keys;
mod long_scans;
mod moving_children;
mod partitions;
mod prepared;
mod queries;
mod recomputed;
mod references;
mod rows;
mod scenario;
mod schema;
mod stored;
mod xa;

use std::collections::VecDeque;

use holdfast_workload::rng::Rng;

use self::create::Taste;
use self::dice::Dice;
use self::prepared::Prepared;
pub use self::scenario::scenario;
use self::schema::{Column, Schema, Table};
use super::meaning::Xa;
use super::play::Source;
use super::script::{Statement, Step};

/// Of `optimizer_switch`: other ways to the same rows.
const SWITCHES: [&str; 7] = [
    "index_merge=off",
    "index_condition_pushdown=off",
    "mrr=on,mrr_sort_keys=on",
    "index_merge_sort_intersection=on",
    "rowid_filter=off,semijoin=off",
    "extended_keys=off",
    "derived_merge=off,materialization=off",
];
const LEVELS: [&str; 10] = [
    "REPEATABLE READ",
    "REPEATABLE READ",
    "REPEATABLE READ",
    "READ COMMITTED",
    "READ COMMITTED",
    "READ COMMITTED",
    "SERIALIZABLE",
    "SERIALIZABLE",
    "SERIALIZABLE",
    "READ UNCOMMITTED",
];
/// For one statement.
const SETTINGS: [&str; 8] = [
    "optimizer_switch = 'index_merge=off,mrr=on'",
    "optimizer_switch = 'index_condition_pushdown=off'",
    "join_cache_level = 8",
    "sort_buffer_size = 65536",
    "foreign_key_checks = 0",
    "sql_mode = ''",
    "auto_increment_increment = 3",
    "max_statement_time = 50",
];

/// Which sessions a scenario has.
#[derive(Clone, Copy)]
pub enum Sessions {
    /// One to three, and the isolation level of each, as the seed draws them.
    Drawn,
    /// Three, all at REPEATABLE READ.
    Three,
}

/// A scenario that is being made up.
pub struct Generator {
    rng: Rng,
    schema: Schema,
    sessions: usize,
    /// Of every session, if the seed does not draw it.
    level: Option<&'static str>,
    taste: Taste,
    /// What is to be said next in any case.
    queue: VecDeque<Step>,
    /// How many steps are to come.
    left: u64,
    kill_at: Option<u64>,
    /// What is there if the last statement of a session succeeds.
    then: Vec<Option<Schema>>,
    handlers: Vec<Option<String>>,
    prepared: Vec<Option<Prepared>>,
    /// The transaction of XA of each session.
    xa: Vec<xa::Stand>,
    clock: u64,
}

impl Source for Generator {
    fn sessions(&self) -> usize {
        self.sessions
    }

    fn next(&mut self, free: &[usize]) -> Option<Step> {
        if let Some(step) = self.queue.pop_front() {
            return Some(step);
        }
        if self.left == 0 || free.is_empty() {
            return None;
        }
        self.left -= 1;
        if self.kill_at.is_some_and(|at| at == self.left) {
            self.killed();
            return Some(Step::Kill);
        }
        let session = *self.rng.one_of(free);
        // A session that others wait for ends soon.
        if free.len() < self.sessions && self.rng.chance(35) {
            return Some(Step::say(session, *self.rng.one_of(&["COMMIT", "ROLLBACK"])));
        }
        for _ in 0..20 {
            if let Some(step) = self.step(session) {
                return Some(step);
            }
        }
        None
    }

    fn told(&mut self, session: usize, success: bool) {
        self.xa[session].told(success);
        let then = self.then[session].take();
        if let Some(schema) = then.filter(|_| success) {
            self.schema = schema;
        }
    }
}

impl Generator {
    /// Scenario `number` of a seed.
    pub fn new(seed: u64, number: u64, sessions: Sessions) -> Generator {
        let mut rng = Rng::for_part(seed, number);
        let drawn = if rng.chance(55) { 1 } else { 2 + rng.below(2) as usize };
        let (sessions, level) = match sessions {
            Sessions::Drawn => (drawn, None),
            Sessions::Three => (3, Some("REPEATABLE READ")),
        };
        let left = 10 + rng.below(45);
        let kill_at = (rng.below(150) == 0).then(|| 3 + rng.below(left - 3));
        let taste = Taste {
            partitions: rng.chance(18),
            versions: rng.chance(10),
            references: rng.chance(25),
            counts: kill_at.is_none() && rng.chance(25),
        };
        let mut generator = Generator {
            rng,
            schema: Schema::default(),
            sessions,
            level,
            taste,
            queue: VecDeque::new(),
            left,
            kill_at,
            then: vec![None; sessions],
            handlers: vec![None; sessions],
            prepared: vec![None; sessions],
            xa: (0..sessions as u64).map(xa::Stand::new).collect(),
            clock: 1_700_000_000,
        };
        generator.open();
        generator
    }

    fn open(&mut self) {
        let mode =
            *self.rng.one_of(&["", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES,NO_ZERO_DATE", "PAD_CHAR_TO_FULL_LENGTH"]);
        for session in 0..self.sessions {
            let set = format!("SET sql_mode = '{mode}'");
            self.queue.push_back(Step::say(session, set));
            if self.sessions > 1 || self.rng.chance(20) {
                let drawn = *self.rng.one_of(&LEVELS);
                let level = self.level.unwrap_or(drawn);
                self.queue.push_back(Step::say(session, format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")));
            }
        }
    }

    fn killed(&mut self) {
        self.schema.tables.retain(|table| table.temporary.is_none());
        self.handlers.fill(None);
        self.prepared.fill(None);
        for session in 0..self.sessions {
            let xa = &mut self.xa[session];
            xa.killed();
            if xa.state.is_some() {
                let sql = xa.next(&mut self.rng);
                self.queue.push_back(Step::say(session, sql));
            }
        }
        self.open();
    }

    fn step(&mut self, session: usize) -> Option<Step> {
        if self.schema.tables.len() < 2 && (self.schema.tables.is_empty() || self.rng.chance(15)) {
            return Some(self.new_table(session));
        }
        if matches!(self.xa[session].state, Some(Xa::Ended | Xa::Prepared)) && self.rng.chance(60) {
            return Some(Step::say(session, self.xa[session].next(&mut self.rng)));
        }
        let percent = self.rng.below(100);
        match percent {
            0..=58 => self.about_rows(session),
            59..=62 => self.prepared(session),
            63..=74 => {
                if self.rng.chance(20)
                    && let Some(step) = self.exchange(session)
                {
                    return Some(step);
                }
                let (sql, then) = changes::change(&self.schema, session, self.taste, &mut self.rng)?;
                self.then[session] = Some(then);
                Some(Step::say(session, sql))
            }
            75..=89 => Some(self.transaction(session)),
            90..=93 => self.handler(session),
            94..=95 => Some(self.switch(session)),
            _ => self.sequence(session),
        }
    }

    /// A change or a query, now and then with a setting of its own.
    fn about_rows(&mut self, session: usize) -> Option<Step> {
        let (sql, ordered) = self.change_or_query(session)?;
        let sql = match self.rng.below(100) {
            0..=2 => format!("SET STATEMENT {} FOR {sql}", self.rng.one_of(&SETTINGS)),
            3 => prepared::at_once(&sql, &mut self.rng),
            _ => sql,
        };
        Some(self.timed(Statement { session, sql, ordered }))
    }

    fn change_or_query(&mut self, session: usize) -> Option<(String, bool)> {
        if self.rng.chance(60) {
            rows::change(&self.schema, session, &mut self.rng).map(|sql| (sql, false))
        } else {
            queries::query(&self.schema, session, &mut self.rng)
        }
    }

    /// What prepares a statement, or carries out the one that is prepared.
    fn prepared(&mut self, session: usize) -> Option<Step> {
        if let Some(prepared) = self.prepared[session].clone().filter(|_| self.rng.chance(80)) {
            let sql = prepared.execute(&mut self.rng);
            return Some(Step::Say(Statement { session, sql, ordered: prepared.ordered }));
        }
        let (sql, ordered) = self.change_or_query(session)?;
        let (sql, prepared) = prepared::prepare("p", &sql, ordered, &mut self.rng);
        for _ in 0..self.rng.below(3) {
            let execute = prepared.execute(&mut self.rng);
            self.queue.push_back(Step::Say(Statement { session, sql: execute, ordered }));
        }
        self.prepared[session] = Some(prepared);
        Some(Step::say(session, sql))
    }

    fn exchange(&mut self, session: usize) -> Option<Step> {
        let (said, table) = partitions::exchange(&mut self.schema, &mut self.rng)?;
        let mut steps = said.into_iter().map(|sql| Step::say(session, sql));
        let first = steps.next();
        self.queue.extend(steps);
        self.schema.tables.push(table);
        first
    }

    /// With it come its first rows.
    fn new_table(&mut self, session: usize) -> Step {
        let mut then = self.schema.clone();
        let (table, sql) = create::table(&mut then, session, self.taste, &mut self.rng);
        for _ in 0..2 + self.rng.below(3) {
            let insert = rows::insert(&table, &mut self.rng);
            self.queue.push_back(Step::say(session, insert));
        }
        then.tables.push(table);
        self.then[session] = Some(then);
        Step::say(session, sql)
    }

    /// Where rows have a history, time goes on.
    fn timed(&mut self, statement: Statement) -> Step {
        if !self.taste.versions || !self.rng.chance(70) {
            return Step::Say(statement);
        }
        self.clock += 1;
        let session = statement.session;
        self.queue.push_back(Step::Say(statement));
        Step::say(session, format!("SET timestamp = {}", self.clock))
    }

    fn transaction(&mut self, session: usize) -> Step {
        if self.rng.chance(if self.xa[session].state.is_some() { 50 } else { 8 }) {
            return Step::say(session, self.xa[session].next(&mut self.rng));
        }
        let sql = match self.rng.below(20) {
            0..=5 => "BEGIN",
            6..=9 => "COMMIT",
            10..=11 => "ROLLBACK",
            12 => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            13..=14 => "SAVEPOINT a",
            15 => "SAVEPOINT b",
            16..=17 => "ROLLBACK TO a",
            18 => *self.rng.one_of(&["ROLLBACK TO b", "RELEASE SAVEPOINT a"]),
            _ => *self.rng.one_of(&["SET autocommit = 0", "SET autocommit = 1"]),
        };
        Step::say(session, sql)
    }

    fn handler(&mut self, session: usize) -> Option<Step> {
        let Some(name) = self.handlers[session].clone() else {
            let name = self.schema.table(session, &mut self.rng)?.name.clone();
            self.handlers[session] = Some(name.clone());
            return Some(Step::say(session, format!("HANDLER {name} OPEN AS h")));
        };
        let read = |sql: String| Some(Step::Say(Statement { session, sql, ordered: true }));
        let table = self.schema.tables.iter().find(|table| table.name == name).cloned();
        match (self.rng.below(10), table) {
            (0, _) | (_, None) => {
                self.handlers[session] = None;
                Some(Step::say(session, "HANDLER h CLOSE"))
            }
            (1..=2, _) => read(format!("HANDLER h READ {} LIMIT 3", self.rng.one_of(&["FIRST", "NEXT"]))),
            (n, Some(table)) if !table.keys.is_empty() => {
                let key = self.rng.one_of(&table.keys).clone();
                let is_virtual = |name: &str| table.named(name).is_some_and(Column::is_virtual);
                // InnoDB merges the partitions' rows by virtual columns that it has not computed.
                if table.partitioned && key.parts.iter().any(|part| is_virtual(&part.column)) {
                    return None;
                }
                if self.rng.chance(12) {
                    return Some(self.emptied(session, &table, &key.name));
                }
                if n < 7 {
                    let way = self.rng.one_of(&["FIRST", "NEXT", "PREV", "LAST"]);
                    return read(format!("HANDLER h READ {} {way} LIMIT 2", key.name));
                }
                let value = table.named(&key.parts[0].column)?.value(&mut self.rng);
                let way = self.rng.one_of(&["=", ">=", ">", "<=", "<"]);
                read(format!("HANDLER h READ {} {way} ({value}) LIMIT 3", key.name))
            }
            _ => None,
        }
    }

    /// A HANDLER comes to an index that has become empty, and goes on or turns round when there are
    /// rows again.
    fn emptied(&mut self, session: usize, table: &Table, key: &str) -> Step {
        let read = |way: &str| {
            Step::Say(Statement { session, sql: format!("HANDLER h READ {key} {way} LIMIT 2"), ordered: true })
        };
        let (end, on, back) = *self.rng.one_of(&[("FIRST", "NEXT", "PREV"), ("LAST", "PREV", "NEXT")]);
        self.queue.push_back(Step::say(session, format!("DELETE FROM {}", table.name)));
        self.queue.push_back(read(end));
        for _ in 0..1 + self.rng.below(2) {
            self.queue.push_back(Step::say(session, rows::insert(table, &mut self.rng)));
        }
        self.queue.push_back(read(on));
        self.queue.push_back(read(self.rng.one_of::<&str>(&[on, on, back])));
        read(self.rng.one_of::<&str>(&["FIRST", "LAST"]))
    }

    fn switch(&mut self, session: usize) -> Step {
        let sql = match self.rng.below(4) {
            0 => format!("SET optimizer_switch = '{}'", self.rng.one_of(&SWITCHES)),
            1 => "SET optimizer_switch = DEFAULT".into(),
            2 => format!("SET join_cache_level = {}", self.rng.below(9)),
            _ => format!("SET sort_buffer_size = {}", self.rng.one_of(&[65_536, 2_097_152])),
        };
        Step::say(session, sql)
    }

    fn sequence(&mut self, session: usize) -> Option<Step> {
        if self.schema.sequences.is_empty() {
            let mut then = self.schema.clone();
            let name = then.new_name("s");
            let how =
                *self.rng.one_of(&["", " CACHE 3", " NOCACHE", " START WITH 5 INCREMENT BY -2", " MAXVALUE 4 CYCLE"]);
            then.sequences.push(name.clone());
            self.then[session] = Some(then);
            return Some(Step::say(session, format!("CREATE SEQUENCE {name}{how}")));
        }
        let name = self.rng.one_of(&self.schema.sequences).clone();
        let sql = match self.rng.below(8) {
            0..=3 => format!("SELECT NEXTVAL({name})"),
            4 => format!("SELECT SETVAL({name}, {})", self.rng.below(6)),
            5 => format!("SELECT LASTVAL({name})"),
            6 => format!("ALTER SEQUENCE {name} RESTART"),
            _ => format!("SELECT * FROM {name}"),
        };
        Some(Step::say(session, sql))
    }
}
