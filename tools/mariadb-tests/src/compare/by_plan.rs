//! Differences that come of plans: the optimiser finds other ways to the rows, since the engines
//! estimate otherwise.

use super::answer::{Answer, Outcome};
use super::differences::{CONVERSIONS, Known};
use super::judge::{Class, judge, without_row_number};
use super::meaning::Meanings;
use super::plans::{self, explained};
use super::script::{Statement, is_of_name, names, schema};
use super::sessions::Side;

/// Whether it is known, by the plans, why answers differ; after each of these the engines may have
/// other rows.
pub fn known(sql: &str, class: &Class, codes: [u16; 2], sides: &mut [Side; 2]) -> Option<&'static str> {
    of_order(sql, class, codes, sides)
        .or_else(|| of_parents(sql, class, sides))
        .or_else(|| of_own_children(sql, class, sides))
}

/// Whether an UPDATE comes to another row first that has a key which is there, or a value that does
/// not fit, or that frees a key.
fn of_order(sql: &str, class: &Class, codes: [u16; 2], sides: &mut [Side; 2]) -> Option<&'static str> {
    let any_order = sql.starts_with("UPDATE") && !sql.contains(" ORDER BY ");
    let of_key = match class {
        Class::Texts(1062) => true,
        Class::Codes(1062, other) | Class::Codes(other, 1062) => *other == 0 || CONVERSIONS.contains(other),
        // Of the rows before that one.
        Class::Warnings => codes == [1062, 1062],
        _ => false,
    };
    let may_differ = |sides: &mut [Side; 2]| {
        plans::differ(sql, sides.each_mut()) || sql.contains(" JOIN ") || plans::has_choice(sql, &mut sides[1])
    };
    (of_key && any_order && may_differ(sides))
        .then_some("other plans come to another row first, which has a key that is there or frees it")
}

/// Whether a DELETE from several tables comes to a row first that a row of another one refers to,
/// which goes later.
fn of_parents(sql: &str, class: &Class, sides: &mut [Side; 2]) -> Option<&'static str> {
    let refused = matches!(class, Class::Codes(0, 1451) | Class::Codes(1451, 0));
    let of_several = sql
        .strip_prefix("DELETE ")
        .and_then(|rest| rest.split_once(" FROM "))
        .is_some_and(|(tables, _)| tables.contains(','));
    (refused && of_several && plans::differ(sql, sides.each_mut()))
        .then_some("other plans of a DELETE from several tables come to a parent before its child is gone")
}

/// Whether a DELETE looks for its rows along different ways while it changes others that refer to
/// them.
fn of_own_children(sql: &str, class: &Class, sides: &mut [Side; 2]) -> Option<&'static str> {
    if *class != Class::Affected || !sql.starts_with("DELETE") || !plans::differ(sql, sides.each_mut()) {
        return None;
    }
    let of_themselves = format!(
        "SELECT table_name FROM information_schema.referential_constraints WHERE constraint_schema = '{}' \
         AND table_name = referenced_table_name AND delete_rule IN ('CASCADE', 'SET NULL')",
        schema(sides[1].engine)
    );
    let tables = sides[1].look(&of_themselves).into_rows();
    tables.iter().any(|row| names(sql, &row[0])).then_some(
        "a plan that collects rows first deletes those, too, that no longer qualify after ON DELETE SET NULL",
    )
}

/// Whether a plan that reads rows as they are committed comes to none of those that another
/// transaction has inserted, and one by an index waits for them: at READ COMMITTED and below.
pub fn of_skipped(sql: &str, class: &Class, sides: &mut [Side; 2]) -> Option<&'static str> {
    let changes = ["UPDATE", "DELETE"].iter().any(|verb| sql.starts_with(verb));
    (*class == Class::Affected && changes && plans::differ(sql, sides.each_mut()))
        .then_some("a plan without an index passes over rows that others have inserted; by an index it waits for them")
}

/// Whether a statement has done the same, or was refused for the same, and has said more often what
/// it warns of.
pub fn of_repeated(sql: &str, ours: &Answer, theirs: &Answer, sides: &mut [Side; 2]) -> Option<Known> {
    let reason = "how often a plan computes a value that does not fit, or says why it ends";
    (has_said_it_again(ours, theirs) && plans::differ(sql, sides.each_mut())).then_some(Known { reason, parts: false })
}

