//! Known differences of waits: why only one engine lets a statement wait for a lock.

use std::collections::BTreeSet;

use super::answer::Outcome;
use super::meaning::Meanings;
use super::plans::{self, explained, plan};
use super::script::{Statement, is_of_name, is_read_by_handler, names, schema};
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
    of_uncommitted_copies(statement, meanings, innodb)
}

/// Whether a statement copies rows at READ UNCOMMITTED while others have changed some: InnoDB
/// copies other rows, which have other keys.
fn of_uncommitted_copies(statement: &Statement, meanings: &Meanings, innodb: &mut Side) -> Option<&'static str> {
    let session = statement.session;
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
    if holdfast.waits_for_inserters(session) {
        return Some("a range is locked after sessions that already wait to insert there");
    }
    if let Some(reason) = of_uncommitted_copies(statement, meanings, innodb) {
        return Some(reason);
    }
    if waits_for_what_was_skipped(session, meanings, holdfast) {
        return Some(
            "a range that SKIP LOCKED has read is kept whole, with InnoDB without what is before a skipped row",
        );
    }
    if waits_for_search(session, meanings, holdfast) {
        return Some(
            "what a FOREIGN KEY leads to is looked for in a range at READ COMMITTED, too, with InnoDB by rows",
        );
    }
    // A transaction that is prepared has given such keys up.
    let may_lock_keys = !meanings.only_prepared_are_beside(session, |other| holdfast.is_pending(other));
    let requests = if may_lock_keys { holdfast.blocking_requests(session) } else { Vec::new() };
    if !requests.is_empty() && requests.iter().all(|lock| is_of_absent_row(lock, [holdfast, innodb])) {
        return Some("the key of a row that is looked for and not there is locked as a row is, with InnoDB as a gap");
    }
    let locks = holdfast.blocking_locks(session);
    if !locks.is_empty() && locks.iter().all(|lock| comes_from_prefix(lock, meanings, holdfast)) {
        return Some("an index of the beginning of a column leads to the row; InnoDB reads a short value without it");
    }
    if stand_elsewhere(session, holdfast, innodb) {
        return Some(
            "a statement waits for a row of one table, with InnoDB of another, and has locked others until then",
        );
    }
    if let Some(reason) = stand_at_other_rows(session, meanings, [holdfast, innodb]) {
        return Some(reason);
    }
    if waits_for_other_key(session, &meanings.of(statement).sql, holdfast) {
        return Some(
            "a statement that waits has locked the keys of a parent; InnoDB comes to each when those before are checked",
        );
    }
    (meanings.waits_by_other_plans() || plans_differ(&locks, meanings, [holdfast, innodb]))
        .then_some("other plans lock other rows")
}

/// True if the statements for whose locks a session of this engine waits are waiting themselves,
/// with InnoDB in another table. A statement that goes through several, by FOREIGN KEYs, has locked
/// other rows until then.
fn stand_elsewhere(session: usize, holdfast: &mut Side, innodb: &mut Side) -> bool {
    let blockers = holdfast.blocked_by(session);
    let name = |table: String| table.split(['#', ' ']).next().unwrap_or_default().rsplit('.').next().map(str::to_owned);
    !blockers.is_empty()
        && blockers.into_iter().all(|other| {
            let [ours, theirs] = [&mut *holdfast, &mut *innodb].map(|side| side.table_waited_for(other).and_then(name));
            ours.is_some() && theirs.is_some() && ours != theirs
        })
}

/// Why the statements for whose locks a session of this engine waits, and which wait themselves on
/// both engines, may have come farther here: they wait for other rows.
fn stand_at_other_rows(
    session: usize,
    meanings: &Meanings,
    [holdfast, innodb]: [&mut Side; 2],
) -> Option<&'static str> {
    let blockers = holdfast.blocked_by(session);
    let is_waiting = |&other: &usize| holdfast.is_pending(other) && innodb.is_pending(other);
    if blockers.is_empty() || !blockers.iter().all(is_waiting) {
        return None;
    }
    let of_waiter = |&other: &usize| locks_others(meanings.carried_out_by(other).last()?, meanings, [holdfast, innodb]);
    blockers.iter().find_map(of_waiter)
}

/// True if a session waits to insert into ranges that others have read with SKIP LOCKED.
fn waits_for_what_was_skipped(session: usize, meanings: &Meanings, holdfast: &mut Side) -> bool {
    let blockers = holdfast.blocked_by(session);
    let has_skipped = |&other: &usize| meanings.carried_out_by(other).iter().any(|sql| sql.contains("SKIP LOCKED"));
    !blockers.is_empty() && blockers.iter().all(has_skipped) && holdfast.waits_to_insert(session)
}

