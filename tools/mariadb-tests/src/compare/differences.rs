//! The differences that are known: wanted ones, and mistakes of InnoDB. Each has its reason.
//!
//! More of them are in `by_plan` (other plans), `lock_waits` (waits), `evidence` (what follows from
//! the tables) and `forgotten` (what InnoDB may have forgotten).

use std::collections::BTreeSet;

use super::answer::{Answer, Outcome};
use super::forgotten::Forgotten;
use super::judge::{Class, judge, without_row_number};
use super::lock_waits::LOCKS_BY_HANDLER;
use super::meaning::Meanings;
use super::script::Statement;
use super::sessions::Side;

/// A difference that is no fault of this engine.
pub struct Known {
    pub reason: &'static str,
    /// True if what comes after it may differ, too.
    pub parts: bool,
}

/// What InnoDB says beside an error when a snapshot is too old.
const INSUFFICIENT: &str = "insufficient history for index";

/// The server's errors for a value that another type of column does not take.
pub const CONVERSIONS: [u16; 7] = [1048, 1264, 1265, 1292, 1366, 1406, 1411];

/// Whether a difference between two answers is known.
pub fn known(sql: &str, ours: &Answer, theirs: &Answer) -> Option<Known> {
    if ours == theirs {
        return None;
    }
    let codes = [ours.code(), theirs.code()];
    let one_of = |code: u16| codes.contains(&code);
    let same = |reason| Some(Known { reason, parts: false });
    let parts = |reason| Some(Known { reason, parts: true });
    let alters = sql.starts_with("ALTER TABLE");
    if alters && sql.contains("ALGORITHM=INPLACE") && (one_of(1845) || one_of(1846)) && codes[0] != codes[1] {
        return parts("which changes are made in place");
    }
    if let Some(reason) = of_nulls(ours, theirs).filter(|_| alters && sql.contains(" NOT NULL")) {
        return parts(reason);
    }
    if let Some(reason) = of_copied_rows(sql, ours, theirs).filter(|_| alters) {
        return same(reason);
    }
    let one_copies = |a: &Answer, b: &Answer| is_not_allowed(a) && matches!(b.outcome, Outcome::Done(0, _));
    if alters && (one_copies(ours, theirs) || one_copies(theirs, ours)) {
        return parts("a copy looks at every row's CHECKs and dates, a change in place at none");
    }
    if alters && codes[0] != 0 && error_without_row(ours) == error_without_row(theirs) {
        return same("what an ALTER that fails says beside its error");
    }
    if let Some(reason) = of_refused_alter(sql, ours, theirs).filter(|_| alters) {
        return same(reason);
    }
    if without_constraints(ours) == without_constraints(theirs) {
        return same("which of several FOREIGN KEYs that a row breaks is named, and the copy that InnoDB alters");
    }
    if sql.starts_with("CHECK TABLE") && without_warnings(theirs, is_of_value) == ours.outcome {
        return same("InnoDB computes virtual columns for CHECK TABLE and warns of their values");
    }
    if sql.starts_with("CHECK TABLE") && without_warnings(theirs, is_of_marked_entry) == ours.outcome {
        return same("InnoDB leaves entries of an index behind that it has marked as deleted, and whose rows are gone");
    }
    if sql.starts_with("CHECK TABLE") && mentions_row(theirs, "Corrupt") && !mentions_row(ours, "Corrupt") {
        return parts("InnoDB has damaged its own table");
    }
    if ours.is_success() && theirs.code() == 1713 {
        return parts("InnoDB refuses a change whose record of what was before is too large for a page");
    }
    if (is_of_sequence(sql) || sql.contains("information_schema.tables"))
        && codes == [0, 0]
        && mentions(theirs, "Warning 1032")
        && ours.warnings.is_empty()
    {
        return parts("InnoDB has lost the row of a sequence");
    }
    if ours.is_success() && cannot_open_partitions(theirs) {
        return parts(
            "the server opens no table with a partition of InnoDB's that has other properties than the others",
        );
    }
    if codes[0] == 1412 && matches!(codes[1], 1412 | 159) {
        return same("what is said beside the error of a snapshot that is too old");
    }
    if sql.starts_with("CHECKSUM TABLE") && mentions(theirs, INSUFFICIENT) && ours.outcome == theirs.outcome {
        return same("what is said beside the sum of a table for which a snapshot is too old: it is NULL");
    }
    if let Some(reason) = of_several_reasons(sql, codes) {
        return same(reason);
    }
    if codes == [1005, 1005] && mentions(ours, "FOREIGN KEY") && mentions(theirs, "oreign key") {
        return same("what is said of a FOREIGN KEY that cannot be");
    }
    None
}