fn has_said_it_again(ours: &Answer, theirs: &Answer) -> bool {
    let said = |answer: &Answer| {
        let (rows, counts) = match &answer.outcome {
            Outcome::Done(rows, info) => (*rows, info.split_once("  Warnings: ")?.0),
            Outcome::Refused(code, text) => (u64::from(*code), text.as_str()),
            _ => return None,
        };
        let is_of_sort = |warning: &&String| warning.starts_with("Error 1028: Sort aborted");
        let warnings = answer.warnings.iter().filter(|warning| !is_of_sort(warning));
        let mut warnings: Vec<_> = warnings.map(|warning| without_row_number(warning)).collect();
        warnings.sort();
        warnings.dedup();
        Some((rows, counts.to_owned(), warnings))
    };
    said(ours).is_some() && said(ours) == said(theirs)
}

/// Whether the server answers with InnoDB as with this engine if it is told to use the same
/// indexes, another one, or no semi-join: then it is the server that compares otherwise by the one
/// plan than by the other. The engines count rows in the background: by now plans may be others.
pub fn of_server(
    statement: &Statement,
    answers: [&Answer; 2],
    meanings: &Meanings,
    sides: &mut [Side; 2],
) -> Option<Known> {
    let sql = &statement.sql;
    if !sql.starts_with("SELECT") || !answers[0].is_success() {
        return None;
    }
    let plan = if plans::differ(sql, sides.each_mut()) { explained(&mut sides[0], sql) } else { Vec::new() };
    let by_indexes = [Some(sql.clone()), values_first(sql)].into_iter().flatten();
    let by_indexes = by_indexes.filter_map(|sql| with_indexes(&sql, &plan));
    let innodb = &mut sides[1];
    let by_one = by_one_index(sql, &explained(innodb, sql));
    let others = by_indexes.chain(by_one).chain(without_semi_join(sql));
    let reason = "the server finds other rows by one plan than by another, with InnoDB, too";
    let is_in_transaction = meanings.is_in_transaction(statement.session);
    is_of_plan(statement, answers, is_in_transaction, others, &mut |sql| innodb.look(sql))
        .then_some(Known { reason, parts: false })
}

/// True if InnoDB, which `ask` asks beside the sessions, gives the answer of this engine by one of
/// the `others`. A transaction may see other rows than `ask` does, by its snapshot or since it has
/// changed them. So there InnoDB has to give again what it gave the session, by the statement as it
/// is.
fn is_of_plan(
    statement: &Statement,
    [ours, theirs]: [&Answer; 2],
    is_in_transaction: bool,
    mut others: impl Iterator<Item = String>,
    ask: &mut dyn FnMut(&str) -> Answer,
) -> bool {
    let mut gives = |answer: &Answer, sql: &str| judge(statement, answer, &ask(sql)).is_none();
    (!is_in_transaction || gives(theirs, &statement.sql)) && others.any(|sql| gives(ours, &sql))
}

/// The statement as a join that begins with the values of its subquery, and looks each of them up.
fn values_first(sql: &str) -> Option<String> {
    let (read, rest) = sql.split_once(" WHERE a.")?;
    let (column, values) = rest.split_once(" IN (SELECT b.")?;
    let (value, from) = values.strip_suffix(')')?.split_once(" FROM ")?;
    let (what, table) = read.strip_prefix("SELECT ")?.split_once(" FROM ")?;
    let values = format!("(SELECT DISTINCT b.{value} AS v FROM {from}) s");
    Some(format!("SELECT STRAIGHT_JOIN {what} FROM {values} JOIN {table} ON a.{column} = s.v"))
}

/// The statement with one hint: an index that the optimiser has thought of for one of its tables.
fn by_one_index(sql: &str, plan: &[Vec<String>]) -> Vec<String> {
    let possible = plan.iter().filter_map(|row| Some((row.get(2)?, row.get(4).filter(|keys| *keys != "NULL")?)));
    let each = possible.flat_map(|(table, keys)| keys.split(',').map(move |key| (table, key)));
    each.filter_map(|(table, key)| with_hints(sql, &[(table, key)])).collect()
}

/// The statement with another plan for a subquery that gives values to compare with.
fn without_semi_join(sql: &str) -> Option<String> {
    sql.contains(" IN (SELECT ")
        .then(|| format!("SET STATEMENT optimizer_switch = 'semijoin=off,materialization=off' FOR {sql}"))
}

/// The statement with a hint behind each table that a plan reads by an index; `None` if it has no
/// such table, or hints.
fn with_indexes(sql: &str, plan: &[Vec<String>]) -> Option<String> {
    let used: Vec<_> = plan
        .iter()
        .filter_map(|row| {
            Some((row.get(2)?.as_str(), row.get(5).filter(|key| *key != "NULL" && !key.contains(','))?.as_str()))
        })
        .collect();
    with_hints(sql, &used)
}

