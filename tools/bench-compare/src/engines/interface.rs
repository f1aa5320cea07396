//! What an engine has to do, and how durable it is then.

use serde::{Deserialize, Serialize};

/// What a commit waits for.
#[derive(Serialize, Deserialize, clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the log is written and synced once in a while.
    Lazy,
    /// The log is handed to the operating system.
    Write,
    /// The log is on the disk.
    Sync,
}

/// What the engines have to do.
pub trait Engine: Sync {
    /// Loads rows `0..rows` in key order by the engine's fastest documented way, durable at the
    /// end.
    fn bulk_load(&self, rows: u64) -> anyhow::Result<()>;

    /// The durability of the sessions to come, for engines that set it per database. No session is
    /// open.
    fn set_durability(&self, _durability: Durability) -> anyhow::Result<()> {
        Ok(())
    }

    /// The number of sessions to come, for engines each session of which has a cache of its own.
    /// No session is open.
    fn set_sessions(&self, _sessions: usize) {}

    /// A session for one thread, whose commits are as durable as `durability`, or as the nearest
    /// mode.
    fn session(&self, durability: Durability) -> anyhow::Result<Box<dyn Session + '_>>;
}

/// What one thread does.
pub trait Session {
    /// Reads one row in a transaction (or snapshot) of its own; returns a byte of its value.
    fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<u8>>;

    /// Reads `count` rows from `key` on; returns how many there were.
    fn range(&mut self, key: &[u8], count: usize) -> anyhow::Result<usize>;

    /// Overwrites one row in a transaction of its own.
    fn put(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()>;

    /// Reads one row with a lock, changes it, and writes it back, in one transaction.
    fn read_modify_write(&mut self, key: &[u8]) -> anyhow::Result<()>;
}

/// A second table, to the end of which rows are inserted.
pub trait Appends: Engine {
    /// Empties the table where the engine can do so at once; keys of later rows are larger in any
    /// case.
    fn empty_appended(&self) -> anyhow::Result<()>;

    /// A session for one thread.
    fn appender(&self, durability: Durability) -> anyhow::Result<Box<dyn Appender + '_>>;
}

/// What one thread does to the second table.
pub trait Appender {
    /// Inserts one row in a transaction of its own.
    fn append(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()>;
}

/// The change of a read-modify-write.
pub fn modified(value: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    value[0] = value[0].wrapping_add(1);
    value
}
