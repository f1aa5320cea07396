//! Known differences that follow from what the tables are like: both engines are asked.

use mysql::Value;

use super::answer::{Answer, Outcome, shown};
use super::differences::{Known, MISSED_BY_VIRTUAL};
use super::plans::explained;
use super::script::{WITH_EXPANSIONS, is_read_by_handler, names, schema};
use super::sessions::Side;
use super::tokens::tokens;

/// Whether what there is in the tables lets the engines answer differently.
pub fn of_tables(sql: &str, ours: &Answer, theirs: &Answer, sides: &mut [Side; 2]) -> Option<Known> {
    of_keys(sql, ours, theirs, &mut sides[1])
        .or_else(|| of_orphans(sql, ours, theirs, sides))
        .or_else(|| of_temporary(sql, ours, theirs, sides))
        .or_else(|| of_cut_constants(sql, ours, theirs, sides))
        .or_else(|| of_beginnings(sql, ours, theirs, sides))
        .or_else(|| of_merged_partitions(sql, ours, theirs, &mut sides[1]))
        .or_else(|| of_stale_columns(sql, ours, theirs, &mut sides[1]))
        .or_else(|| of_handlers_in_partitions(sql, ours, theirs, &mut sides[1]))
        .or_else(|| of_unused_columns(sql, ours, theirs, &mut sides[1]))
}

/// What InnoDB does by a HANDLER on a table with partitions.
const NEWEST_BY_HANDLER: &str =
    "HANDLER reads by the snapshot; of a table with partitions InnoDB reads what is newest, and takes none";

/// Other rows that a HANDLER reads beside a table with partitions: of such a table InnoDB shows the
/// newest version of each row, whatever the snapshot of the transaction is.
fn of_handlers_in_partitions(sql: &str, ours: &Answer, theirs: &Answer, innodb: &mut Side) -> Option<Known> {
    let reads = is_read_by_handler(sql) && are_rows(ours, theirs);
    (reads && has_partitions(innodb)).then_some(Known { reason: NEWEST_BY_HANDLER, parts: true })
}

/// Other rows by the snapshot of a transaction that has read by a HANDLER, which may have been of a
/// table with partitions.
pub fn of_snapshot_by_handler(ours: &Answer, theirs: &Answer, innodb: &mut Side) -> Option<&'static str> {
    (are_rows(ours, theirs) && has_partitions(innodb)).then_some(NEWEST_BY_HANDLER)
}

fn are_rows(ours: &Answer, theirs: &Answer) -> bool {
    [ours, theirs].iter().all(|answer| matches!(answer.outcome, Outcome::Rows(_)))
}

fn has_partitions(innodb: &mut Side) -> bool {
    let tables = format!(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = '{}' AND create_options LIKE '%partitioned%'",
        schema(innodb.engine)
    );
    !innodb.look(&tables).into_rows().is_empty()
}

/// Rows in an order that InnoDB reads from an index with a virtual column of a partitioned table:
/// it merges the partitions' rows by values that it has not computed.
fn of_merged_partitions(sql: &str, ours: &Answer, theirs: &Answer, innodb: &mut Side) -> Option<Known> {
    let (Outcome::Rows(_), Outcome::Rows(_)) = (&ours.outcome, &theirs.outcome) else { return None };
    if ![" GROUP BY ", " ORDER BY ", "DISTINCT "].iter().any(|order| sql.contains(order)) {
        return None;
    }
    let reason = "InnoDB merges the rows of partitions by virtual columns that it has not computed";
    reads_by_virtual(sql, " AND t.create_options LIKE '%partitioned%'", innodb)
        .then_some(Known { reason, parts: false })
}

