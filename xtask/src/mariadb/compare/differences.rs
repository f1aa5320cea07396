//! The differences that are known: wanted ones, and mistakes of InnoDB. Each has its reason.

use super::answer::{Answer, Outcome};
use super::script::Step;
use super::sessions::Side;

/// A difference that is no fault of this engine.
pub struct Known {
    pub reason: &'static str,
    /// Whether what comes after it may differ, too.
    pub parts: bool,
}

/// Whether a difference between two answers is known.
pub fn known(sql: &str, ours: &Answer, theirs: &Answer) -> Option<Known> {
    let codes = [ours.code(), theirs.code()];
    let one_of = |code: u16| codes.contains(&code);
    let same = |reason| Some(Known { reason, parts: false });
    let parts = |reason| Some(Known { reason, parts: true });
    if sql.starts_with("ALTER TABLE") && (one_of(1845) || one_of(1846)) && codes[0] != codes[1] {
        return parts("which changes are made in place");
    }
    if sql.starts_with("ALTER TABLE") && ours.is_success() && theirs.is_success() && ours.warnings == theirs.warnings {
        return same("an ALTER that copies counts rows");
    }
    if codes[0] == codes[1] && codes[0] != 0 && sql.starts_with("ALTER TABLE") {
        return same("what an ALTER that fails says beside its error");
    }
    if codes == [1062, 1062] && sql.starts_with("ALTER TABLE") {
        return same("which of several keys that are there twice is named");
    }
    if [codes, [codes[1], codes[0]]].iter().any(|codes| codes[0] == 1062 && matches!(codes[1], 1451 | 1452)) {
        return same("a row that breaks a unique key and a foreign key breaks one or the other");
    }
    if codes == [1412, 1412] {
        return same("what is said beside the error of a snapshot that is too old");
    }
    if codes[0] == codes[1] && mentions(ours, "FOREIGN KEY") && mentions(theirs, "foreign key") {
        return same("what is said of a FOREIGN KEY that cannot be");
    }
    None
}

/// Whether the words stand in a warning.
fn mentions(answer: &Answer, words: &str) -> bool {
    answer.warnings.iter().any(|warning| warning.contains(words))
}

/// Whether it is known why only one engine lets a statement wait.
pub fn of_waits(steps: &[Step], ours_waits: bool, holdfast: &mut Side, innodb: &mut Side) -> Option<&'static str> {
    if !ours_waits && gap_is_waited_for(innodb) {
        return Some("InnoDB locks gaps up to the next row, this engine what was read");
    }
    if changes_definitions(steps.last()) {
        return Some(
            "a copy waits for those who have the table or its rows, a change in place for others at another time",
        );
    }
    plans_differ(steps, holdfast, innodb).then_some("other plans lock other rows")
}

fn changes_definitions(step: Option<&Step>) -> bool {
    let Some(Step::Say(statement)) = step else { return false };
    ["CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "OPTIMIZE"].iter().any(|verb| statement.sql.starts_with(verb))
}

fn gap_is_waited_for(innodb: &mut Side) -> bool {
    let waits = "SELECT COUNT(*) FROM information_schema.INNODB_LOCKS WHERE lock_mode LIKE '%GAP%'";
    matches!(innodb.look(waits).outcome, Outcome::Rows(rows) if rows.first().is_some_and(|row| row[0] != "0"))
}

/// Whether the optimiser finds other ways to the rows of any statement so far.
fn plans_differ(steps: &[Step], holdfast: &mut Side, innodb: &mut Side) -> bool {
    let plan = |side: &mut Side, sql: &str| {
        side.look(&format!("USE {}", super::script::schema(side.engine)));
        match side.look(&format!("EXPLAIN {sql}")).outcome {
            // Without the estimates.
            Outcome::Rows(rows) => rows.into_iter().map(|row| [0, 2, 3, 5, 6].map(|at| row.get(at).cloned())).collect(),
            _ => Vec::new(),
        }
    };
    steps.iter().any(|step| match step {
        Step::Say(statement) => plan(holdfast, &statement.sql) != plan(innodb, &statement.sql),
        Step::Kill => false,
    })
}
