//! What an ALTER TABLE leaves as it was: both engines are asked before and after it.

use std::collections::BTreeSet;

use super::super::pairs::Engine;
use super::answer::Answer;
use super::differences::mentions_insufficient;
use super::script::{names, schema};
use super::sessions::Side;

type Rows = Vec<Vec<String>>;

/// What is there beside rows and definitions.
pub struct Kept {
    /// The numbers that the next rows get, of each engine.
    numbers: [Rows; 2],
    /// The numbers of each engine's tables and of their indexes.
    ids: [Rows; 2],
}

impl Kept {
    /// `counts`: whether there are numbers to look for.
    pub fn of(sides: &mut [Side; 2], counts: bool) -> Kept {
        let ids = sides.each_mut().map(ids);
        let numbers = sides.each_mut().map(|side| if counts { numbers(side) } else { Rows::new() });
        Kept { numbers, ids }
    }

    /// True if only InnoDB counts on from another number than before.
    pub fn number_is_forgotten(&self, after: &Kept) -> bool {
        let [ours, theirs] = &self.numbers;
        ours == theirs && after.numbers[0] == *ours && after.numbers[1] != *theirs
    }

    /// True if the numbers were alike, and a partition that became a table has a higher one with
    /// this engine.
    pub fn number_came_with_partition(&self, after: &Kept) -> bool {
        let [ours, theirs] = &self.numbers;
        ours == theirs && is_lower(&after.numbers[1], &after.numbers[0])
    }

    /// True if this engine has the same tables and indexes: what changed does not concern what is
    /// stored.
    pub fn has_same_tables(&self, after: &Kept) -> bool {
        !self.ids[0].is_empty() && self.ids[0] == after.ids[0]
    }

    /// True if only InnoDB has the same tables: this engine has copied one.
    pub fn has_copied_here(&self, after: &Kept) -> bool {
        let [ours, theirs] = [0, 1].map(|side| (tables(&self.ids[side]), tables(&after.ids[side])));
        ours.0 != ours.1 && !theirs.0.is_empty() && theirs.0 == theirs.1
    }
}

/// The numbers of the tables among those of tables and indexes.
fn tables(ids: &Rows) -> BTreeSet<&String> {
    ids.iter().map(|row| &row[0]).collect()
}

fn ids(side: &mut Side) -> Rows {
    let schema = schema(side.engine);
    let (listing, of_schema) = match side.engine {
        Engine::Holdfast => ("HOLDFAST", format!("SCHEMA = '{schema}'")),
        Engine::InnoDb => ("INNODB", format!("NAME LIKE '{schema}/%'")),
    };
    let ids = format!(
        "SELECT TABLE_ID, INDEX_ID FROM information_schema.{listing}_SYS_TABLES t \
         JOIN information_schema.{listing}_SYS_INDEXES i USING (TABLE_ID) WHERE t.{of_schema} ORDER BY 1, 2"
    );
    side.look(&ids).into_rows()
}

fn numbers(side: &mut Side) -> Rows {
    let schema = schema(side.engine);
    let numbers = format!(
        "SELECT table_name, auto_increment FROM information_schema.tables \
         WHERE table_schema = '{schema}' AND auto_increment IS NOT NULL ORDER BY table_name"
    );
    side.look(&numbers).into_rows()
}

/// True if InnoDB alone counts on from a lower number in a table with partitions: tables were
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

/// True if some numbers are lower, and none is higher.
fn is_lower(these: &Rows, others: &Rows) -> bool {
    let number = |row: &[String]| row[1].parse::<u128>().ok();
    let alike = |(this, other): (&Vec<String>, &Vec<String>)| this[0] == other[0] && number(this) <= number(other);
    these != others && these.len() == others.len() && these.iter().zip(others).all(alike)
}

/// Tables that an ALTER TABLE has changed in one way with this engine and in another with InnoDB.
#[derive(Debug, Default)]
pub struct Altered {
    at_once: Vec<String>,
    copied_here: Vec<String>,
}

impl Altered {
    #[cfg(test)]
    pub fn of(at_once: &[&str], copied_here: &[&str]) -> Altered {
        let [at_once, copied_here] =
            [at_once, copied_here].map(|tables| tables.iter().copied().map(String::from).collect());
        Altered { at_once, copied_here }
    }

    /// The statement has been carried out.
    pub fn note(&mut self, sql: &str, before: &Kept, after: &Kept) {
        let table = sql.split(' ').nth(2).map(String::from);
        if before.has_same_tables(after) {
            self.at_once.extend(table);
        } else if before.has_copied_here(after) {
            self.copied_here.extend(table);
        }
    }

    /// True if the statement names a table that this engine has altered at once, so that older
    /// snapshots read it.
    pub fn at_once(&self, sql: &str) -> bool {
        self.at_once.iter().any(|table| names(sql, table))
    }

    /// True if it names one that this engine has copied and InnoDB has not, so that this engine
    /// refuses it to older snapshots.
    pub fn copied_here(&self, sql: &str) -> bool {
        self.copied_here.iter().any(|table| names(sql, table))
    }
}