/// True if a session waits for the key of a parent to which a FOREIGN KEY refers and which is not
/// the primary one, and the statements that have locked it are waiting themselves.
fn waits_for_other_key(session: usize, sql: &str, holdfast: &mut Side) -> bool {
    let blockers = holdfast.blocked_by(session);
    if blockers.is_empty() || !blockers.iter().all(|&other| holdfast.is_pending(other)) {
        return false;
    }
    let by_other_key = format!(
        "SELECT table_name, referenced_table_name, unique_constraint_name \
         FROM information_schema.referential_constraints \
         WHERE constraint_schema = '{}' AND unique_constraint_name <> 'PRIMARY'",
        schema(holdfast.engine)
    );
    let links = holdfast.look(&by_other_key).into_rows();
    let is_key = |lock: &Lock, link: &Vec<String>| link[1] == lock.table && link[2] == lock.index;
    let is_parent = |lock: &Lock| links.iter().any(|link| names(sql, &link[0]) && is_key(lock, link));
    let locks = holdfast.blocking_locks(session);
    !locks.is_empty() && locks.iter().all(is_parent)
}

/// Why transactions may have locked other rows of the tables of a statement on the one engine than
/// on the other: what `SKIP LOCKED` leaves out, or a statement waits for.
pub fn locks_others(sql: &str, meanings: &Meanings, [holdfast, innodb]: [&mut Side; 2]) -> Option<&'static str> {
    let list =
        format!("SELECT table_name FROM information_schema.tables WHERE table_schema = '{}'", schema(holdfast.engine));
    let tables = holdfast.look(&list).into_rows();
    let shares = |other: &&String| tables.iter().any(|table| names(sql, &table[0]) && names(other, &table[0]));
    meanings.in_transactions().filter(shares).find_map(|other| {
        let theirs = plan(innodb, other);
        let is_range = theirs.iter().any(|step| step[2].as_deref() == Some("range"));
        if plan(holdfast, other) != theirs {
            Some("other plans lock other rows")
        } else {
            is_range.then_some("InnoDB locks the first row behind a range, too")
        }
    })
}

/// The tables that FOREIGN KEYs connect: child and parent.
fn links(side: &mut Side) -> Vec<Vec<String>> {
    let links = format!(
        "SELECT table_name, referenced_table_name FROM information_schema.referential_constraints \
         WHERE constraint_schema = '{}'",
        schema(side.engine)
    );
    side.look(&links).into_rows()
}

/// True if a session waits to insert where the statement of another one, at READ COMMITTED, looks
/// for what a FOREIGN KEY leads to: it keeps the range until it is done.
fn waits_for_search(session: usize, meanings: &Meanings, holdfast: &mut Side) -> bool {
    let mut searches = meanings.reading_committed().filter(|&other| other != session);
    if !searches.any(|other| holdfast.is_pending(other)) || !holdfast.waits_to_insert(session) {
        return false;
    }
    let linked = links(holdfast);
    let requests = holdfast.blocking_requests(session);
    !requests.is_empty() && requests.iter().all(|lock| linked.iter().flatten().any(|table| *table == lock.table))
}

/// True if the lock is of a primary key of one column for which neither engine has a row, also none
/// that a transaction has inserted which is not over.
fn is_of_absent_row(lock: &Lock, sides: [&mut Side; 2]) -> bool {
    sides.into_iter().all(|side| {
        let schema = schema(side.engine);
        // A partition's table is named before its own name.
        let table = lock.table.split('#').next().unwrap_or_default();
        let column = format!(
            "SELECT MIN(s.column_name), MIN(c.data_type), MIN(s.sub_part), MIN(s.collation) FROM information_schema.statistics s \
             JOIN information_schema.columns c USING (table_schema, table_name, column_name) \
             WHERE table_schema = '{schema}' AND table_name = '{table}' AND index_name = 'PRIMARY' \
             HAVING COUNT(*) = 1"
        );
        let column = side.look(&column).into_rows();
        let Some([name, kind, prefix, collation]) = column.first().map(Vec::as_slice) else { return false };
        let falls = collation == "D";
        let Some(condition) = condition_of_key(lock, name, [kind, prefix], falls) else { return false };
        let count = format!("SELECT COUNT(*) FROM {schema}.{table} WHERE {condition}");
        let levels = ["REPEATABLE READ", "READ UNCOMMITTED"];
        levels.iter().all(|level| {
            // Of the statement that comes next.
            side.look(&format!("SET TRANSACTION ISOLATION LEVEL {level}"));
            first_value(side, &count).as_deref() == Some("0")
        })
    })
}

/// What holds for the row of a locked primary key: an INT, in rising or falling order, or bytes of
/// which the key may have only the beginning.
fn condition_of_key(lock: &Lock, column: &str, [kind, prefix]: [&str; 2], falls: bool) -> Option<String> {
    let data = Some(lock.data.as_str()).filter(|_| lock.index == "PRIMARY")?;
    match kind {
        "int" => integer(data).map(|key| format!("{column} = {}", if falls { !key } else { key })),
        _ if falls => None,
        "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => {
            let key = bytes(data)?;
            Some(match prefix {
                "NULL" => format!("{column} = x'{key}'"),
                length => format!("LEFT({column}, {length}) = x'{key}'"),
            })
        }
        _ => None,
    }
}