/// Whether a statement is refused for one of several reasons.
fn of_several_reasons(sql: &str, codes: [u16; 2]) -> Option<&'static str> {
    let comes_last = codes[0] == 1062 && codes[1] != 0 || codes[1] == 1062 && CONVERSIONS.contains(&codes[0]);
    if comes_last && sql.starts_with("CREATE") && sql.contains(" AS SELECT ") {
        return Some(
            "an engine that sorts the rows of a new table comes to keys last, and InnoDB may name a single one",
        );
    }
    (codes == [1100, 1100])
        .then_some("which of several tables of triggers that are not locked is named: the server hashes their names")
}

/// Whether it is known why an ALTER counts rows otherwise, or what it says of them.
fn of_copied_rows(sql: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    if counts_rows_once(ours, theirs) && without_row_numbers(ours) == without_row_numbers(theirs) {
        return Some("an ALTER that copies counts rows, in place those of each partition");
    }
    let is_done = ours.outcome == theirs.outcome || counts_rows_once(ours, theirs);
    (is_done && sql.contains(" DEFAULT ") && warns_of_same(ours, theirs))
        .then_some("how often an ALTER says that a default does not fit: once, or for each row or partition")
}

/// Whether it is known why an ALTER is refused with different errors.
fn of_refused_alter(sql: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let codes = [ours.code(), theirs.code()];
    if codes == [1265, 1265] && mentions(theirs, "Error 1138") && names_another_column(ours, theirs) {
        return Some(
            "InnoDB counts no virtual columns before the one that it names when a NULL cannot become NOT NULL",
        );
    }
    if matches!(codes, [1845 | 1846, 1845 | 1846]) {
        return Some("why a change is not made in place");
    }
    if codes == [1062, 1062] {
        return Some("which of several keys that are there twice is named");
    }
    if codes == [1452, 1062] {
        return Some("a copy looks at unique keys after foreign keys");
    }
    if matches!(codes, [1834, 1062] | [1062, 1834]) {
        return Some("a copy says of a key that is there twice in a parent that no row of it can go");
    }
    if sql.contains("DROP ") && matches!(codes, [1005 | 1025, 1553] | [1553, 1005 | 1025]) {
        return Some(
            "a copy says of an index that goes that a FOREIGN KEY cannot be, a change in place that it is needed",
        );
    }
    if sql.contains("DROP ") && codes == [1005, 1025] && is_ill_formed(ours) && is_ill_formed(theirs) {
        return Some(
            "a copy without the index that a FOREIGN KEY needs is refused at once, with InnoDB when it is renamed",
        );
    }
    if sql.contains("DROP COLUMN") && matches!(codes, [1828 | 1829, 1553]) {
        return Some("a column that goes is needed by a FOREIGN KEY, and so is its index");
    }
    if codes[0] != codes[1] && codes.iter().all(|code| CONVERSIONS.contains(code)) {
        return Some("to which of several values that do not fit an ALTER comes first");
    }
    let converts = |at: usize| CONVERSIONS.contains(&codes[at]) && codes[1 - at] == 1062;
    if converts(0) || converts(1) {
        return Some("whether an ALTER comes first to a value that does not fit or to a key that is there twice");
    }
    None
}

/// True if the statement asks for values of a sequence, for its row, or for its kind of table.
fn is_of_sequence(sql: &str) -> bool {
    const WORDS: [&str; 6] =
        ["NEXTVAL(", "SETVAL(", "LASTVAL(", "ALTER SEQUENCE", "SELECT * FROM s", "FROM information_schema.tables"];
    WORDS.iter().any(|words| sql.contains(words))
}

