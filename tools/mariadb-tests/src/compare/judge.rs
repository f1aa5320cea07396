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
    /// Errors, 0 for none.
    Codes(u16, u16),
    Texts(u16),
    Rows,
    /// The words of CHECK TABLE, CHECKSUM TABLE and SHOW CREATE TABLE.
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

/// Whether a statement is refused by InnoDB alone, because it would have to wait there.
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
        (Outcome::Refused(a, _), Outcome::Refused(b, _)) if a == b => {
            if ours.outcome != theirs.outcome {
                return Some(Class::Texts(*a));
            }
        }
        _ => return Some(Class::Codes(ours.code(), theirs.code())),
    }
    (warnings(statement, ours) != warnings(statement, theirs)).then_some(Class::Warnings)
}

/// The number of a row is that of the rows that were looked at so far, which is not the same for
/// every way to them.
fn warnings(statement: &Statement, answer: &Answer) -> Vec<String> {
    if statement.sql.starts_with("INSERT") && !statement.sql.contains("SELECT") {
        return answer.warnings.clone();
    }
    let mut warnings: Vec<_> = answer.warnings.iter().map(|warning| without_row_number(warning)).collect();
    warnings.sort();
    warnings
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