/// The statement with a hint behind each of these tables: an index. `None` if there are none, or
/// the statement has hints.
fn with_hints(sql: &str, used: &[(&str, &str)]) -> Option<String> {
    if used.is_empty() || sql.contains(" INDEX ") {
        return None;
    }
    used.iter().try_fold(sql.to_owned(), |sql, &(table, key)| {
        let from = sql.match_indices(table).map(|(at, _)| at + table.len()).find(|&end| {
            let word = |c: char| is_of_name(c) || c == '.';
            let begins = sql[..end - table.len()].ends_with(' ');
            begins && !sql[end..].starts_with(word) && !sql[end..].starts_with(" AS ") && stands_in_from(&sql[..end])
        })?;
        Some(format!("{} FORCE INDEX ({key}){}", &sql[..from], &sql[from..]))
    })
}

/// True if the last words of the text name a table, with or without an alias.
fn stands_in_from(text: &str) -> bool {
    let mut words = text.rsplit(' ');
    let is_first = |word: Option<&str>| matches!(word, Some("FROM" | "JOIN"));
    let _name = words.next();
    is_first(words.next()) || is_first(words.next())
}

/// Whether the server sorts what another plan reads in order, and its sort takes values for equal
/// that differ in zero bytes at their ends.
pub fn of_ties(sql: &str, ours: &Answer, theirs: &Answer, sides: &mut [Side; 2]) -> Option<Known> {
    let are_alike = sql.contains(" ORDER BY ") && differ_in_order_of_zeros(ours, theirs);
    let mut sorts = || {
        sides.each_mut().map(|side| explained(side, sql).iter().flatten().any(|extra| extra.contains("Using filesort")))
    };
    let reason = "the server's sort takes values of a NOPAD collation for equal that differ in zero bytes at the end";
    (are_alike && matches!(sorts(), [true, false] | [false, true])).then_some(Known { reason, parts: false })
}

/// True if the rows are the same in another order, and in the same one without zero bytes at the
/// end of their values, which are shown as `\0`.
fn differ_in_order_of_zeros(ours: &Answer, theirs: &Answer) -> bool {
    let (Outcome::Rows(ours), Outcome::Rows(theirs)) = (&ours.outcome, &theirs.outcome) else { return false };
    let without_zeros = |rows: &[Vec<String>]| -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|value| value.trim_end_matches(r"\0").to_owned()).collect()).collect()
    };
    let sorted = |rows: &[Vec<String>]| {
        let mut rows = rows.to_vec();
        rows.sort();
        rows
    };
    without_zeros(ours) == without_zeros(theirs) && sorted(ours) == sorted(theirs)
}

/// Whether a snapshot is too old for a table that only one engine reads.
pub fn of_snapshot(sql: &str, codes: [u16; 2], sides: &mut [Side; 2]) -> Option<&'static str> {
    (matches!(codes, [1412, 0] | [0, 1412 | 159]) && plans::differ(sql, sides.each_mut()))
        .then_some("a snapshot that is too old for a table is refused if the plan comes to read it")
}

