//! What a server answers to a statement, as it can be compared: names of engines and schemas are
//! masked.

use mysql::prelude::Queryable;
use mysql::{Conn, Value};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    /// Level, code, text.
    pub warnings: Vec<String>,
}

/// What became of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Rows(Vec<Vec<String>>),
    /// Rows affected, and what else the server says of it.
    Done(u64, String),
    Refused(u16, String),
    /// The connection is gone.
    Lost(String),
}

impl Answer {
    /// The rows; none if it is another kind of answer.
    pub fn into_rows(self) -> Vec<Vec<String>> {
        match self.outcome {
            Outcome::Rows(rows) => rows,
            _ => Vec::new(),
        }
    }

    /// Without a word about an error.
    pub fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Rows(_) | Outcome::Done(..))
    }

    /// True if its connection is gone.
    pub fn is_lost(&self) -> bool {
        matches!(self.outcome, Outcome::Lost(_))
    }

    /// The error, 0 for none.
    pub fn code(&self) -> u16 {
        match self.outcome {
            Outcome::Refused(code, _) => code,
            _ => 0,
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.outcome {
            Outcome::Rows(rows) => {
                writeln!(f, "{} rows", rows.len())?;
                for row in rows {
                    writeln!(f, "  {}", row.join(" | "))?;
                }
            }
            Outcome::Done(affected, info) => writeln!(f, "{affected} rows affected {info}")?,
            Outcome::Refused(code, text) => writeln!(f, "error {code}: {text}")?,
            Outcome::Lost(text) => writeln!(f, "connection lost: {text}")?,
        }
        for warning in &self.warnings {
            writeln!(f, "  {warning}")?;
        }
        Ok(())
    }
}

/// Asks the server.
pub fn ask(connection: &mut Conn, sql: &str) -> Answer {
    let (outcome, warned) = match answer(connection, sql) {
        Ok(answered) => answered,
        Err(mysql::Error::MySqlError(error)) => (Outcome::Refused(error.code, masked(&error.message)), true),
        Err(error) => (Outcome::Lost(error.to_string()), false),
    };
    let warnings = if warned { warnings(connection) } else { Vec::new() };
    Answer { outcome, warnings }
}

fn answer(connection: &mut Conn, sql: &str) -> mysql::Result<(Outcome, bool)> {
    let mut result = connection.query_iter(sql)?;
    let mut outcome = None;
    if let Some(set) = result.iter() {
        let (affected, info) = (set.affected_rows(), set.info_str().into_owned());
        let has_columns = !set.columns().as_ref().is_empty();
        let rows = set.map(|row| row.map(|row| row.unwrap_raw())).collect::<mysql::Result<Vec<_>>>()?;
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|row| row.into_iter().map(|value| shown(value.as_ref())).collect()).collect();
        outcome = Some(if has_columns { Outcome::Rows(rows) } else { Outcome::Done(affected, masked(&info)) });
    }
    while result.iter().is_some() {}
    drop(result);
    Ok((outcome.unwrap_or(Outcome::Done(0, String::new())), connection.warnings() > 0))
}

fn warnings(connection: &mut Conn) -> Vec<String> {
    let rows: Vec<(String, u16, String)> = connection.query("SHOW WARNINGS").unwrap_or_default();
    rows.into_iter().map(|(level, code, text)| format!("{level} {code}: {}", masked(&text))).collect()
}

/// Text as it is; what is no text with its bytes as digits; what is long by its length and a sum.
pub fn shown(value: Option<&Value>) -> String {
    match value {
        Some(Value::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) if bytes.len() <= 3000 => masked(text).escape_debug().to_string(),
            _ if bytes.len() <= 3000 => masked(&bytes.escape_ascii().to_string()),
            _ => format!("({} bytes, {:x})", bytes.len(), sum(bytes)),
        },
        Some(Value::NULL) | None => "NULL".into(),
        Some(other) => format!("{other:?}"),
    }
}

/// FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The text with `$ENGINE` for the names of both engines, which are those of their schemas, too,
/// and without the numbers of process and connection in the name of a table that an ALTER makes.
fn masked(text: &str) -> String {
    let mut masked = text.to_owned();
    for name in ["HOLDFAST", "Holdfast", "holdfast", "InnoDB", "INNODB", "innodb"] {
        masked = masked.replace(name, "$ENGINE");
    }
    let is_of_number = |c: char| c.is_ascii_hexdigit() || c == '-';
    let mut parts = masked.split(IN_PASSING);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + IN_PASSING + part.trim_start_matches(is_of_number))
}

/// How names of tables begin that an ALTER makes.
const IN_PASSING: &str = "#sql-alter-";

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn what_names_an_engine_or_a_connection_is_masked() {
        let text =
            |schema, number| format!("rename './{schema}/#sql-alter-35dd-{number}' to './{schema}/t1' (errno: 150)");
        assert_eq!(masked(&text("holdfast", "5")), masked(&text("innodb", "1f")));
        assert_eq!(masked("fast #sql-alter-1-2"), "fast #sql-alter-");
        assert_ne!(masked("t1"), masked("t2"));
    }
}