/// A longer column that InnoDB refuses because a FOREIGN KEY uses it, although none does: behind a
/// generated column it looks at another one.
fn of_unused_columns(sql: &str, ours: &Answer, theirs: &Answer, innodb: &mut Side) -> Option<Known> {
    let Outcome::Refused(1832, text) = &theirs.outcome else { return None };
    let table = sql.strip_prefix("ALTER TABLE ")?.split(' ').next()?;
    let column = text.split('\'').nth(1)?;
    let uses = format!(
        "SELECT 1 FROM information_schema.key_column_usage WHERE table_schema = '{}' AND table_name = '{table}' \
         AND column_name = '{column}' AND referenced_table_name IS NOT NULL",
        schema(innodb.engine)
    );
    let is_known = ours.is_success() && innodb.look(&uses).into_rows().is_empty();
    let reason = "InnoDB takes a column for one of a FOREIGN KEY";
    is_known.then_some(Known { reason, parts: true })
}

/// True if InnoDB reads rows by an index with a virtual column, of a table for which the condition
/// holds.
fn reads_by_virtual(sql: &str, condition: &str, innodb: &mut Side) -> bool {
    let keys = format!(
        "SELECT DISTINCT s.table_name, s.index_name FROM information_schema.statistics s \
         JOIN information_schema.columns c USING (table_schema, table_name, column_name) \
         JOIN information_schema.tables t USING (table_schema, table_name) \
         WHERE table_schema = '{}' AND c.extra LIKE 'VIRTUAL%'{condition}",
        schema(innodb.engine)
    );
    let keys = innodb.look(&keys).into_rows();
    let used: Vec<String> = explained(innodb, sql).iter().flat_map(|row| keys_of(row)).collect();
    keys.iter().any(|key| names(sql, &key[0]) && used.contains(&key[1]))
}

/// Fewer rows that InnoDB has copied or changed at READ UNCOMMITTED.
pub fn of_level(sql: &str, ours: &Answer, theirs: &Answer, innodb: &mut Side) -> Option<&'static str> {
    (has_met_fewer(ours, theirs) && reads_by_virtual(sql, "", innodb)).then_some(MISSED_BY_VIRTUAL)
}

/// True if InnoDB has changed or looked at fewer rows.
fn has_met_fewer(ours: &Answer, theirs: &Answer) -> bool {
    let met = |answer: &Answer| match &answer.outcome {
        Outcome::Done(rows, info) => {
            let records = info.strip_prefix("Records: ").and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
            Some([*rows, records.unwrap_or(0)])
        }
        _ => None,
    };
    let (Some(ours), Some(theirs)) = (met(ours), met(theirs)) else { return false };
    ours != theirs && (0..2).all(|at| theirs[at] <= ours[at])
}

/// Rows that InnoDB shows by an index on a virtual column that has other values there than it
/// computes from the rows.
fn of_stale_columns(sql: &str, ours: &Answer, theirs: &Answer, innodb: &mut Side) -> Option<Known> {
    if !ours.is_success() || !theirs.is_success() || ours.outcome == theirs.outcome {
        return None;
    }
    let schema = schema(innodb.engine);
    let keys = format!(
        "SELECT s.table_name, s.index_name, GROUP_CONCAT(column_name) FROM information_schema.statistics s \
         JOIN information_schema.columns c USING (table_schema, table_name, column_name) \
         WHERE table_schema = '{schema}' AND s.sub_part IS NULL GROUP BY 1, 2 HAVING SUM(c.extra LIKE 'VIRTUAL%') > 0"
    );
    let keys = innodb.look(&keys).into_rows();
    let used: Vec<String> = explained(innodb, sql).iter().flat_map(|row| keys_of(row)).collect();
    let mut is_stale = |key: &Vec<String>| {
        let [table, name, columns] = [&key[0], &key[1], &key[2]];
        let [by, without] = ["FORCE", "IGNORE"].map(|hint| {
            let rows = format!("SELECT {columns} FROM {schema}.{table} {hint} INDEX ({name})");
            let mut rows = innodb.look(&rows).into_rows();
            rows.sort();
            rows
        });
        by != without
    };
    let reason = "InnoDB has another value of a virtual column in an index than it computes from the row";
    keys.iter()
        .filter(|key| names(sql, &key[0]) && used.contains(&key[1]))
        .any(&mut is_stale)
        .then_some(Known { reason, parts: true })
}

