//! Known differences of waits: why only one engine lets a statement wait for a lock.

use super::answer::Outcome;
use super::meaning::Meanings;
use super::plans::{explained, plan};
use super::script::{Statement, is_read_by_handler, schema};
use super::sessions::{Lock, Side};

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

pub const LOCKS_BY_HANDLER: &str =
    "HANDLER locks what it reads at SERIALIZABLE; InnoDB lets it lock in tables with partitions only";

/// Whether it is known why only InnoDB lets a statement wait, with whatever consequence.
pub fn of_waits_there(statement: &Statement, meanings: &Meanings, innodb: &mut Side) -> Option<&'static str> {
    let session = statement.session;
    if is_read_by_handler(&statement.sql) && innodb.waits_in_partition(session) {
        return Some(LOCKS_BY_HANDLER);
    }
    let copies =
        ["INSERT", "REPLACE"].iter().any(|verb| statement.sql.starts_with(verb)) && statement.sql.contains("SELECT");
    (copies && meanings.reads_uncommitted(session) && innodb.others_have_changes(session))
        .then_some("READ UNCOMMITTED reads what is committed")
}

/// Whether it is known why only this engine lets a statement wait.
pub fn of_waits(
    statement: &Statement,
    meanings: &Meanings,
    [holdfast, innodb]: &mut [Side; 2],
) -> Option<&'static str> {
    let session = statement.session;
    if meanings.others_lock_by_handler(session) || meanings.locks_by_handler(statement) {
        return Some(LOCKS_BY_HANDLER);
    }
    let locks = holdfast.blocking_locks(session);
    if !locks.is_empty() && locks.iter().all(|lock| is_of_absent_row(lock, [holdfast, innodb])) {
        return Some("the key of a row that is looked for and not there is locked as a row is, with InnoDB as a gap");
    }
    if !locks.is_empty() && locks.iter().all(|lock| comes_from_prefix(lock, meanings, holdfast)) {
        return Some("an index of the beginning of a column leads to the row; InnoDB reads a short value without it");
    }
    plans_differ(meanings, holdfast, innodb).then_some("other plans lock other rows")
}

/// Whether the lock is of a primary key, one integer, for which neither engine has a row.
fn is_of_absent_row(lock: &Lock, sides: [&mut Side; 2]) -> bool {
    let Some(key) = integer(lock) else { return false };
    sides.into_iter().all(|side| {
        let (schema, table) = (schema(side.engine), &lock.table);
        let column = format!(
            "SELECT MIN(column_name) FROM information_schema.statistics WHERE table_schema = '{schema}' AND \
             table_name = '{table}' AND index_name = 'PRIMARY' HAVING COUNT(*) = 1"
        );
        let Some(column) = first_value(side, &column) else { return false };
        first_value(side, &format!("SELECT COUNT(*) FROM {schema}.{table} WHERE {column} = {key}")).as_deref()
            == Some("0")
    })
}

/// The INT that is the primary key of a locked row.
fn integer(lock: &Lock) -> Option<i32> {
    let digits = Some(lock.data.as_str()).filter(|data| data.len() == 8 && lock.index == "PRIMARY")?;
    let bits = u32::from_str_radix(digits, 16).ok()? ^ 0x8000_0000;
    Some(i32::from_ne_bytes(bits.to_ne_bytes()))
}

/// Whether a read for sharing may have come to the row by an index alone which has only the
/// beginning of a column.
fn comes_from_prefix(lock: &Lock, meanings: &Meanings, holdfast: &mut Side) -> bool {
    let (schema, table) = (schema(holdfast.engine), &lock.table);
    let of_prefix = format!(
        "SELECT DISTINCT index_name FROM information_schema.statistics \
         WHERE table_schema = '{schema}' AND table_name = '{table}' AND sub_part IS NOT NULL"
    );
    let Outcome::Rows(keys) = holdfast.look(&of_prefix).outcome else { return false };
    let by_prefix = |sql: &String| {
        let by = |row: &Vec<String>| {
            let is_alone =
                row.get(9).is_some_and(|extra| extra.replace("Using index condition", "").contains("Using index"));
            is_alone && row.get(5).is_some_and(|key| keys.iter().any(|name| name[0] == *key))
        };
        explained(holdfast, sql).iter().any(by)
    };
    lock.mode == "S" && lock.index == "PRIMARY" && meanings.in_transactions().any(by_prefix)
}

/// The first value that the server gives.
fn first_value(side: &mut Side, sql: &str) -> Option<String> {
    side.look(sql).into_rows().into_iter().next()?.into_iter().next()
}

/// Whether the optimiser finds other ways to rows whose locks are held or asked for.
fn plans_differ(meanings: &Meanings, holdfast: &mut Side, innodb: &mut Side) -> bool {
    meanings.in_transactions().any(|sql| plan(holdfast, sql) != plan(innodb, sql))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_primary_key_of_one_int_says_which_row_it_is() {
        let lock = |index: &str, data: &str| Lock {
            mode: "S".into(),
            table: "t".into(),
            index: index.into(),
            data: data.into(),
        };
        assert_eq!(integer(&lock("PRIMARY", "80000006")), Some(6));
        assert_eq!(integer(&lock("PRIMARY", "7fffffff")), Some(-1));
        for other in [lock("k", "80000006"), lock("PRIMARY", "8000000680000001"), lock("PRIMARY", "")] {
            assert_eq!(integer(&other), None);
        }
    }
}
