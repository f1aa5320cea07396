//! The server's plans for a statement on each engine.

use super::script::schema;
use super::sessions::Side;

/// The ways to the rows of a statement, without estimates.
pub fn plan(side: &mut Side, sql: &str) -> Vec<[Option<String>; 5]> {
    explained(side, sql).into_iter().map(|row| [0, 2, 3, 5, 6].map(|at| row.get(at).cloned())).collect()
}

/// True if the engines come to the rows of a statement by other ways, or may: the plans for a
/// TEMPORARY table are its session's alone.
pub fn differ(sql: &str, [holdfast, innodb]: [&mut Side; 2]) -> bool {
    let ours = plan(holdfast, sql);
    ours.is_empty() || ours != plan(innodb, sql)
}

/// True if InnoDB has a choice of ways to the rows of a statement: it counts rows in the
/// background, and by now its plan may be another one than it was.
pub fn has_choice(sql: &str, innodb: &mut Side) -> bool {
    explained(innodb, sql).iter().any(|row| row.get(4).is_some_and(|possible_keys| possible_keys != "NULL"))
}

/// What EXPLAIN says of a statement.
pub fn explained(side: &mut Side, sql: &str) -> Vec<Vec<String>> {
    side.look(&format!("USE {}", schema(side.engine)));
    side.look(&format!("EXPLAIN {sql}")).into_rows()
}