/// Rows that only one engine looks for by an index of the beginning of a text, in a collation in
/// which the beginnings of texts compare otherwise than they: the index does not lead to those.
fn of_beginnings(sql: &str, ours: &Answer, theirs: &Answer, sides: &mut [Side; 2]) -> Option<Known> {
    if !ours.is_success() || !theirs.is_success() || ours.outcome == theirs.outcome {
        return None;
    }
    let used = sides.each_mut().map(|side| {
        let keys = keys_of_beginnings(sql, side);
        let used: Vec<String> = explained(side, sql).iter().flat_map(|row| keys_of(row)).collect();
        keys.into_iter().filter(|key| used.contains(key)).collect::<Vec<_>>()
    });
    // What a statement has changed may have given it another plan.
    let missed = match (&ours.outcome, &theirs.outcome) {
        (Outcome::Done(ours, _), Outcome::Done(theirs, _)) => !used[usize::from(theirs < ours)].is_empty(),
        _ => false,
    };
    let reason = "an index of the beginning of a text does not lead to one whose beginning compares otherwise";
    (missed || used[0] != used[1]).then_some(Known { reason, parts: true })
}

/// In the names of collations that ignore some characters at first, as `-` in `-1`.
const IGNORES: &str = "czech_cs";

/// The indexes in a row of EXPLAIN.
fn keys_of(row: &[String]) -> Vec<String> {
    row.get(5).map_or(Vec::new(), |keys| keys.split([',', '|']).map(String::from).collect())
}

/// The indexes of the statement's tables that have the beginning of a text in such a collation.
fn keys_of_beginnings(sql: &str, side: &mut Side) -> Vec<String> {
    let keys = format!(
        "SELECT DISTINCT s.table_name, s.index_name FROM information_schema.statistics s \
         JOIN information_schema.columns c USING (table_schema, table_name, column_name) \
         WHERE table_schema = '{}' AND s.sub_part IS NOT NULL AND c.collation_name REGEXP '{}|{IGNORES}' ORDER BY 2",
        schema(side.engine),
        WITH_EXPANSIONS.join("|")
    );
    let rows = side.look(&keys).into_rows();
    rows.into_iter().filter(|row| names(sql, &row[0])).map(|row| row[1].clone()).collect()
}

/// Rows that only one engine looks for by an index with a constant that the column of the index
/// cannot have, as 1.25 in an INT: the server looks for 1 then, and compares no row with 1.25.
fn of_cut_constants(sql: &str, ours: &Answer, theirs: &Answer, sides: &mut [Side; 2]) -> Option<Known> {
    if !ours.is_success() || !theirs.is_success() || ours.outcome == theirs.outcome {
        return None;
    }
    let [ours, theirs] = sides.each_mut().map(|side| keys_of_constants(sql, side));
    let innodb = &mut sides[1];
    let schema = schema(innodb.engine);
    let columns = format!(
        "SELECT table_name, index_name, column_name FROM information_schema.statistics WHERE table_schema = '{schema}'"
    );
    let columns = innodb.look(&columns).into_rows();
    let mut is_cut = |key: &Vec<String>| {
        let [table, index, column] = [&key[0], &key[1], &key[2]];
        names(sql, table)
            && ours.contains(index) != theirs.contains(index)
            && constants_of(sql, column).iter().any(|constant| {
                let equal = format!("{column} = {constant}");
                let found = format!("SELECT COUNT(*) FROM {schema}.{table} FORCE INDEX ({index}) WHERE {equal}");
                let are_there =
                    format!("SELECT COUNT(IF({equal}, 1, NULL)) FROM {schema}.{table} IGNORE INDEX ({index})");
                let [found, are_there] = [found, are_there].map(|sql| {
                    // Of the statement that comes next; the session may have changes.
                    innodb.look("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED");
                    innodb.look(&sql).into_rows()
                });
                found != are_there
            })
    };
    let reason = "the server looks in an index for what a column can have of a constant, and takes that for equal";
    columns.iter().any(&mut is_cut).then_some(Known { reason, parts: true })
}

/// The indexes in which the plan looks for one value, if constants are part of it.
fn keys_of_constants(sql: &str, side: &mut Side) -> Vec<String> {
    let has_constant = |row: &&Vec<String>| row.get(7).is_some_and(|values| values.split(',').any(|it| it == "const"));
    explained(side, sql).iter().filter(has_constant).flat_map(|row| keys_of(row)).collect()
}

