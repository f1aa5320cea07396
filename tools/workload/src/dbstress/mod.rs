//! dbSTRESS, Dimitri Kravtchuk's OLTP test: five tables, a READ of two SELECTs, a WRITE that
//! changes one row of HISTORY.
//!
//! - ZONE, 10 rows: REF CHAR(2), NAME CHAR(40)
//! - SECTION, 100 rows: REF CHAR(2), REF_ZONE CHAR(2), NAME CHAR(40)
//! - STAT, 1,000 rows: REF CHAR(3), NAME CHAR(40), NUMB INT
//! - OBJECT, N rows: REF CHAR(10), REF_SECTION CHAR(2), NAME CHAR(30), CREATE_DATE CHAR(12), NOTE
//!   CHAR(100)
//! - HISTORY, 20 N rows: REF_OBJECT CHAR(10), HORDER INT, REF_STAT CHAR(3), BEGIN_DATE CHAR(12),
//!   END_DATE CHAR(12), NOTE CHAR(100)
//!
//! The first four are clustered by their unique REF. HISTORY has an index on (REF_OBJECT, HORDER)
//! that is not unique by default. Then a server clusters the table by a hidden row id, and every
//! access goes from the index to the row. That is what [`Options::hpk`] off does here, with the
//! index as a table of its own; with it on, HISTORY is clustered by the pair.
//!
//! | module | what |
//! |---|---|
//! | [`tables`] | columns, keys, and the initial rows |
//! | [`anti_dead`] | which OBJECT a session takes: AntiDEAD in its formulas, and off |
//! | [`session`] | the statements and the transactions |

pub mod anti_dead;
pub mod session;
pub mod tables;

pub use anti_dead::AntiDead;
pub use session::{Session, Statement};
pub use tables::{Table, generate, table_names};

/// HISTORY rows of each OBJECT.
pub const HISTORY_PER_OBJECT: u32 = 20;
/// Rows of STAT.
pub const STATS: u32 = 1000;
/// Rows of SECTION.
pub const SECTIONS: u32 = 100;
/// Rows of ZONE.
pub const ZONES: u32 = 10;

/// A dbSTRESS run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// OBJECTs.
    pub objects: u32,
    /// Sessions, for the formulas of AntiDEAD.
    pub sessions: u32,
    /// READs per WRITE; 0: no WRITE at all.
    pub rw_ratio: u32,
    /// UPDATEs per WRITE.
    pub updates: u32,
    /// Pairs of DELETE and INSERT per WRITE.
    pub delete_inserts: u32,
    /// The rule by which a session chooses OBJECTs.
    pub anti_dead: AntiDead,
    /// True if all statements of a transaction take the same OBJECT.
    pub same_ref: bool,
    /// True if HISTORY is clustered by (REF_OBJECT, HORDER).
    pub hpk: bool,
}

impl Options {
    /// The light scenario of the 2010 reports with `RW=rw_ratio`: a WRITE is one UPDATE.
    #[must_use]
    pub fn light(objects: u32, sessions: u32, rw_ratio: u32) -> Options {
        Options {
            objects,
            sessions,
            rw_ratio,
            updates: 1,
            delete_inserts: 0,
            anti_dead: AntiDead::Slices,
            same_ref: true,
            hpk: true,
        }
    }
}