/// True if both have done it, and one says how many rows it has copied.
fn counts_rows_once(ours: &Answer, theirs: &Answer) -> bool {
    match (&ours.outcome, &theirs.outcome) {
        (Outcome::Done(a, _), Outcome::Done(b, _)) => *a == 0 || *b == 0,
        _ => false,
    }
}

/// True if a row is refused as it is: for a CHECK, or for a date that is zero.
fn is_not_allowed(answer: &Answer) -> bool {
    match &answer.outcome {
        Outcome::Refused(4025, _) => true,
        Outcome::Refused(1292, text) => text.contains("value: '0000-00-00"),
        _ => false,
    }
}

/// True if a table is not opened for what its partitions are like; among others, it is warned of.
fn cannot_open_partitions(answer: &Answer) -> bool {
    match &answer.outcome {
        Outcome::Refused(1030, text) => text.starts_with("Got error 174 "),
        _ => mentions(answer, "Warning 1030: Got error 174 "),
    }
}

/// What a copy and a change in place put for NULL in a column that becomes NOT NULL.
fn of_nulls(ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    if !fills_nulls(ours) || !fills_nulls(theirs) {
        return None;
    }
    let is_there_twice = ours.is_success() && theirs.code() == 1062;
    if counts_rows_once(ours, theirs) || is_there_twice {
        return Some("a copy puts '' or 0 for NULL where a column becomes NOT NULL, a change in place its DEFAULT");
    }
    (matches!(ours.code(), 0 | 1062) && is_row_too_large(theirs))
        .then_some("InnoDB takes a short row for one that is too large when a VARCHAR becomes longer and NOT NULL")
}

/// True if it warns of a NULL in a column that becomes NOT NULL.
fn fills_nulls(answer: &Answer) -> bool {
    mentions(answer, "Warning 1265: Data truncated for column")
}

/// True if a row is refused for the room that it would take in a page of InnoDB.
fn is_row_too_large(answer: &Answer) -> bool {
    matches!(&answer.outcome, Outcome::Refused(1118, text) if text.contains("not counting BLOBs, is 8126."))
}

/// The error, in whichever row; none if there is none.
fn error_without_row(answer: &Answer) -> Option<(u16, String)> {
    match &answer.outcome {
        Outcome::Refused(code, text) => Some((*code, without_row_number(text))),
        _ => None,
    }
}

/// True if both errors are the same but for the column that they name.
fn names_another_column(ours: &Answer, theirs: &Answer) -> bool {
    let error = |answer: &Answer| {
        let (_, text) = error_without_row(answer)?;
        Some(text.rsplit_once("for column '")?.0.to_owned())
    };
    error(ours).is_some() && error(ours) == error(theirs)
}

/// True if the error says that a FOREIGN KEY is incorrectly formed.
fn is_ill_formed(answer: &Answer) -> bool {
    matches!(&answer.outcome, Outcome::Refused(_, text) if text.contains("(errno: 150 "))
}

/// What was warned of, wherever.
fn without_row_numbers(answer: &Answer) -> Vec<String> {
    answer.warnings.iter().map(|warning| without_row_number(warning)).collect()
}