/// The constants with which the statement compares the column: numbers and texts.
fn constants_of<'s>(sql: &'s str, column: &str) -> Vec<&'s str> {
    let tokens: Vec<&str> = tokens(sql).into_iter().map(str::trim).collect();
    let is_constant =
        |token: &str| token.starts_with(|c: char| c == '\'' || c.is_ascii_digit()) || token.parse::<f64>().is_ok();
    let is_column = |token: &str| token.rsplit('.').next() == Some(column);
    let compared = tokens.windows(3).filter_map(|three| match *three {
        [left, "=", right] if is_column(left) && is_constant(right) => Some(right),
        [left, "=", right] if is_column(right) && is_constant(left) => Some(left),
        _ => None,
    });
    compared.collect()
}

/// A least or greatest BIT or YEAR, which the server shows as a value of the column if its plan has
/// a temporary table, else as a number.
fn of_temporary(sql: &str, ours: &Answer, theirs: &Answer, sides: &mut [Side; 2]) -> Option<Known> {
    let (Outcome::Rows(ours), Outcome::Rows(theirs)) = (&ours.outcome, &theirs.outcome) else { return None };
    let alike = ["MIN(", "MAX("].iter().any(|function| sql.contains(function)) && differ_in_numbers(ours, theirs);
    if !alike {
        return None;
    }
    let plans = sides.each_mut().map(|side| explained(side, sql));
    let has_temporary = |plan: &Vec<Vec<String>>| plan.iter().flatten().any(|it| it.contains("Using temporary"));
    // The plans for a TEMPORARY table are its session's alone.
    let are_unseen = plans.iter().all(Vec::is_empty);
    let reason = "the server shows a least BIT as bytes and a least YEAR with four digits if its plan has a \
                  temporary table, else as a number";
    (are_unseen || has_temporary(&plans[0]) != has_temporary(&plans[1])).then_some(Known { reason, parts: false })
}

/// True if the rows are the same, in whatever order, if bytes are taken for the number that they
/// make, and the year 0000 for 0.
fn differ_in_numbers(ours: &[Vec<String>], theirs: &[Vec<String>]) -> bool {
    let is_number = |a: &String, b: &String| is_bits(a, b) || (a == "0" && b == "0000");
    let mut left: Vec<_> = theirs.iter().collect();
    let finds = |row: &Vec<String>| {
        let alike = |other: &&Vec<String>| {
            row.len() == other.len()
                && row.iter().zip(other.iter()).all(|(a, b)| a == b || is_number(a, b) || is_number(b, a))
        };
        left.iter().position(alike).map(|at| left.swap_remove(at)).is_some()
    };
    ours.len() == theirs.len() && ours.iter().all(finds)
}

/// True if the bytes of the number are shown so.
fn is_bits(number: &str, bytes: &str) -> bool {
    let Ok(number) = number.parse::<u64>() else { return false };
    let all = number.to_be_bytes();
    let needed = number.checked_ilog2().map_or(1, |bit| bit as usize / 8 + 1);
    (needed..=all.len()).any(|count| shown(Some(&Value::Bytes(all[all.len() - count..].to_vec()))) == bytes)
}

/// A row that several keys refuse, since it is there twice or refers to nothing, of which InnoDB
/// looks at another one first.
fn of_keys(sql: &str, ours: &Answer, theirs: &Answer, innodb: &mut Side) -> Option<Known> {
    let changes_what_is_there = sql.contains("ON DUPLICATE KEY UPDATE") || sql.starts_with("REPLACE");
    let only_names = [ours, theirs].into_iter().all(is_of_key) && without_keys(ours) == without_keys(theirs);
    let of_reference = [ours, theirs].into_iter().any(|answer| says(answer, 1452));
    if !(changes_what_is_there || only_names) || !looks_at_keys_in_another_order(sql, of_reference, innodb) {
        return None;
    }
    let reason = "InnoDB looks at keys, and at what they refer to, in the order in which they came to the table";
    Some(Known { reason, parts: !only_names })
}

