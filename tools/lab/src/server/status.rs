//! What a server lists of itself: counters, variables, and the monitor of InnoDB.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Result};
use mysql::Conn;
use mysql::prelude::Queryable;

/// Names in small letters, with their values as the server writes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed(pub BTreeMap<String, String>);

impl Listed {
    /// The counters of these names; all of them if none is named.
    pub fn status(conn: &mut Conn, names: &[&str]) -> Result<Listed> {
        let quoted = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let only = if names.is_empty() { String::new() } else { format!(" WHERE Variable_name IN ({quoted})") };
        Listed::ask(conn, &format!("SHOW GLOBAL STATUS{only}"))
    }

    /// All variables.
    pub fn variables(conn: &mut Conn) -> Result<Listed> {
        Listed::ask(conn, "SHOW GLOBAL VARIABLES")
    }

    fn ask(conn: &mut Conn, sql: &str) -> Result<Listed> {
        let rows = conn.query::<(String, Option<String>), _>(sql).context("ask for the server's counters")?;
        Ok(Listed(rows.into_iter().map(|(name, value)| (name.to_lowercase(), value.unwrap_or_default())).collect()))
    }

    /// A value as the server writes it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_lowercase()).map(String::as_str)
    }

    /// A value that is a number.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }
}

/// The text of InnoDB's monitor, which a user needs a privilege for.
pub(crate) fn monitor(conn: &mut Conn) -> mysql::Result<Option<String>> {
    let row = conn.query_first::<(String, String, String), _>("SHOW ENGINE INNODB STATUS")?;
    Ok(row.map(|(_, _, text)| text))
}

/// The number behind the first `name` in the monitor's text, up to a comma or the end of the line.
pub(crate) fn told<T: FromStr>(text: &str, name: &str) -> Option<T> {
    text.split_once(name)?.1.split([',', '\n']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_value_in_whatever_letters() {
        let listed = Listed([("com_commit".to_owned(), "7".to_owned())].into());
        assert_eq!((listed.number("Com_commit"), listed.number::<f64>("com_rollback")), (Some(7), None));
    }

    #[test]
    fn a_number_of_the_monitor_ends_its_line() {
        let text = "History list length 17\nPages made young 7, not young 9\nLog sequence number 1 48213\n";
        let numbers = ["History list length", "Pages made young ", ", not young "].map(|name| told(text, name));
        assert_eq!(numbers, [Some(17), Some(7), Some(9)]);
        assert_eq!(told::<f64>(text, "Log sequence number"), None, "as before 5.5: in two parts");
    }
}
