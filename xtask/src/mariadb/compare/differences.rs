//! The differences that are known: wanted ones, and mistakes of InnoDB. Each has its reason.

use super::answer::{Answer, Outcome};
use super::meaning::Meanings;
use super::script::Statement;
use super::sessions::Side;

/// A difference that is no fault of this engine.
pub struct Known {
    pub reason: &'static str,
    /// Whether what comes after it may differ, too.
    pub parts: bool,
}

/// The server's errors for a value that another type of column does not take.
const CONVERSIONS: [u16; 7] = [1048, 1264, 1265, 1292, 1366, 1406, 1411];

/// Whether a difference between two answers is known.
pub fn known(sql: &str, ours: &Answer, theirs: &Answer) -> Option<Known> {
    let codes = [ours.code(), theirs.code()];
    let one_of = |code: u16| codes.contains(&code);
    let same = |reason| Some(Known { reason, parts: false });
    let parts = |reason| Some(Known { reason, parts: true });
    let alters = sql.starts_with("ALTER TABLE");
    if alters && sql.contains("ALGORITHM=INPLACE") && (one_of(1845) || one_of(1846)) && codes[0] != codes[1] {
        return parts("which changes are made in place");
    }
    if alters && ours.warnings == theirs.warnings && counts_rows_once(ours, theirs) {
        return same("an ALTER that copies counts rows");
    }
    if alters && codes[0] == codes[1] && codes[0] != 0 && ours.outcome == theirs.outcome {
        return same("what an ALTER that fails says beside its error");
    }
    if alters && matches!(codes, [1845 | 1846, 1845 | 1846]) {
        return same("why a change is not made in place");
    }
    if without_constraints(ours) == without_constraints(theirs) {
        return same("which of several FOREIGN KEYs that a row breaks is named, and the copy that InnoDB alters");
    }
    if codes == [1062, 1062] && sql.starts_with("ALTER TABLE") {
        return same("which of several keys that are there twice is named");
    }
    if alters && codes[1] == 1062 && (codes[0] == 1452 || CONVERSIONS.contains(&codes[0])) {
        return same("a copy looks at unique keys after it has converted all rows and looked at their foreign keys");
    }
    if sql.starts_with("CHECK TABLE") && mentions_row(theirs, "Corrupt") && !mentions_row(ours, "Corrupt") {
        return parts("InnoDB has damaged its own table");
    }
    if codes == [0, 0] && mentions(theirs, "Warning 1032") && ours.warnings.is_empty() {
        return parts("InnoDB has lost the row of a sequence");
    }
    if codes[0] == 1412 && matches!(codes[1], 1412 | 159) {
        return same("what is said beside the error of a snapshot that is too old");
    }
    if codes == [1005, 1005] && mentions(ours, "FOREIGN KEY") && mentions(theirs, "oreign key") {
        return same("what is said of a FOREIGN KEY that cannot be");
    }
    None
}

/// Whether both have done it, and one says how many rows it has copied.
fn counts_rows_once(ours: &Answer, theirs: &Answer) -> bool {
    match (&ours.outcome, &theirs.outcome) {
        (Outcome::Done(a, _), Outcome::Done(b, _)) => *a == 0 || *b == 0,
        _ => false,
    }
}

/// The answer without the names of broken FOREIGN KEYs and of their tables.
fn without_constraints(answer: &Answer) -> Answer {
    let masked = |text: &String| match text.split_once("a foreign key constraint fails (") {
        Some((error, _)) => error.to_owned(),
        None => text.clone(),
    };
    let outcome = match &answer.outcome {
        Outcome::Refused(code, text) => Outcome::Refused(*code, masked(text)),
        other => other.clone(),
    };
    Answer { outcome, warnings: answer.warnings.iter().map(masked).collect() }
}

/// Whether the words stand in a warning.
fn mentions(answer: &Answer, words: &str) -> bool {
    answer.warnings.iter().any(|warning| warning.contains(words))
}

/// Whether the word stands in a row.
fn mentions_row(answer: &Answer, word: &str) -> bool {
    matches!(&answer.outcome, Outcome::Rows(rows) if rows.iter().flatten().any(|value| value == word))
}

/// Whether it is known why a read by a HANDLER gives other rows.
pub fn of_position(statement: &Statement, meanings: &Meanings) -> Option<&'static str> {
    let goes_on = statement.sql.starts_with("HANDLER") && !statement.sql.contains('(');
    (goes_on && meanings.handler_stands_beside_changes(statement.session)).then_some(
        "where a HANDLER stands after a search that finds nothing: at the key, with InnoDB at what was the next row",
    )
}

/// Whether it is known why a statement that defines tables waits on one engine only.
pub fn of_definitions(sql: &str) -> Option<&'static str> {
    if ["ALTER TABLE", "OPTIMIZE", "CREATE"].iter().any(|verb| sql.starts_with(verb)) {
        return Some(
            "a copy waits for the sessions that have the table or its rows, a change in place for others at another time",
        );
    }
    let is_gone = ["DROP", "RENAME", "TRUNCATE"].iter().any(|verb| sql.starts_with(verb));
    is_gone.then_some("InnoDB keeps a table by locks of its rows, this engine a parent by its children")
}

/// Whether it is known why only this engine lets a statement wait.
pub fn of_waits(session: usize, meanings: &Meanings, [holdfast, innodb]: &mut [Side; 2]) -> Option<&'static str> {
    if meanings.others_lock_by_handler(session) {
        return Some("HANDLER locks what it reads at SERIALIZABLE; InnoDB lets it lock in tables with partitions only");
    }
    plans_differ(meanings, holdfast, innodb).then_some("other plans lock other rows")
}

/// Whether a snapshot is too old for a table that only one engine reads.
pub fn of_snapshot(sql: &str, codes: [u16; 2], [holdfast, innodb]: &mut [Side; 2]) -> Option<&'static str> {
    let differ = matches!(codes, [1412, 0] | [0, 1412]) && plan(holdfast, sql) != plan(innodb, sql);
    differ.then_some("a snapshot that is too old for a table is refused if the plan comes to read it")
}

/// Whether the optimiser finds other ways to rows whose locks are held or asked for.
fn plans_differ(meanings: &Meanings, holdfast: &mut Side, innodb: &mut Side) -> bool {
    meanings.in_transactions().any(|sql| plan(holdfast, sql) != plan(innodb, sql))
}

/// The ways to the rows of a statement, without estimates.
fn plan(side: &mut Side, sql: &str) -> Vec<[Option<String>; 5]> {
    side.look(&format!("USE {}", super::script::schema(side.engine)));
    match side.look(&format!("EXPLAIN {sql}")).outcome {
        Outcome::Rows(rows) => rows.into_iter().map(|row| [0, 2, 3, 5, 6].map(|at| row.get(at).cloned())).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, text: &str) -> Answer {
        Answer { outcome: Outcome::Refused(code, text.into()), warnings: vec![format!("Error {code}: {text}")] }
    }

    #[test]
    fn a_row_may_break_any_of_its_foreign_keys_but_not_another_rule() {
        let breaks = |code, key| {
            let child = "Cannot add or update a child row: a foreign key constraint fails";
            refused(code, &format!("{child} (`t`, CONSTRAINT `{key}`)"))
        };
        let sql = "INSERT INTO t VALUES (1)";
        assert!(known(sql, &breaks(1452, "a"), &breaks(1452, "b")).is_some_and(|known| !known.parts));
        assert!(known(sql, &breaks(1452, "a"), &breaks(1451, "a")).is_none());
        assert!(known(sql, &breaks(1452, "a"), &refused(1364, "no default")).is_none());
    }
}
