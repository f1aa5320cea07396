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
    fn tables_are_the_same_that_have_their_ids() {
        let before = kept("1", "1", "7");
        assert!(before.has_same_tables(&kept("1", "1", "7")) && !before.has_same_tables(&kept("1", "1", "8")));
        let mut altered = AlteredAtOnce::default();
        altered.note("ALTER TABLE t5 ADD COLUMN c8 INT FIRST");
        assert!(altered.is_named("SELECT * FROM t1 a JOIN t5 b") && !altered.is_named("SELECT * FROM t1, t55"));
    }
}