/// True if a key refuses a row.
fn is_of_key(answer: &Answer) -> bool {
    says(answer, 1062) || says(answer, 1452)
}

/// True if it fails or warns with the error.
fn says(answer: &Answer, code: u16) -> bool {
    let name = format!(" {code}: ");
    answer.code() == code || answer.warnings.iter().any(|warning| warning.contains(&name))
}

/// The answer without what a key refuses a row for.
fn without_keys(answer: &Answer) -> Answer {
    let masked = |text: &String| {
        let refusal = [" 1062: ", " 1452: "].iter().find_map(|code| text.split_once(code));
        refusal.map_or_else(|| text.clone(), |(level, _)| format!("{level}: a key refuses the row"))
    };
    let outcome = match &answer.outcome {
        Outcome::Refused(1062 | 1452, _) => Outcome::Refused(0, String::new()),
        other => other.clone(),
    };
    Answer { outcome, warnings: answer.warnings.iter().map(masked).collect() }
}

/// True if InnoDB has the unique keys, or all keys, of a table of the statement in another order
/// than its definition.
fn looks_at_keys_in_another_order(sql: &str, all: bool, innodb: &mut Side) -> bool {
    let schema = schema(innodb.engine);
    let most = u8::from(all);
    let defined = innodb
        .look(&format!(
            "SELECT table_name, index_name FROM information_schema.statistics \
         WHERE table_schema = '{schema}' AND non_unique <= {most} AND seq_in_index = 1"
        ))
        .into_rows();
    let kept = innodb
        .look(&format!(
            "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(t.name, '/', -1), '#', 1), i.name \
         FROM information_schema.innodb_sys_tables t JOIN information_schema.innodb_sys_indexes i USING (table_id) \
         WHERE t.name LIKE '{schema}/%' ORDER BY t.name, i.index_id"
        ))
        .into_rows();
    kept.chunk_by(|a, b| a[0] == b[0]).filter(|keys| names(sql, &keys[0][0])).any(|keys| {
        let of_definition: Vec<_> = defined.iter().filter(|key| key[0] == keys[0][0]).collect();
        let unique: Vec<_> = keys.iter().filter(|key| of_definition.contains(key)).collect();
        // A partitioned table has the keys once in each partition.
        unique.iter().zip(&of_definition).any(|(kept, defined)| *kept != *defined)
    })
}

/// A row that refers to nothing was there before, and is changed in columns that refer to nothing.
fn of_orphans(sql: &str, ours: &Answer, theirs: &Answer, sides: &mut [Side; 2]) -> Option<Known> {
    let Outcome::Refused(1452, text) = &theirs.outcome else { return None };
    if !ours.is_success() || (sql.starts_with("INSERT") && !sql.contains("ON DUPLICATE KEY UPDATE")) {
        return None;
    }
    let [child, column, parent, to] = reference(text)?;
    let [ours, theirs] = sides.each_mut().map(|side| {
        let schema = schema(side.engine);
        side.look(&format!(
            "SELECT c.{column} FROM {schema}.{child} c WHERE c.{column} IS NOT NULL \
             AND NOT EXISTS (SELECT * FROM {schema}.{parent} p WHERE p.{to} = c.{column}) ORDER BY c.{column}"
        ))
        .into_rows()
    });
    let reason = "a row that refers to nothing is not looked at again while it refers to the same";
    (!ours.is_empty() && ours == theirs).then_some(Known { reason, parts: true })
}