/// True if both warn of the same, however often.
fn warns_of_same(ours: &Answer, theirs: &Answer) -> bool {
    let [ours, theirs] = [ours, theirs].map(|answer| without_row_numbers(answer).into_iter().collect::<BTreeSet<_>>());
    ours == theirs
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

/// The rows of CHECK TABLE without such warnings.
fn without_warnings(answer: &Answer, is_such: fn(&str) -> bool) -> Outcome {
    let is_warning = |row: &Vec<String>| row.get(2..).is_some_and(|row| row[0] == "Warning" && is_such(&row[1]));
    match &answer.outcome {
        Outcome::Rows(rows) => Outcome::Rows(rows.iter().filter(|row| !is_warning(row)).cloned().collect()),
        other => other.clone(),
    }
}

fn is_of_value(warning: &str) -> bool {
    warning.starts_with("Truncated incorrect")
}

/// True if it is of an entry without a row, which has the mark of a deleted one.
fn is_of_marked_entry(warning: &str) -> bool {
    warning.starts_with("$ENGINE: Clustered index record not found for index ") && warning.contains("(info_bits=32, ")
}

/// True if a snapshot is too old for a table: among the warnings, or in the error itself.
pub fn mentions_insufficient(answer: &Answer) -> bool {
    mentions(answer, INSUFFICIENT)
        || matches!(&answer.outcome, Outcome::Refused(159, text) if text.contains(INSUFFICIENT))
}

/// True if the words stand in a warning.
fn mentions(answer: &Answer, words: &str) -> bool {
    answer.warnings.iter().any(|warning| warning.contains(words))
}

/// True if the word stands in a row.
fn mentions_row(answer: &Answer, word: &str) -> bool {
    matches!(&answer.outcome, Outcome::Rows(rows) if rows.iter().flatten().any(|value| value == word))
}

/// Whether it is known why a read by a HANDLER gives other rows.
pub fn of_handler(statement: &Statement, ours: &Answer, meanings: &Meanings) -> Option<&'static str> {
    if meanings.locks_by_handler(statement) {
        return Some(LOCKS_BY_HANDLER);
    }
    let has_rows = matches!(&ours.outcome, Outcome::Rows(rows) if !rows.is_empty());
    if has_rows && meanings.handler_stays_at_end(statement) {
        return None;
    }
    let goes_on =
        statement.sql.starts_with("HANDLER") && [" NEXT", " PREV"].iter().any(|way| statement.sql.contains(way));
    (goes_on && meanings.handler_stands_beside_changes(statement.session)).then_some(
        "where a HANDLER stands that has found too little: at the key or an end, with InnoDB in a page that changes",
    )
}

/// Whether InnoDB may have lost entries of an index on a virtual column, which has another value
/// by now. Rows are what they are, and this engine's table is sound.
pub fn of_recomputed(class: &Class, ours: &Answer) -> Option<Known> {
    let is_sound = ours.is_success() && !mentions_row(ours, "Corrupt");
    let (reason, parts) = match class {
        Class::Warnings => ("how often the server computes a virtual column, and warns of its value", false),
        Class::Codes(0, _) | Class::Table("CHECK TABLE") => {
            ("InnoDB does not find the entry of a virtual column that has another value than when it was written", true)
        }
        _ => return None,
    };
    is_sound.then_some(Known { reason, parts })
}

/// Whether InnoDB has forgotten what this engine keeps.
pub fn of_forgetting(
    statement: &Statement,
    class: &Class,
    [ours, theirs]: [&Answer; 2],
    forgotten: &Forgotten,
) -> Option<&'static str> {
    if matches!(class, Class::Lost | Class::Hangs | Class::Waits | Class::Table("CHECK TABLE")) {
        return None;
    }
    if forgotten.rows(&statement.sql, ours, theirs) {
        return Some("InnoDB loses rows of a TEMPORARY table when changes of it are undone");
    }
    if *class == Class::Codes(1412, 0) && forgotten.age(&statement.sql) {
        return Some("InnoDB forgets how old a table is that it opens again once an index of a virtual column is gone");
    }
    (*class == Class::Rows && forgotten.sequence(statement))
        .then_some("a crash lets InnoDB forget which values of a sequence were given out")
}

/// What InnoDB does not find by an index on a virtual column.
pub const MISSED_BY_VIRTUAL: &str = "READ UNCOMMITTED misses rows of an index on a virtual column with InnoDB";

