//! A script that touches everything - definitions, rows with large values, secondary indexes,
//! purge, checkpoints, compaction - and a model of what it has been promised.

use std::collections::BTreeMap;

use holdfast::{Database, Error, IndexDefinition, ReadTransaction, Result, TableDefinition, WriteTransaction};

/// Rows of one table.
pub type Rows = BTreeMap<u64, String>;
/// Tables by name.
pub type World = BTreeMap<String, Rows>;

const BY_BUCKET: IndexDefinition<u64, &str, &str> =
    IndexDefinition::new("by_bucket", |_: &u64, v: &String, keys| keys.push(part(v, 1)));
const BY_TAG: IndexDefinition<u64, &str, &str> =
    IndexDefinition::unique("by_tag", |_: &u64, v: &String, keys| keys.push(part(v, 0)));

fn part(value: &str, n: usize) -> &str {
    value.split(' ').nth(n).unwrap_or("")
}

/// A table of the script: a unique index and one that is not.
pub fn table(name: &str) -> TableDefinition<u64, &'static str> {
    TableDefinition::named(name).index(&BY_TAG).index(&BY_BUCKET)
}

/// Version `version` of row `key`, about `len` bytes.
pub fn value(key: u64, version: u32, len: usize) -> String {
    format!("tag{key}.{version} bucket{} {}", (key + u64::from(version)) % 5, "v".repeat(len))
}

/// A change of one row.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Put(u64, u32, usize),
    Delete(u64),
}

