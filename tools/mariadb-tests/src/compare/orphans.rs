//! Rows whose parents are not there. Wherever a scenario ends, this engine has none, unless a
//! statement was said without checks of FOREIGN KEYs, or InnoDB has one for the same FOREIGN KEY:
//! where ALTER TABLE makes a column NOT NULL, 0 replaces NULL in both engines, without a check.

use std::collections::BTreeMap;

use super::answer::{Answer, Outcome};
use super::script::schema;
use super::sessions::Side;

/// A constraint, its table, and the table that it refers to.
type Reference = [String; 3];

/// The first question for such rows that finds some here and none in InnoDB, if there is one, and
/// its answer.
pub fn find([side, innodb]: &mut [Side; 2]) -> Option<(String, Answer)> {
    let (schema, theirs) = (schema(side.engine), schema(innodb.engine));
    let columns = format!(
        "SELECT constraint_name, table_name, referenced_table_name, column_name, referenced_column_name \
         FROM information_schema.key_column_usage WHERE table_schema = '{schema}' \
         AND referenced_table_name IS NOT NULL ORDER BY table_name, constraint_name, ordinal_position"
    );
    let references = references(side.look(&columns).into_rows());
    references.iter().find_map(|(reference, columns)| {
        let asked = question(&schema, reference, columns);
        let answer = side.look(&asked);
        let is_ours_alone = has_some(&answer) && !has_some(&innodb.look(&question(&theirs, reference, columns)));
        (is_ours_alone || answer.is_lost()).then_some((asked, answer))
    })
}

/// True if an answer counts rows.
fn has_some(answer: &Answer) -> bool {
    matches!(&answer.outcome, Outcome::Rows(rows) if rows.iter().flatten().any(|count| count != "0"))
}

/// The columns of each reference, and those that they refer to, from one row for each column.
fn references(rows: Vec<Vec<String>>) -> BTreeMap<Reference, Vec<[String; 2]>> {
    let mut references: BTreeMap<Reference, Vec<[String; 2]>> = BTreeMap::new();
    for row in rows {
        let Ok([name, table, parent, column, other]) = <[String; 5]>::try_from(row) else { continue };
        references.entry([name, table, parent]).or_default().push([column, other]);
    }
    references
}

/// How many rows refer to nothing. One with a NULL among its columns does not refer.
fn question(schema: &str, [_, table, parent]: &Reference, columns: &[[String; 2]]) -> String {
    let refers: Vec<_> = columns.iter().map(|[column, _]| format!("c.`{column}` IS NOT NULL")).collect();
    let finds: Vec<_> = columns.iter().map(|[column, other]| format!("p.`{other}` = c.`{column}`")).collect();
    format!(
        "SELECT COUNT(*) FROM {schema}.`{table}` c WHERE {} \
         AND NOT EXISTS (SELECT * FROM {schema}.`{parent}` p WHERE {})",
        refers.join(" AND "),
        finds.join(" AND ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_refers_by_all_columns_of_a_reference() {
        let row = |words: &str| words.split(' ').map(String::from).collect::<Vec<_>>();
        let references = references(vec![row("r1 c p a x"), row("r1 c p b y"), row("r2 c c a id")]);
        let questions: Vec<_> = references.iter().map(|(of, columns)| question("s", of, columns)).collect();
        let both = "SELECT COUNT(*) FROM s.`c` c WHERE c.`a` IS NOT NULL AND c.`b` IS NOT NULL \
                    AND NOT EXISTS (SELECT * FROM s.`p` p WHERE p.`x` = c.`a` AND p.`y` = c.`b`)";
        assert_eq!(questions.len(), 2);
        assert_eq!(questions[0], both);
    }
}