/// Whether InnoDB itself reads what this engine has read, at another level than READ UNCOMMITTED.
pub fn of_level(statement: &Statement, ours: &Answer, innodb: &mut Side) -> Option<&'static str> {
    let sql = &statement.sql;
    let locks = ["FOR UPDATE", "LOCK IN SHARE MODE"].iter().any(|words| sql.contains(words));
    if !sql.starts_with("SELECT") || locks || is_of_sequence(sql) {
        return None;
    }
    innodb.look(&format!("USE {}", super::script::schema(innodb.engine)));
    judge(statement, ours, &innodb.look(sql)).is_none().then_some(MISSED_BY_VIRTUAL)
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

    #[test]
    fn only_innodb_may_fail_to_open_partitions() {
        let done = Answer { outcome: Outcome::Rows(Vec::new()), warnings: Vec::new() };
        let got = |number| refused(1030, &format!("Got error {number} \"Fatal error\" from storage engine $ENGINE"));
        assert!(known("SELECT * FROM t", &done, &got(174)).is_some_and(|known| known.parts));
        assert!(known("SELECT * FROM t", &got(174), &done).is_none());
        assert!(known("SELECT * FROM t", &done, &got(168)).is_none());
        let warned =
            |number| Answer { warnings: vec![format!("Warning 1030: Got error {number} \"Fatal")], ..done.clone() };
        assert!(known("SELECT * FROM information_schema.tables", &done, &warned(174)).is_some_and(|known| known.parts));
        assert!(known("SELECT * FROM information_schema.tables", &warned(174), &done).is_none());
    }

    #[test]
    fn a_copy_may_refuse_a_row_that_a_change_in_place_does_not_look_at() {
        let done = |rows| Answer { outcome: Outcome::Done(rows, String::new()), warnings: Vec::new() };
        let sql = "ALTER TABLE t MODIFY c INT";
        let zero = refused(1292, "Incorrect datetime value: '0000-00-00 00:00:00' for column `t`.`t`.`c` at row 1");
        for row in [refused(4025, "CONSTRAINT `t.c` failed for `t`.`t`"), zero] {
            assert!(known(sql, &row, &done(0)).is_some_and(|known| known.parts));
            assert!(known(sql, &row, &done(1)).is_none());
            assert!(known(sql, &done(0), &row).is_some_and(|known| known.parts));
            assert!(known(sql, &done(1), &row).is_none());
            assert!(known("UPDATE t SET c = 1", &row, &done(0)).is_none());
        }
        let other = refused(1292, "Truncated incorrect INTEGER value: 'x'");
        assert!(known(sql, &other, &done(0)).is_none());
    }

    #[test]
    fn a_copy_and_a_change_in_place_may_fill_a_column_that_becomes_not_null_otherwise() {
        let warned = |outcome| Answer { outcome, warnings: vec!["Warning 1265: Data truncated for column 'c'".into()] };
        let done = |rows| warned(Outcome::Done(rows, String::new()));
        let too_large = |most: &str| {
            let text = format!("Row size too large. The maximum row size for the used table type, {most}.");
            warned(Outcome::Refused(1118, text))
        };
        let of_page = too_large("not counting BLOBs, is 8126");
        let sql = "ALTER TABLE t MODIFY c VARCHAR(278) NOT NULL";
        let twice = warned(Outcome::Refused(1062, "Duplicate entry 'd' for key 'c'".into()));
        for theirs in [&done(0), &of_page, &twice] {
            assert!(known(sql, &done(1), theirs).is_some_and(|known| known.parts));
            assert!(known("ALTER TABLE t MODIFY c VARCHAR(278)", &done(1), theirs).is_none_or(|known| !known.parts));
        }
        let silent = Answer { warnings: Vec::new(), ..of_page.clone() };
        assert!(known(sql, &done(1), &silent).is_none());
        assert!(known(sql, &of_page, &done(1)).is_none());
        assert!(known(sql, &twice, &of_page).is_some() && known(sql, &twice, &done(1)).is_none());
        assert!(known(sql, &done(1), &too_large("counting BLOBs, is 65535")).is_none());
    }

    #[test]
    fn only_innodb_may_lose_the_entry_of_a_virtual_column_and_no_row() {
        let check = |word: &str| Answer {
            outcome: Outcome::Rows(vec![["t", "check", "status", word].map(String::from).to_vec()]),
            warnings: Vec::new(),
        };
        let parts = |class: Class, ours: &Answer| of_recomputed(&class, ours).map(|known| known.parts);
        assert_eq!(parts(Class::Table("CHECK TABLE"), &check("OK")), Some(true));
        assert_eq!(parts(Class::Table("CHECK TABLE"), &check("Corrupt")), None);
        let corrupt = refused(1034, "Index for table 't' is corrupt; try to repair it");
        assert_eq!(parts(Class::Codes(1034, 0), &corrupt), None);
        let done = Answer { outcome: Outcome::Done(1, String::new()), warnings: Vec::new() };
        assert_eq!(parts(Class::Codes(0, 1712), &done), Some(true));
        assert_eq!(parts(Class::Warnings, &done), Some(false));
        assert_eq!(parts(Class::Affected, &done), None);
        assert_eq!(parts(Class::Rows, &check("OK")), None);
    }

    #[test]
    fn an_alter_may_say_more_than_once_that_a_default_does_not_fit() {
        let warned = |warnings: &[&str]| Answer {
            outcome: Outcome::Done(2, String::new()),
            warnings: warnings.iter().copied().map(String::from).collect(),
        };
        let [first, second, other] = ["Out of range at row 1", "Out of range at row 2", "Data truncated at row 2"];
        let sql = "ALTER TABLE t ADD c TINYINT DEFAULT (500 + 500)";
        let (once, twice) = (warned(&[first]), warned(&[first, second]));
        assert!(known(sql, &once, &twice).is_some_and(|known| !known.parts));
        assert!(known(sql, &once, &warned(&[first, other])).is_none());
        assert!(known(sql, &once, &warned(&[])).is_none());
        assert!(known(sql, &Answer { outcome: Outcome::Done(0, String::new()), ..once }, &twice).is_some());
    }

    #[test]
    fn check_table_may_warn_of_values_but_not_of_rows() {
        let check = |rows: &[&str]| {
            let row = |text: &&str| {
                vec![
                    "t".into(),
                    "check".into(),
                    if text.starts_with("OK") { "status" } else { "Warning" }.into(),
                    (*text).into(),
                ]
            };
            Answer { outcome: Outcome::Rows(rows.iter().map(row).collect()), warnings: Vec::new() }
        };
        let sound = check(&["OK"]);
        assert!(known("CHECK TABLE t", &sound, &check(&["Truncated incorrect DOUBLE value: 'x'", "OK"])).is_some());
        assert!(known("CHECK TABLE t", &sound, &check(&["Index 'k' contains 1 entries, should be 2", "OK"])).is_none());
        assert!(known("CHECK TABLE t", &check(&["a row is damaged", "OK"]), &sound).is_none());
        let entry = |bits| {
            let record = format!("COMPACT RECORD(info_bits={bits}, 2 fields): {{[1]a(0x61)}}");
            format!("$ENGINE: Clustered index record not found for index `k` of table `$ENGINE`.`t`: {record}")
        };
        assert!(known("CHECK TABLE t", &sound, &check(&[&entry(32), "OK"])).is_some_and(|known| !known.parts));
        assert!(known("CHECK TABLE t", &sound, &check(&[&entry(0), "OK"])).is_none(), "it is not marked");
        assert!(known("CHECK TABLE t", &check(&[&entry(32), "OK"]), &sound).is_none());
    }

    #[test]
    fn only_innodb_may_have_no_room_for_what_was_before() {
        let done = Answer { outcome: Outcome::Done(1, String::new()), warnings: Vec::new() };
        let no_room = refused(1713, "Undo log record is too big.");
        assert!(known("UPDATE t SET c = 1", &done, &no_room).is_some_and(|known| known.parts));
        assert!(known("UPDATE t SET c = 1", &no_room, &done).is_none());
        assert!(known("UPDATE t SET c = 1", &refused(1062, "Duplicate entry"), &no_room).is_none());
    }

    #[test]
    fn a_server_that_is_gone_for_both_engines_is_no_known_difference() {
        let lost = || Answer { outcome: Outcome::Lost("no more bytes".into()), warnings: Vec::new() };
        assert!(known("UPDATE t1 SET c1 = 1", &lost(), &lost()).is_none());
    }

    #[test]
    fn an_alter_may_come_first_to_a_value_or_to_a_key_but_not_to_something_else() {
        let [value, key] = [refused(1366, "Incorrect string value"), refused(1062, "Duplicate entry")];
        for [ours, theirs] in [[&value, &key], [&key, &value]] {
            assert!(known("ALTER TABLE t MODIFY c INT", ours, theirs).is_some_and(|known| !known.parts));
            assert!(known("INSERT INTO t VALUES (1)", ours, theirs).is_none());
        }
        assert!(known("ALTER TABLE t MODIFY c INT", &refused(1118, "Row size too large"), &key).is_none());
    }

    #[test]
    fn a_copy_may_refuse_with_another_error_what_a_change_in_place_refuses() {
        let [needed, cannot, parent, twice] = [1553, 1005, 1834, 1062].map(|code| refused(code, "no"));
        let drops = "ALTER TABLE t MODIFY c INT, DROP KEY k";
        assert!(known(drops, &cannot, &needed).is_some_and(|known| !known.parts));
        assert!(known("ALTER TABLE t MODIFY c INT", &cannot, &needed).is_none());
        assert!(known(drops, &cannot, &twice).is_none());
        let adds = "ALTER TABLE t ADD UNIQUE KEY k (c), ADD COLUMN d INT";
        assert!(known(adds, &parent, &twice).is_some_and(|known| !known.parts));
        assert!(known("DELETE FROM t", &parent, &twice).is_none());
    }

    #[test]
    fn a_new_table_may_be_refused_for_another_key_but_not_be_made() {
        let [ours, theirs] = [3, 4].map(|key| refused(1062, &format!("Duplicate entry '{key}' for key 'a'")));
        let sql = "CREATE TABLE n (a INT UNIQUE) AS SELECT a FROM t";
        assert!(known(sql, &ours, &theirs).is_some_and(|known| !known.parts));
        assert!(known("INSERT INTO n SELECT a FROM t", &ours, &theirs).is_none());
        let made = Answer { outcome: Outcome::Done(2, String::new()), warnings: Vec::new() };
        assert!(known(sql, &refused(1048, "NULL"), &theirs).is_some() && known(sql, &ours, &made).is_none());
        assert!(known(sql, &refused(1034, "Index for table is corrupt"), &theirs).is_none());
    }

    #[test]
    fn a_column_that_has_a_null_may_be_named_otherwise_by_innodb_alone() {
        let names = |column| refused(1265, &format!("Data truncated for column '{column}' at row 1"));
        let mut theirs = names("b");
        let sql = "ALTER TABLE t MODIFY c INT NOT NULL";
        assert!(known(sql, &names("c"), &theirs).is_none());
        theirs.warnings.push("Error 1138: Invalid use of NULL value".into());
        assert!(known(sql, &names("c"), &theirs).is_some_and(|known| !known.parts));
        assert!(known("UPDATE t SET c = 1", &names("c"), &theirs).is_none());
        assert!(known(sql, &refused(1265, "Data truncated"), &theirs).is_none());
    }

    #[test]
    fn what_a_foreign_key_needs_may_be_refused_later_and_not_for_another_reason() {
        let formed = |code| refused(code, "no (errno: 150 \"Foreign key constraint is incorrectly formed\")");
        let sql = "ALTER TABLE t DROP KEY k, ALGORITHM=COPY";
        assert!(known(sql, &formed(1005), &formed(1025)).is_some_and(|known| !known.parts));
        assert!(known(sql, &refused(1005, "no (errno: 28)"), &formed(1025)).is_none());
        assert!(known("ALTER TABLE t MODIFY c INT", &formed(1005), &formed(1025)).is_none());
        let [of_child, column, index] =
            [1828, 1829, 1553].map(|code| refused(code, "needed in a foreign key constraint"));
        for column in [&of_child, &column] {
            assert!(known("ALTER TABLE t DROP COLUMN c", column, &index).is_some_and(|known| !known.parts));
        }
        assert!(known("ALTER TABLE t DROP KEY k", &column, &index).is_none());
    }

    #[test]
    fn an_alter_may_fail_in_another_row_with_other_warnings_but_not_with_another_error() {
        let fails = |row, warnings: &[&str]| {
            let mut answer = refused(1265, &format!("Data truncated for column 'c' at row {row}"));
            answer.warnings.extend(warnings.iter().copied().map(String::from));
            answer
        };
        let [ours, theirs] = [fails(2, &[]), fails(1, &["Error 1138: Invalid use of NULL value"])];
        assert!(known("ALTER TABLE t MODIFY c INT", &ours, &theirs).is_some_and(|known| !known.parts));
        assert!(known("UPDATE t SET c = 1", &ours, &theirs).is_none());
        assert!(known("ALTER TABLE t MODIFY c INT", &ours, &refused(1118, "Row size too large")).is_none());
    }
}
