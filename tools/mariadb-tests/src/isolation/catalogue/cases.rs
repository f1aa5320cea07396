//! The cases: those of Martin Kleppmann's Hermitage, step by step.
//!
//! The table is `t (id INT PRIMARY KEY, value INT, KEY (value))` with the rows (1, 10) and (2, 20).
//! All sessions have begun a transaction before the first step.

use super::run::Run;

/// A schedule, and what shows that the anomaly happened in it.
pub struct Case {
    pub name: &'static str,
    /// What happens if it happens.
    pub what: &'static str,
    /// Which session does what.
    pub script: &'static [(usize, &'static str)],
    pub happened: fn(&Run) -> bool,
}

const SET_1_TO_11: &str = "UPDATE t SET value = 11 WHERE id = 1";
const SET_1_TO_12: &str = "UPDATE t SET value = 12 WHERE id = 1";
const SET_2_TO_18: &str = "UPDATE t SET value = 18 WHERE id = 2";
const ROW_1: &str = "SELECT id, value FROM t WHERE id = 1";
const ROW_2: &str = "SELECT id, value FROM t WHERE id = 2";
const ALL: &str = "SELECT id, value FROM t WHERE id > 0";
const BY_VALUE: &str = "SELECT id, value FROM t FORCE INDEX (value) WHERE value > 0 ORDER BY value";
const THIRDS: &str = "SELECT id, value FROM t FORCE INDEX (value) WHERE value > 0 AND value % 3 = 0";