/// One step. Each is done as a whole or not at all.
#[derive(Clone, Debug)]
pub enum Act {
    Create(&'static str),
    /// Creates a table with so many rows in it.
    Load(&'static str, u64),
    /// The same with rows of which a page takes four.
    LoadLong(&'static str, u64),
    Rename(&'static str, &'static str),
    Drop(&'static str),
    Commit(&'static str, Vec<Change>),
    /// The second list is undone by a rollback to a savepoint, the first one is committed.
    CommitFirst(&'static str, Vec<Change>, Vec<Change>),
    RollBack(&'static str, Vec<Change>),
    /// A snapshot is taken, and holds back what is purged from here on.
    Look,
    /// The snapshot still sees what it saw, and ends.
    LookAgain,
    Checkpoint,
    Compact,
}

/// Length of a value that takes several pages of their own.
const LONG: usize = 9_000;

/// Puts a version of each of these rows; every ninth is too long for a page.
pub fn puts(keys: std::ops::Range<u64>, version: u32, len: usize) -> Vec<Change> {
    keys.map(|key| Change::Put(key, version, if key % 9 == 0 { LONG } else { len })).collect()
}

fn deletes(keys: std::ops::Range<u64>) -> Vec<Change> {
    keys.map(Change::Delete).collect()
}

/// The script.
pub fn script() -> Vec<Act> {
    use Act::*;
    vec![
        Create("a"),
        Commit("a", puts(0..60, 1, 150)),
        Checkpoint,
        Create("b"),
        Commit("b", puts(0..20, 1, 300)),
        Look,
        Commit("a", puts(0..40, 2, 100)),
        Commit("a", puts(10..30, 3, 200)),
        Commit("a", deletes(30..50)),
        RollBack("b", [puts(5..40, 2, 400), deletes(0..5)].concat()),
        CommitFirst("b", puts(20..30, 1, 50), [puts(25..45, 5, 10), deletes(0..9)].concat()),
        LookAgain,
        Commit("a", puts(100..140, 1, 700)),
        Checkpoint,
        Load("c", 60),
        Rename("b", "d"),
        Commit("c", [deletes(0..30), puts(30..40, 2, 20)].concat()),
        Drop("d"),
        Commit("a", deletes(100..139)),
        Compact,
        Commit("a", puts(100..110, 7, 80)),
        // So that the log goes round.
        Commit("a", puts(200..250, 1, 700)),
        Checkpoint,
        Commit("a", puts(200..250, 2, 700)),
    ]
}

impl Act {
    /// What the step makes of the model.
    pub fn apply(&self, world: &mut World) {
        match self {
            Act::Create(name) => drop(world.insert((*name).into(), Rows::new())),
            Act::Load(name, n) => drop(world.insert((*name).into(), (0..*n).map(|k| (k, value(k, 0, 90))).collect())),
            Act::LoadLong(name, n) => {
                drop(world.insert((*name).into(), (0..*n).map(|k| (k, value(k, 0, 900))).collect()))
            }
            Act::Rename(from, to) => {
                let rows = world.remove(*from).expect("the table is there");
                world.insert((*to).into(), rows);
            }
            Act::Drop(name) => drop(world.remove(*name)),
            Act::Commit(name, changes) | Act::CommitFirst(name, changes, _) => {
                let rows = world.get_mut(*name).expect("the table is there");
                for change in changes {
                    match *change {
                        Change::Put(key, version, len) => drop(rows.insert(key, value(key, version, len))),
                        Change::Delete(key) => drop(rows.remove(&key)),
                    }
                }
            }
            Act::RollBack(..) | Act::Look | Act::LookAgain | Act::Checkpoint | Act::Compact => {}
        }
    }
}

fn change(txn: &WriteTransaction, name: &str, changes: &[Change]) -> Result<()> {
    let rows = txn.open_table(&table(name))?;
    for change in changes {
        match *change {
            Change::Put(key, version, len) => drop(rows.upsert(key, &value(key, version, len))?),
            Change::Delete(key) => drop(rows.delete(key)?),
        }
    }
    Ok(())
}

/// Plays a script on a database, beside the model.
pub struct Player<'a> {
    pub db: &'a Database,
    pub world: World,
    look: Option<(ReadTransaction, World)>,
}

impl<'a> Player<'a> {
    pub fn new(db: &'a Database, world: World) -> Player<'a> {
        Player { db, world, look: None }
    }

    /// Plays one step.
    pub fn play(&mut self, act: &Act) -> Result<()> {
        self.act(act)?;
        act.apply(&mut self.world);
        Ok(())
    }

    fn act(&mut self, act: &Act) -> Result<()> {
        let db = self.db;
        match act {
            Act::Create(name) => db.create_table(&table(name)),
            Act::Load(name, n) => {
                db.create_table_with(&table(name), |rows| (0..*n).try_for_each(|k| rows.push(k, &value(k, 0, 90))))
            }
            Act::LoadLong(name, n) => {
                db.create_table_with(&table(name), |rows| (0..*n).try_for_each(|k| rows.push(k, &value(k, 0, 900))))
            }
            Act::Rename(from, to) => db.rename_table(from, to),
            Act::Drop(name) => db.drop_table(name),
            Act::Commit(name, changes) => db.transact(|txn| change(txn, name, changes)),
            Act::CommitFirst(name, first, second) => db.transact(|txn| {
                change(txn, name, first)?;
                let savepoint = txn.savepoint()?;
                change(txn, name, second)?;
                txn.rollback_to(&savepoint)
            }),
            Act::RollBack(name, changes) => {
                let txn = db.begin_write()?;
                change(&txn, name, changes)?;
                txn.rollback()
            }
            Act::Look => {
                self.look = Some((db.begin_read()?, self.world.clone()));
                Ok(())
            }
            Act::LookAgain => {
                let Some((txn, world)) = &self.look else { return Ok(()) };
                assert!(see(txn)? == *world, "the snapshot has changed");
                self.look = None;
                Ok(())
            }
            Act::Checkpoint => db.checkpoint(),
            Act::Compact => db.compact().map(drop),
        }
    }
}

/// What the snapshot sees, by its rows and by their index entries.
fn see(txn: &ReadTransaction) -> Result<World> {
    let mut world = World::new();
    for name in txn.list_tables() {
        let rows = txn.open_table(&table(&name))?;
        let found = rows.iter()?.collect::<Result<Rows>>()?;
        for (index, entries) in
            [rows.index(&BY_TAG)?.range(..)?, rows.index(&BY_BUCKET)?.range(..)?].into_iter().enumerate()
        {
            let mut n = 0;
            for entry in entries {
                let (key, row, value) = entry?;
                assert_eq!((key.as_str(), found.get(&row)), (part(&value, index), Some(&value)));
                n += 1;
            }
            assert_eq!(n, found.len(), "entries of an index of {name}");
        }
        world.insert(name, found);
    }
    Ok(world)
}

/// What the database holds.
pub fn world(db: &Database) -> Result<World> {
    see(&db.begin_read()?)
}

/// True if nothing more will come out of the database.
pub fn is_stopped(db: &Database) -> bool {
    matches!(db.begin_write().map(drop), Err(Error::Poisoned(_)))
}

/// Checks that the error is about the disk and says where, and calls nothing damaged that only
/// could not be read.
pub fn assert_clear(error: &Error) {
    let text = error.to_string();
    match error {
        Error::Io { file, .. } => assert!(!file.is_empty(), "{text}"),
        Error::DiskFull(what) => assert!(!what.is_empty(), "{text}"),
        Error::Poisoned(why) => assert!(!why.is_empty() && text.contains("reopen"), "{text}"),
        _ => panic!("an error of another kind: {error:?}"),
    }
}
