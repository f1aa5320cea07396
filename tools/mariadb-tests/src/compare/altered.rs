//! What an ALTER TABLE leaves as it was: both engines are asked before and after it.

use super::script::{names, schema};
use super::sessions::Side;

type Rows = Vec<Vec<String>>;

/// What is there beside rows and definitions.
pub struct Kept {
    /// The numbers that the next rows get, of each engine.
    numbers: [Rows; 2],
    /// The numbers of this engine's tables and of their indexes.
    ids: Rows,
}

impl Kept {
    /// `counts`: whether there are numbers to look for.
    pub fn of(sides: &mut [Side; 2], counts: bool) -> Kept {
        let ids = format!(
            "SELECT t.TABLE_ID, i.INDEX_ID FROM information_schema.HOLDFAST_SYS_TABLES t \
             JOIN information_schema.HOLDFAST_SYS_INDEXES i USING (TABLE_ID) WHERE t.SCHEMA = '{}' ORDER BY 1, 2",
            schema(sides[0].engine)
        );
        let ids = sides[0].look(&ids).into_rows();
        let numbers = sides.each_mut().map(|side| if counts { numbers(side) } else { Rows::new() });
        Kept { numbers, ids }
    }

    /// Whether only InnoDB counts on from another number than before.
    pub fn number_is_forgotten(&self, after: &Kept) -> bool {
        let [ours, theirs] = &self.numbers;
        ours == theirs && after.numbers[0] == *ours && after.numbers[1] != *theirs
    }

    /// Whether the numbers were alike, and a partition that became a table has a higher one with
    /// this engine.
    pub fn number_came_with_partition(&self, after: &Kept) -> bool {
        let [ours, theirs] = &self.numbers;
        ours == theirs && is_lower(&after.numbers[1], &after.numbers[0])
    }

    /// Whether this engine has the same tables and indexes: what changed does not concern what is
    /// stored.
    pub fn has_same_tables(&self, after: &Kept) -> bool {
        !self.ids.is_empty() && self.ids == after.ids
    }
}

fn numbers(side: &mut Side) -> Rows {
    let schema = schema(side.engine);
    let numbers = format!(
        "SELECT table_name, auto_increment FROM information_schema.tables \
         WHERE table_schema = '{schema}' AND auto_increment IS NOT NULL ORDER BY table_name"
    );
    side.look(&numbers).into_rows()
}

/// Whether InnoDB alone counts on from a lower number in a table with partitions: tables were
/// opened anew, and both counted alike until then.
pub fn number_is_lost(sides: &mut [Side; 2]) -> bool {
    let [ours, theirs] = sides.each_mut().map(|side| {
        let numbers = format!(
            "SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = '{}' \
             AND create_options LIKE '%partitioned%' AND auto_increment IS NOT NULL ORDER BY table_name",
            schema(side.engine)
        );
        side.look(&numbers).into_rows()
    });
    is_lower(&theirs, &ours)
}

/// Whether some numbers are lower, and none is higher.
fn is_lower(these: &Rows, others: &Rows) -> bool {
    let number = |row: &[String]| row[1].parse::<u128>().ok();
    let alike = |(this, other): (&Vec<String>, &Vec<String>)| this[0] == other[0] && number(this) <= number(other);
    these != others && these.len() == others.len() && these.iter().zip(others).all(alike)
}

/// Tables that this engine has altered at once, so that older snapshots read them.
#[derive(Debug, Default)]
pub struct AlteredAtOnce(Vec<String>);

impl AlteredAtOnce {
    /// The statement has altered one.
    pub fn note(&mut self, sql: &str) {
        self.0.extend(sql.split(' ').nth(2).map(String::from));
    }

    /// Whether the statement names one.
    pub fn is_named(&self, sql: &str) -> bool {
        self.0.iter().any(|table| names(sql, table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(ours: &str, theirs: &str, id: &str) -> Kept {
        let row = |value: &str| vec![vec!["t".to_owned(), value.to_owned()]];
        Kept { numbers: [row(ours), row(theirs)], ids: row(id) }
    }

    #[test]
    fn a_number_is_forgotten_that_innodb_alone_has_no_more() {
        let before = kept("21", "21", "1");
        assert!(before.number_is_forgotten(&kept("21", "19", "1")));
        assert!(before.number_is_forgotten(&kept("21", "22", "1")));
        assert!(!before.number_is_forgotten(&kept("21", "21", "1")));
        assert!(!before.number_is_forgotten(&kept("19", "21", "1")), "this engine forgets it");
        assert!(!before.number_is_forgotten(&kept("19", "19", "1")), "both do");
        assert!(!kept("20", "21", "1").number_is_forgotten(&kept("20", "19", "1")), "they differed before");
    }

    #[test]
    fn a_partition_may_have_a_higher_number_with_this_engine_alone() {
        let before = kept("1", "1", "1");
        assert!(before.number_came_with_partition(&kept("3", "1", "1")));
        assert!(!before.number_came_with_partition(&kept("1", "3", "1")), "this engine has lost it");
        assert!(!before.number_came_with_partition(&kept("3", "3", "1")));
        assert!(!kept("3", "1", "1").number_came_with_partition(&kept("3", "1", "1")), "they differed before");
    }

    #[test]
    fn a_number_is_lost_that_is_lower_with_innodb_while_none_is_higher() {
        let rows = |numbers: [&str; 2]| {
            ["t", "u"].iter().zip(numbers).map(|(name, number)| vec![(*name).into(), number.into()]).collect::<Rows>()
        };
        assert!(is_lower(&rows(["9", "7"]), &rows(["10", "7"])));
        assert!(!is_lower(&rows(["9", "7"]), &rows(["9", "7"])));
        assert!(!is_lower(&rows(["10", "7"]), &rows(["9", "7"])), "this engine has lost it");
        assert!(!is_lower(&rows(["9", "8"]), &rows(["10", "7"])), "each has lost one");
    }

    #[test]
    fn tables_are_the_same_that_have_their_ids() {
        let before = kept("1", "1", "7");
        assert!(before.has_same_tables(&kept("1", "1", "7")) && !before.has_same_tables(&kept("1", "1", "8")));
        let mut altered = AlteredAtOnce::default();
        altered.note("ALTER TABLE t5 ADD COLUMN c8 INT FIRST");
        assert!(altered.is_named("SELECT * FROM t1 a JOIN t5 b") && !altered.is_named("SELECT * FROM t1, t55"));
    }
}
