//! The isolation levels, and what each of them excludes.

use super::engine::Engine;

/// A level, as a session asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    /// REPEATABLE READ with `holdfast_snapshot_isolation` or `innodb_snapshot_isolation`.
    Snapshot,
    Serializable,
}

use Level::{ReadCommitted, ReadUncommitted, RepeatableRead, Serializable, Snapshot};

impl Level {
    pub const ALL: [Level; 5] = [ReadUncommitted, ReadCommitted, RepeatableRead, Snapshot, Serializable];

    /// The name in a table.
    pub fn name(self) -> &'static str {
        match self {
            ReadUncommitted => "READ UNCOMMITTED",
            ReadCommitted => "READ COMMITTED",
            RepeatableRead => "REPEATABLE READ",
            Snapshot => "REPEATABLE READ, snapshot isolation",
            Serializable => "SERIALIZABLE",
        }
    }

    /// The statement with which a session asks for it.
    pub fn sql(self, engine: Engine) -> String {
        let (level, snapshot) = match self {
            ReadUncommitted => ("READ-UNCOMMITTED", "OFF"),
            ReadCommitted => ("READ-COMMITTED", "OFF"),
            RepeatableRead => ("REPEATABLE-READ", "OFF"),
            Snapshot => ("REPEATABLE-READ", "ON"),
            Serializable => ("SERIALIZABLE", "OFF"),
        };
        let prefix = engine.name().to_lowercase();
        format!("SET SESSION tx_isolation = '{level}', SESSION {prefix}_snapshot_isolation = {snapshot}")
    }

    /// True if locking reads keep others out of the ranges that they read.
    pub fn locks_ranges(self) -> bool {
        self >= RepeatableRead
    }

    /// True if its reads see what is committed alone.
    pub fn reads_committed(self, engine: Engine) -> bool {
        self != ReadUncommitted || engine == Engine::Holdfast
    }

    /// True if all plain reads of a transaction are of one snapshot.
    pub fn has_snapshot(self) -> bool {
        matches!(self, RepeatableRead | Snapshot)
    }
}

/// What a history may contain. The names that begin with G are those of Adya's thesis ("Weak
/// Consistency", MIT 1999).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// A write of a committed transaction is in no version, or a write is there more often than it
    /// was made.
    LostWrite,
    /// Transactions overwrite each other's versions in a circle.
    G0,
    /// A version was read, or stayed, whose writer was rolled back.
    G1a,
    /// A version was read that its own writer replaced.
    G1b,
    /// Transactions depend on each other's versions in a circle.
    G1c,
    /// A version was read before its writer committed.
    DirtyRead,
    /// A version was read that had been replaced, and the replacement acknowledged, before the view
    /// could have been taken.
    StaleRead,
    /// The columns of a row are not those of any version, or do not satisfy the condition that
    /// found the row.
    TornRow,
    /// A statement shows a row twice.
    RowTwice,
    /// A statement leaves out a row that satisfies its condition in all versions that it could see.
    RowMissing,
    /// The same for a locking statement that has no range to keep others out, and whose index the
    /// row changed its place in meanwhile.
    RowPassed,
    /// A transaction does not see its own last write.
    OwnWrite,
    /// A plain statement sees one write of a transaction and not another one.
    StatementSkew,
    /// The plain reads of a transaction, together, see one write of a transaction and not another
    /// one.
    SnapshotSkew,
    /// The same for locking reads and changes.
    LockSkew,
    /// A transaction overwrote a version that it had not seen, after it had seen the one before.
    LostUpdate,
    /// A circle with one antidependency: read skew in the widest sense.
    GSingle,
    /// A circle with several antidependencies, all of single rows: write skew.
    G2Item,
    /// A circle with several antidependencies, one of them through a condition.
    G2,
}

impl Anomaly {
    pub const ALL: [Anomaly; 19] = [
        Anomaly::LostWrite,
        Anomaly::G0,
        Anomaly::G1a,
        Anomaly::G1b,
        Anomaly::G1c,
        Anomaly::DirtyRead,
        Anomaly::StaleRead,
        Anomaly::TornRow,
        Anomaly::RowTwice,
        Anomaly::RowMissing,
        Anomaly::RowPassed,
        Anomaly::OwnWrite,
        Anomaly::StatementSkew,
        Anomaly::SnapshotSkew,
        Anomaly::LockSkew,
        Anomaly::LostUpdate,
        Anomaly::GSingle,
        Anomaly::G2Item,
        Anomaly::G2,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Anomaly::LostWrite => "lost write",
            Anomaly::G0 => "G0",
            Anomaly::G1a => "G1a",
            Anomaly::G1b => "G1b",
            Anomaly::G1c => "G1c",
            Anomaly::DirtyRead => "dirty read",
            Anomaly::StaleRead => "stale read",
            Anomaly::TornRow => "torn row",
            Anomaly::RowTwice => "row twice",
            Anomaly::RowMissing => "row missing",
            Anomaly::RowPassed => "row passed over",
            Anomaly::OwnWrite => "own write not seen",
            Anomaly::StatementSkew => "skew within a statement",
            Anomaly::SnapshotSkew => "skew within a snapshot",
            Anomaly::LockSkew => "skew of locking reads",
            Anomaly::LostUpdate => "lost update",
            Anomaly::GSingle => "G-single",
            Anomaly::G2Item => "G2-item",
            Anomaly::G2 => "G2",
        }
    }
}

/// What each level allows on Holdfast; it excludes everything else. This is the table of
/// `docs/design/locks.md` in terms of anomalies. READ UNCOMMITTED reads what is committed.
const ALLOWED: [(Level, &[Anomaly]); 5] = [
    (ReadUncommitted, BY_STATEMENT),
    (ReadCommitted, BY_STATEMENT),
    (RepeatableRead, &[Anomaly::LostUpdate, Anomaly::GSingle, Anomaly::G2Item, Anomaly::G2]),
    (Snapshot, &[Anomaly::G2Item, Anomaly::G2]),
    (Serializable, &[]),
];

/// Where each statement has a view of its own, and ranges are not locked.
const BY_STATEMENT: &[Anomaly] =
    &[Anomaly::RowPassed, Anomaly::SnapshotSkew, Anomaly::LostUpdate, Anomaly::GSingle, Anomaly::G2Item, Anomaly::G2];

/// True if a transaction of the level must not meet the anomaly on Holdfast.
pub fn excludes(level: Level, anomaly: Anomaly) -> bool {
    !ALLOWED.iter().any(|(of, allowed)| *of == level && allowed.contains(&anomaly))
}