/// Child, column, parent and its column, of a key over one column that an error names.
fn reference(text: &str) -> Option<[&str; 4]> {
    let (_, rest) = text.split_once("fails (`$ENGINE`.`")?;
    let (child, rest) = rest.split_once("`, CONSTRAINT")?;
    let (_, rest) = rest.split_once("FOREIGN KEY (`")?;
    let (column, rest) = rest.split_once("`) REFERENCES `")?;
    let (parent, rest) = rest.split_once("` (`")?;
    let (to, _) = rest.split_once("`)")?;
    Some([child, column, parent, to])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(warnings: &[&str]) -> Answer {
        Answer {
            outcome: Outcome::Done(1, String::new()),
            warnings: warnings.iter().copied().map(String::from).collect(),
        }
    }

    #[test]
    fn answers_that_name_other_keys_are_alike_without_them_and_no_others() {
        let [a, b] =
            ["Warning 1062: Duplicate entry 'a' for key 'k8'", "Warning 1062: Duplicate entry '5' for key 'k9'"];
        let reference = "Warning 1452: Cannot add or update a child row: a foreign key constraint fails (`t`)";
        assert!(is_of_key(&warned(&[a])) && !is_of_key(&warned(&["Warning 1364: no default"])));
        assert_eq!(without_keys(&warned(&[a])), without_keys(&warned(&[b])));
        assert_eq!(without_keys(&warned(&[a])), without_keys(&warned(&[reference])));
        assert_ne!(without_keys(&warned(&[a])), without_keys(&warned(&[])));
        assert_ne!(without_keys(&warned(&[a])), without_keys(&warned(&["Warning 1364: no default"])));
    }

    #[test]
    fn fewer_rows_are_met_by_what_is_done_or_looked_at() {
        let done = |rows, info: &str| Answer { outcome: Outcome::Done(rows, info.into()), warnings: Vec::new() };
        let records = |rows, records| done(rows, &format!("Records: {records}  Duplicates: 0  Warnings: 0"));
        assert!(has_met_fewer(&records(0, 3), &records(0, 0)));
        assert!(has_met_fewer(&done(3, ""), &done(2, "")));
        assert!(!has_met_fewer(&done(2, ""), &done(3, "")));
        assert!(!has_met_fewer(&records(1, 3), &records(2, 2)), "more are done");
        assert!(!has_met_fewer(&records(1, 3), &records(1, 3)));
    }

    #[test]
    fn bytes_are_alike_the_number_that_they_make_and_no_other() {
        let rows = |values: &[[&str; 2]]| values.iter().map(|row| row.map(String::from).to_vec()).collect::<Vec<_>>();
        let numbers = rows(&[["a", "0"], ["b", "51"], ["c", "511"]]);
        assert!(differ_in_numbers(&numbers, &rows(&[["b", "3"], ["a", r"\0"], ["c", r"\x01\xff"]])));
        assert!(!differ_in_numbers(&numbers, &rows(&[["b", "4"], ["a", r"\0"], ["c", r"\x01\xff"]])), "another number");
        assert!(!differ_in_numbers(&numbers, &rows(&[["a", "3"], ["b", r"\0"], ["c", r"\x01\xff"]])), "another row");
        assert!(!differ_in_numbers(&numbers, &numbers[..2]), "a row less");
    }

    #[test]
    fn the_year_0000_is_alike_0_and_no_other_year_is() {
        let row = |year: &str| vec![vec!["ss".to_owned(), year.to_owned()]];
        assert!(differ_in_numbers(&row("0000"), &row("0")) && differ_in_numbers(&row("0"), &row("0000")));
        assert!(!differ_in_numbers(&row("0000"), &row("2000")));
        assert!(!differ_in_numbers(&row("0001"), &row("1")));
    }

    #[test]
    fn constants_are_those_that_the_column_is_compared_with() {
        let sql =
            "SELECT * FROM t1 a WHERE a.c2 = -3.333 AND 1.25 = c2 AND c21 = 7 AND c2 < 8 AND c2 = '2.5 x' AND c2 = c3";
        assert_eq!(constants_of(sql, "c2"), ["-3.333", "1.25", "'2.5 x'"]);
        assert!(constants_of(sql, "c3").is_empty());
    }

    #[test]
    fn an_error_names_what_a_row_refers_to() {
        let text = "Cannot add or update a child row: a foreign key constraint fails (`$ENGINE`.`t8`, \
                    CONSTRAINT `f7` FOREIGN KEY (`c2`) REFERENCES `t1` (`id`) ON DELETE CASCADE)";
        assert_eq!(reference(text), Some(["t8", "c2", "t1", "id"]));
        assert_eq!(reference("Duplicate entry '1' for key 'k1'"), None);
    }
}
