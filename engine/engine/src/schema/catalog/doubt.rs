//! Records of tables that contradict each other, or the numbers that come next.
//!
//! A number in a record that was damaged may be another table's: the file of a space, or an index.
//! Then the files decide: the roots that a record names say of which index they are. A record that
//! they do not bear out becomes an unreadable one, so that the damage disables one table and not
//! the one whose number it hit.

use holdfast_base::page::{PageHeader, PageType};
use holdfast_base::{HashMap, IndexId, PageNo, SpaceId};

use super::{NextIds, TableRecord};

/// The positions of the records with a number that another record has, too, or that was never given
/// out.
pub(crate) fn in_doubt(records: &[(String, TableRecord)], next: NextIds) -> Vec<usize> {
    let mut spaces: HashMap<SpaceId, u32> = HashMap::default();
    let mut indexes: HashMap<IndexId, u32> = HashMap::default();
    let readable = || records.iter().map(|(_, record)| record).enumerate().filter(|(_, record)| record.is_readable());
    for (_, record) in readable() {
        *spaces.entry(record.space).or_default() += 1;
        record.index_ids().for_each(|id| *indexes.entry(id).or_default() += 1);
    }
    let is_odd = |record: &TableRecord| {
        spaces[&record.space] > 1 || record.index_ids().any(|id| indexes[&id] > 1) || !next.are_above([record])
    };
    readable().filter(|(_, record)| is_odd(record)).map(|(at, _)| at).collect()
}

/// True if the pages of its file bear a record out. `page` reads one.
pub(crate) fn is_borne_out(record: &TableRecord, page: &mut dyn FnMut(PageNo) -> Option<PageHeader>) -> bool {
    let mut is_root = |id: IndexId, root: PageNo| {
        page(root).is_some_and(|header| header.page_type == PageType::Tree && header.index == id)
    };
    is_root(record.clustered, record.root) && record.indexes.iter().all(|index| is_root(index.id, index.root))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(space: u32, index: u32) -> (String, TableRecord) {
        let (space, clustered) = (SpaceId(space), IndexId(index));
        (format!("t{space}"), TableRecord { space, clustered, root: PageNo(2), ..TableRecord::unreadable() })
    }

    #[test]
    fn numbers_that_two_tables_have_and_those_of_nobody_are_in_doubt() {
        let next = NextIds { space: 32, granted: 32, index: 100, table: 5 };
        let sound = vec![record(16, 20), record(17, 21)];
        assert!(in_doubt(&sound, next).is_empty());
        let mut records = [sound, vec![record(18, 20), record(17, 22), record(40, 23), record(19, 200)]].concat();
        assert_eq!(in_doubt(&records, next), [0, 1, 2, 3, 4, 5]);
        records.push((String::new(), TableRecord::unreadable()));
        assert_eq!(in_doubt(&records, next).len(), 6);
    }
}