/// Whether only one engine refuses a snapshot that is older than a change of columns.
pub fn of_age(sql: &str, ours: &Answer, theirs: &Answer, altered: &Altered) -> Option<&'static str> {
    if ours.is_success() && is_too_old(theirs) && altered.at_once(sql) {
        return Some(
            "a table that was altered at once, without a new index, is the same to older snapshots; InnoDB refuses it",
        );
    }
    let refuses_here = ours.code() == 1412 && theirs.is_success();
    (refuses_here && altered.copied_here(sql))
        .then_some("a copy is younger than older snapshots; InnoDB has changed the table in place, and reads it")
}

/// Whether InnoDB alone asks how old a snapshot is that was taken at SERIALIZABLE.
pub fn of_idle_snapshot(ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    (ours.code() != 1412 && is_too_old(theirs))
        .then_some("InnoDB takes a snapshot at SERIALIZABLE, where reads lock, and refuses tables that are younger")
}

/// True if InnoDB refuses a snapshot that is too old.
fn is_too_old(theirs: &Answer) -> bool {
    matches!(theirs.code(), 1412 | 159) && mentions_insufficient(theirs)
}

#[cfg(test)]
mod tests {
    use super::super::answer::Outcome;
    use super::*;

    fn kept(ours: &str, theirs: &str, ids: [&str; 2]) -> Kept {
        let row = |value: &str| vec![vec!["t".to_owned(), value.to_owned()]];
        let id = |value: &str| vec![vec![value.to_owned(), "9".to_owned()]];
        Kept { numbers: [row(ours), row(theirs)], ids: ids.map(id) }
    }

    #[test]
    fn a_number_is_forgotten_that_innodb_alone_has_no_more() {
        let before = kept("21", "21", ["1", "1"]);
        assert!(before.number_is_forgotten(&kept("21", "19", ["1", "1"])));
        assert!(before.number_is_forgotten(&kept("21", "22", ["1", "1"])));
        assert!(!before.number_is_forgotten(&kept("21", "21", ["1", "1"])));
        assert!(!before.number_is_forgotten(&kept("19", "21", ["1", "1"])), "this engine forgets it");
        assert!(!before.number_is_forgotten(&kept("19", "19", ["1", "1"])), "both do");
        assert!(
            !kept("20", "21", ["1", "1"]).number_is_forgotten(&kept("20", "19", ["1", "1"])),
            "they differed before"
        );
    }

    #[test]
    fn a_partition_may_have_a_higher_number_with_this_engine_alone() {
        let before = kept("1", "1", ["1", "1"]);
        assert!(before.number_came_with_partition(&kept("3", "1", ["1", "1"])));
        assert!(!before.number_came_with_partition(&kept("1", "3", ["1", "1"])), "this engine has lost it");
        assert!(!before.number_came_with_partition(&kept("3", "3", ["1", "1"])));
        assert!(
            !kept("3", "1", ["1", "1"]).number_came_with_partition(&kept("3", "1", ["1", "1"])),
            "they differed before"
        );
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
        let [before, same] = [(); 2].map(|()| kept("1", "1", ["1", "7"]));
        let [copied_here, copied, there] = [["2", "7"], ["2", "8"], ["1", "8"]].map(|ids| kept("1", "1", ids));
        let sql = "ALTER TABLE t5 ADD COLUMN c8 INT FIRST";
        let noted = |after: &Kept| {
            let mut altered = Altered::default();
            altered.note(sql, &before, after);
            let read = "SELECT * FROM t1 a JOIN t5 b";
            assert!(!altered.at_once("SELECT * FROM t1, t55") && !altered.copied_here("SELECT * FROM t1, t55"));
            (altered.at_once(read), altered.copied_here(read))
        };
        assert_eq!(noted(&same), (true, false));
        assert_eq!(noted(&there), (true, false));
        assert_eq!(noted(&copied_here), (false, true));
        assert_eq!(noted(&copied), (false, false));
        let mut another_index = kept("1", "1", ["2", "7"]);
        another_index.ids[1].push(vec!["7".into(), "10".into()]);
        assert_eq!(noted(&another_index), (false, true));
    }

    #[test]
    fn only_innodb_may_refuse_a_table_that_was_altered_at_once_and_this_engine_one_that_it_has_copied() {
        let done = Answer { outcome: Outcome::Rows(Vec::new()), warnings: Vec::new() };
        let mut old = Answer { outcome: Outcome::Refused(1412, "Table definition has changed".into()), ..done.clone() };
        let altered = Altered::of(&["t"], &["v"]);
        assert!(of_age("SELECT * FROM t", &done, &old, &altered).is_none());
        old.warnings.push("Warning 159: $ENGINE: insufficient history for index 0".into());
        assert!(of_age("SELECT * FROM t", &done, &old, &altered).is_some());
        assert!(of_age("SELECT * FROM u", &done, &old, &altered).is_none());
        assert!(of_age("SELECT * FROM t", &old, &done, &altered).is_none());
        assert!(of_age("SELECT * FROM v", &old, &done, &altered).is_some());
        assert!(of_age("SELECT * FROM v", &done, &old, &altered).is_none());
        assert!(of_idle_snapshot(&done, &old).is_some());
        assert!(of_idle_snapshot(&old, &old).is_none());
        assert!(of_idle_snapshot(&done, &done).is_none());
    }
}