/// The INT that a key has.
fn integer(data: &str) -> Option<i32> {
    let bits = u32::from_str_radix(data, 16).ok().filter(|_| data.len() == 8)? ^ 0x8000_0000;
    Some(i32::from_ne_bytes(bits.to_ne_bytes()))
}

/// The bytes that a key has, in hexadecimal digits: a zero byte is followed by `ff`, and behind
/// them are two zero bytes.
fn bytes(data: &str) -> Option<String> {
    let mut rest = data.strip_suffix("0000")?;
    let mut bytes = String::new();
    while let Some((byte, behind)) = rest.split_at_checked(2) {
        bytes.push_str(byte);
        rest = if byte == "00" { behind.strip_prefix("ff")? } else { behind };
    }
    rest.is_empty().then_some(bytes)
}

/// True if a read for sharing may have come to the row by an index alone which has only the
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

/// True if the optimiser finds other ways to the rows of each table that a lock is in, or of one
/// that FOREIGN KEYs connect with it.
fn plans_differ(locks: &[Lock], meanings: &Meanings, [holdfast, innodb]: [&mut Side; 2]) -> bool {
    // InnoDB counts rows in the background: by now its plan for a join may be another one.
    let differ = |sql: &&String| sql.contains(" JOIN ") || plans::differ(sql, [holdfast, innodb]);
    let differing: Vec<&String> = meanings.in_transactions().filter(differ).collect();
    if differing.is_empty() {
        return false;
    }
    let links = links(holdfast);
    let is_reached = |lock: &Lock| {
        let tables = connected(&lock.table, &links);
        differing.iter().any(|sql| tables.iter().any(|table| names(sql, table)))
    };
    !locks.is_empty() && locks.iter().all(is_reached)
}

/// The table of a lock, which may be that of a partition, and those that `links` connect with it.
fn connected<'a>(table: &'a str, links: &'a [Vec<String>]) -> BTreeSet<&'a str> {
    let mut tables: BTreeSet<&str> = table.split(|c| !is_of_name(c)).take(1).collect();
    loop {
        let ends = links.iter().map(|link| [link[0].as_str(), link[1].as_str()]);
        let more: Vec<&str> = ends.filter(|ends| ends.iter().any(|end| tables.contains(end))).flatten().collect();
        let before = tables.len();
        tables.extend(more);
        if tables.len() == before {
            return tables;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, prefix: &str, data: &str) -> Option<String> {
        let lock = Lock { mode: "S".into(), table: "t".into(), index: "PRIMARY".into(), data: data.into() };
        condition_of_key(&lock, "c", [kind, prefix], false)
    }

    #[test]
    fn tables_are_connected_by_foreign_keys_in_either_direction() {
        let links = [["c", "p"], ["g", "c"], ["x", "y"]].map(|link| link.map(String::from).to_vec());
        assert_eq!(connected("p", &links), BTreeSet::from(["c", "g", "p"]));
        assert_eq!(connected("t /* Partition p0 */", &links), BTreeSet::from(["t"]));
    }

    #[test]
    fn a_locked_primary_key_of_one_int_says_which_row_it_is() {
        assert_eq!(condition("int", "NULL", "80000006").unwrap(), "c = 6");
        assert_eq!(condition("int", "NULL", "7fffffff").unwrap(), "c = -1");
        assert_eq!(condition("int", "NULL", "8000000680000001"), None);
        assert_eq!(condition("int", "NULL", ""), None);
        assert_eq!(condition("double", "NULL", "80000006"), None);
        let lock = Lock { mode: "S".into(), table: "t".into(), index: "k".into(), data: "80000006".into() };
        assert_eq!(condition_of_key(&lock, "c", ["int", "NULL"], false), None);
        let falling = Lock { index: "PRIMARY".into(), data: "7ffffff5".into(), ..lock };
        assert_eq!(condition_of_key(&falling, "c", ["int", "NULL"], true).unwrap(), "c = 10");
        assert_eq!(condition_of_key(&falling, "c", ["blob", "NULL"], true), None);
    }

    #[test]
    fn a_locked_primary_key_of_bytes_says_which_row_it_is() {
        assert_eq!(condition("varbinary", "NULL", "610000").unwrap(), "c = x'61'");
        assert_eq!(condition("blob", "2", "0000").unwrap(), "LEFT(c, 2) = x''");
        assert_eq!(condition("tinyblob", "2", "00ff610000").unwrap(), "LEFT(c, 2) = x'0061'");
        for other in ["", "61", "0061", "00610000", "6100", "61~0000"] {
            assert_eq!(condition("blob", "2", other), None, "{other}");
        }
    }
}