/// Whether this engine's plan has an index that is younger than the snapshot. InnoDB would refuse
/// it, too, but tells the optimiser that nothing is known of the index.
pub fn of_younger_key(sql: &str, codes: [u16; 2], younger: &[String], holdfast: &mut Side) -> Option<&'static str> {
    let has_younger = |row: &Vec<String>| {
        row.get(5).is_some_and(|keys| keys.split([',', '|']).any(|key| younger.iter().any(|other| other == key)))
    };
    (codes == [1412, 0] && explained(holdfast, sql).iter().any(has_younger))
        .then_some("the optimiser passes over an index that is younger than the snapshot, with InnoDB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_change_places_that_differ_in_zero_bytes_at_the_end_only() {
        let rows = |values: &[&str]| Answer {
            outcome: Outcome::Rows(values.iter().map(|value| vec![(*value).into()]).collect()),
            warnings: Vec::new(),
        };
        let ours = rows(&["b", "a", r"a\0"]);
        assert!(differ_in_order_of_zeros(&ours, &rows(&["b", r"a\0", "a"])));
        assert!(!differ_in_order_of_zeros(&ours, &rows(&["a", "b", r"a\0"])), "another order");
        assert!(!differ_in_order_of_zeros(&ours, &rows(&["b", "a", "a"])), "other rows");
    }

    #[test]
    fn what_is_said_again_of_a_value_is_the_same_and_other_counts_are_not() {
        let warning = |row| format!("Warning 1265: Data truncated for column 'c6' at row {row}");
        let done = |rows: u64, warnings: &[String]| Answer {
            outcome: Outcome::Done(rows, format!("Rows matched: 6  Changed: {rows}  Warnings: {}", warnings.len())),
            warnings: warnings.to_vec(),
        };
        let once = done(6, &[warning(1)]);
        assert!(has_said_it_again(&once, &done(6, &[warning(1), warning(2)])));
        assert!(!has_said_it_again(&once, &done(5, &[warning(1), warning(1)])));
        assert!(!has_said_it_again(&once, &done(6, &["Warning 1366: Incorrect string value".into()])));
    }

    #[test]
    fn an_error_may_be_said_again_but_not_another_one() {
        let refused = |code: u16, said: usize| Answer {
            outcome: Outcome::Refused(code, "refused".into()),
            warnings: vec![format!("Error {code}: refused"); said],
        };
        assert!(has_said_it_again(&refused(1205, 2), &refused(1205, 1)));
        assert!(!has_said_it_again(&refused(1205, 1), &refused(1213, 1)));
        let mut sorted = refused(1205, 1);
        sorted.warnings.push("Error 1028: Sort aborted: refused".into());
        assert!(has_said_it_again(&refused(1205, 1), &sorted));
    }

    /// What a snapshot should have kept from its transaction, and did not, was called one of plans.
    #[test]
    fn another_plan_has_to_see_the_rows_that_the_session_sees() {
        let rows = |value: &str| Answer { outcome: Outcome::Rows(vec![vec![value.into()]]), warnings: Vec::new() };
        let (old, new) = (rows("old"), rows("new"));
        let sql = "SELECT a FROM t WHERE a IN (SELECT b FROM u)";
        let statement = Statement { session: 0, sql: sql.into(), ordered: false };
        // What InnoDB answers beside the session, and without a semi-join.
        let is_excused = |is_in_transaction, [beside, without]: [&Answer; 2]| {
            let mut ask = |asked: &str| if asked == sql { beside.clone() } else { without.clone() };
            is_of_plan(&statement, [&new, &old], is_in_transaction, without_semi_join(sql).into_iter(), &mut ask)
        };
        assert!(is_excused(true, [&old, &new]));
        assert!(!is_excused(true, [&new, &new]), "beside the session are other rows");
        assert!(!is_excused(true, [&old, &old]));
        assert!(is_excused(false, [&new, &new]), "by now InnoDB has another plan");
        assert!(!is_excused(false, [&old, &old]));
    }

    #[test]
    fn a_plan_is_told_to_the_server_by_hints() {
        let row = |table: &str, key: &str| ["1", "SIMPLE", table, "ref", "k", key].map(String::from).to_vec();
        let told = |sql, plan: &[Vec<String>]| with_indexes(sql, plan);
        let within = "SELECT a.c2 FROM t9 a WHERE a.c1 NOT IN (SELECT b.c1 FROM t5 b WHERE b.id > 6)";
        assert_eq!(
            told(within, &[row("a", "NULL"), row("b", "k1")]).unwrap(),
            "SELECT a.c2 FROM t9 a WHERE a.c1 NOT IN (SELECT b.c1 FROM t5 b FORCE INDEX (k1) WHERE b.id > 6)"
        );
        let alone = "SELECT c2 FROM t5 WHERE c1 = 1.5";
        assert_eq!(told(alone, &[row("t5", "c1")]).unwrap(), "SELECT c2 FROM t5 FORCE INDEX (c1) WHERE c1 = 1.5");
        assert_eq!(told(alone, &[row("t5", "NULL")]), None, "by no index");
        let within = "SELECT a.* FROM t5 a WHERE a.c1 IN (SELECT b.c2 FROM t5 b WHERE b.c4 IS NOT NULL)";
        let looked_up = values_first(within).unwrap();
        assert_eq!(
            told(&looked_up, &[row("a", "PRIMARY"), row("b", "k8")]).unwrap(),
            "SELECT STRAIGHT_JOIN a.* FROM (SELECT DISTINCT b.c2 AS v FROM t5 b FORCE INDEX (k8) WHERE b.c4 IS NOT NULL) s \
             JOIN t5 a FORCE INDEX (PRIMARY) ON a.c1 = s.v"
        );
        assert_eq!(values_first(alone), None);
        let mut possible = row("t5", "NULL");
        possible[4] = "k,c1".into();
        let by_each = ["k", "c1"].map(|key| format!("SELECT c2 FROM t5 FORCE INDEX ({key}) WHERE c1 = 1.5"));
        assert_eq!(by_one_index(alone, &[possible]), by_each);
        assert_eq!(told("SELECT c2 FROM t5 IGNORE INDEX (k)", &[row("t5", "c1")]), None, "it has a hint");
    }
}
