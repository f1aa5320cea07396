//! Whether two answers are the same.

use super::answer::{Answer, Outcome};
use super::script::Statement;

/// What a difference is about. A smaller scenario has to lead to the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The server is gone.
    Lost,
    /// A statement neither ends nor waits, or only on one engine its connection is gone.
    Hangs,
    /// Only one engine lets a statement wait.
    Waits,
    /// Only this engine has a deadlock.
    Deadlock,
    /// Errors, 0 for none.
    Codes(u16, u16),
    Texts(u16),
    Rows,
    /// The words of CHECK TABLE, CHECKSUM TABLE and SHOW CREATE TABLE, or rows without parents.
    Table(&'static str),
    Affected,
    Warnings,
}

/// Says that a statement is to be refused instead of waiting.
pub const NOWAIT: &str = " NOWAIT";

/// A difference that is not known.
#[derive(Clone, Debug)]
pub struct Difference {
    pub class: Class,
    /// The statement that is answered differently.
    pub question: String,
    pub ours: String,
    pub theirs: String,
}

/// True if a statement is refused by InnoDB alone, because it would have to wait there.
pub fn is_refused_there(sql: &str, ours: &Answer, theirs: &Answer) -> bool {
    sql.contains(NOWAIT) && ours.is_success() && theirs.code() == 1205
}

/// What differs, and both answers as they are shown.
pub fn judge(statement: &Statement, ours: &Answer, theirs: &Answer) -> Option<(Class, (String, String))> {
    let class = class(statement, ours, theirs)?;
    Some((class, (ours.to_string(), theirs.to_string())))
}

fn class(statement: &Statement, ours: &Answer, theirs: &Answer) -> Option<Class> {
    match (&ours.outcome, &theirs.outcome) {
        (Outcome::Lost(_), _) | (_, Outcome::Lost(_)) => return Some(Class::Lost),
        (Outcome::Rows(a), Outcome::Rows(b)) if !same_rows(a, b, statement.ordered) => {
            return Some(about_table(&statement.sql).map_or(Class::Rows, Class::Table));
        }
        (Outcome::Rows(_), Outcome::Rows(_)) => {}
        (Outcome::Done(..), Outcome::Done(..)) if ours.outcome != theirs.outcome => return Some(Class::Affected),
        (Outcome::Done(..), Outcome::Done(..)) => {}
        (Outcome::Refused(a, our_text), Outcome::Refused(b, their_text)) if a == b => {
            if text(statement, our_text) != text(statement, their_text) {
                return Some(Class::Texts(*a));
            }
        }
        _ => return Some(Class::Codes(ours.code(), theirs.code())),
    }
    (warnings(statement, ours) != warnings(statement, theirs)).then_some(Class::Warnings)
}

fn warnings(statement: &Statement, answer: &Answer) -> Vec<String> {
    let mut warnings: Vec<_> = answer.warnings.iter().map(|warning| text(statement, warning)).collect();
    if !says_its_rows(statement) {
        warnings.sort();
    }
    warnings
}

/// The text of an error or a warning as it has to be. The number of a row in it is that of the rows
/// that were looked at so far, which is not the same for every way to them.
fn text(statement: &Statement, text: &str) -> String {
    if says_its_rows(statement) { text.to_owned() } else { without_row_number(text) }
}

/// True if the statement itself says in which order it comes to rows.
fn says_its_rows(statement: &Statement) -> bool {
    statement.sql.starts_with("INSERT") && !statement.sql.contains("SELECT")
}

/// A warning without the number of the row at its end.
pub fn without_row_number(warning: &str) -> String {
    warning.rsplit_once(" at row ").map_or(warning, |(text, _)| text).to_owned()
}

fn about_table(sql: &str) -> Option<&'static str> {
    ["CHECK TABLE", "CHECKSUM TABLE", "SHOW CREATE"].into_iter().find(|words| sql.starts_with(words))
}

fn same_rows(a: &[Vec<String>], b: &[Vec<String>], ordered: bool) -> bool {
    if ordered || a.len() != b.len() {
        return a == b;
    }
    let sorted = |rows: &[Vec<String>]| {
        let mut rows = rows.to_vec();
        rows.sort();
        rows
    };
    sorted(a) == sorted(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_same_row_if_the_statement_says_the_order_of_rows() {
        let refused = |text: &str| Answer { outcome: Outcome::Refused(1264, text.into()), warnings: Vec::new() };
        let [first, fourth] = ["Out of range at row 1", "Out of range at row 4"].map(refused);
        let said = |sql: &str| Statement { session: 0, sql: sql.into(), ordered: false };
        assert_eq!(class(&said("UPDATE t SET c = c + 1"), &first, &fourth), None);
        assert_eq!(class(&said("INSERT INTO t VALUES (1), (2)"), &first, &fourth), Some(Class::Texts(1264)));
        let other = refused("Data too long at row 1");
        assert_eq!(class(&said("UPDATE t SET c = c + 1"), &first, &other), Some(Class::Texts(1264)));
    }
}