pub const CASES: &[Case] = &[
    Case {
        name: "G0",
        what: "two transactions overwrite each other's rows, half of each stays",
        script: &[
            (1, SET_1_TO_11),
            (2, SET_1_TO_12),
            (1, "UPDATE t SET value = 21 WHERE id = 2"),
            (1, "COMMIT"),
            (2, "UPDATE t SET value = 22 WHERE id = 2"),
            (2, "COMMIT"),
        ],
        happened: |run| ![[(1, 11), (2, 21)], [(1, 12), (2, 22)]].iter().any(|rows| run.rows == rows),
    },
    Case {
        name: "G1a",
        what: "a value is read that is rolled back",
        script: &[(1, "UPDATE t SET value = 101 WHERE id = 1"), (2, ALL), (1, "ROLLBACK"), (2, ALL), (2, "COMMIT")],
        happened: |run| run.saw(1, (1, 101)),
    },
    Case {
        name: "G1a, by an index",
        what: "the same, read along the index of the value",
        script: &[(1, "UPDATE t SET value = 101 WHERE id = 1"), (2, BY_VALUE), (1, "ROLLBACK"), (2, "COMMIT")],
        happened: |run| run.saw(1, (1, 101)),
    },
    Case {
        name: "G1b",
        what: "a value is read that its transaction replaces",
        script: &[
            (1, "UPDATE t SET value = 101 WHERE id = 1"),
            (2, ALL),
            (1, SET_1_TO_11),
            (1, "COMMIT"),
            (2, ALL),
            (2, "COMMIT"),
        ],
        happened: |run| run.saw(1, (1, 101)),
    },
    Case {
        name: "G1c",
        what: "two transactions read each other's changes",
        script: &[
            (1, SET_1_TO_11),
            (2, "UPDATE t SET value = 22 WHERE id = 2"),
            (1, ROW_2),
            (2, ROW_1),
            (1, "COMMIT"),
            (2, "COMMIT"),
        ],
        happened: |run| run.saw(2, (2, 22)) && run.saw(3, (1, 11)),
    },
    Case {
        name: "OTV",
        what: "a change that was seen is gone in the next read",
        script: &[
            (1, SET_1_TO_11),
            (1, "UPDATE t SET value = 19 WHERE id = 2"),
            (2, SET_1_TO_12),
            (1, "COMMIT"),
            (3, ROW_1),
            (3, ROW_2),
            (2, SET_2_TO_18),
            (2, "COMMIT"),
            (3, ROW_2),
            (3, ROW_1),
            (3, "COMMIT"),
        ],
        happened: |run| run.saw(4, (1, 12)) && run.saw(5, (2, 19)),
    },
    Case {
        name: "PMP",
        what: "a row that was inserted meanwhile appears in the second read",
        script: &[
            (1, "SELECT id, value FROM t WHERE value = 30"),
            (2, "INSERT INTO t VALUES (3, 30)"),
            (2, "COMMIT"),
            (1, THIRDS),
            (1, "COMMIT"),
        ],
        happened: |run| run.saw(3, (3, 30)),
    },
    Case {
        name: "PMP, write",
        what: "DELETE by a condition deletes another row than SELECT showed",
        script: &[
            (2, "SELECT id, value FROM t WHERE value = 20"),
            (1, "UPDATE t SET value = value + 10"),
            (2, "DELETE FROM t WHERE value = 20"),
            (1, "COMMIT"),
            (2, "COMMIT"),
        ],
        happened: |run| run.rows == [(2, 30)],
    },
    Case {
        name: "P4",
        what: "a row is read, changed by another one, and overwritten: a lost update",
        script: &[(1, ROW_1), (2, ROW_1), (1, SET_1_TO_11), (2, SET_1_TO_12), (1, "COMMIT"), (2, "COMMIT")],
        happened: |run| run.all_went_well(),
    },
    Case {
        name: "P4, FOR UPDATE",
        what: "the same, read with locks",
        script: &[
            (1, "SELECT id, value FROM t WHERE id = 1 FOR UPDATE"),
            (2, "SELECT id, value FROM t WHERE id = 1 FOR UPDATE"),
            (1, SET_1_TO_11),
            (1, "COMMIT"),
            (2, SET_1_TO_12),
            (2, "COMMIT"),
        ],
        happened: |run| run.saw(1, (1, 10)),
    },
    Case {
        name: "P4, after a snapshot",
        what: "FOR UPDATE does not show what the snapshot showed",
        script: &[
            (2, ROW_1),
            (1, SET_1_TO_11),
            (1, "COMMIT"),
            (2, "SELECT id, value FROM t WHERE id = 1 FOR UPDATE"),
            (2, "COMMIT"),
        ],
        happened: |run| run.saw(3, (1, 11)),
    },
    Case {
        name: "G-single",
        what: "two reads see different states: read skew",
        script: &[(1, ROW_1), (2, SET_1_TO_12), (2, SET_2_TO_18), (2, "COMMIT"), (1, ROW_2), (1, "COMMIT")],
        happened: |run| run.saw(0, (1, 10)) && run.saw(4, (2, 18)),
    },
    Case {
        name: "G-single, by conditions",
        what: "the same, with conditions",
        script: &[
            (1, "SELECT id, value FROM t FORCE INDEX (value) WHERE value > 0 AND value % 5 = 0"),
            (2, "UPDATE t SET value = 12 WHERE value = 10"),
            (2, "COMMIT"),
            (1, THIRDS),
            (1, "COMMIT"),
        ],
        happened: |run| run.saw(3, (1, 12)),
    },
    Case {
        name: "G-single, write",
        what: "DELETE by a condition does not find the row that the snapshot shows",
        script: &[
            (1, ROW_1),
            (2, SET_1_TO_12),
            (2, SET_2_TO_18),
            (2, "COMMIT"),
            (1, "DELETE FROM t WHERE value = 20"),
            (1, "SELECT id, value FROM t WHERE value = 20"),
            (1, "COMMIT"),
        ],
        happened: |run| run.changed(4, 0),
    },
    Case {
        name: "G2-item",
        what: "each changes the row that the other one read: write skew",
        script: &[
            (1, "SELECT id, value FROM t WHERE id IN (1, 2)"),
            (2, "SELECT id, value FROM t WHERE id IN (1, 2)"),
            (1, SET_1_TO_11),
            (2, "UPDATE t SET value = 21 WHERE id = 2"),
            (1, "COMMIT"),
            (2, "COMMIT"),
        ],
        happened: |run| run.all_went_well(),
    },
    Case {
        name: "G2",
        what: "each inserts what the other one's condition would have shown",
        script: &[
            (1, THIRDS),
            (2, THIRDS),
            (1, "INSERT INTO t VALUES (3, 30)"),
            (2, "INSERT INTO t VALUES (4, 42)"),
            (1, "COMMIT"),
            (2, "COMMIT"),
        ],
        happened: |run| run.all_went_well(),
    },
    Case {
        name: "G2, two edges",
        what: "a transaction that only reads sees a state that no order of the others gives",
        script: &[
            (1, ALL),
            (2, "UPDATE t SET value = value + 5 WHERE id = 2"),
            (2, "COMMIT"),
            (3, ALL),
            (3, "COMMIT"),
            (1, "UPDATE t SET value = 0 WHERE id = 1"),
            (1, "COMMIT"),
        ],
        happened: |run| run.saw(3, (2, 25)) && run.saw(3, (1, 10)) && run.all_went_well(),
    },
];
