//! A reference in a page of a file that was not recovered may lead to a chain that was freed since,
//! and whose pages have another use: pages that are newer than the reference are not read as its
//! value.

use holdfast_base::PageNo;
use holdfast_pool::AccessKind;
use holdfast_tree::overflow::{read_chain, read_chain_of, release_chain, write_chain};
use holdfast_wal::SpaceClass;

use crate::common::{Bed, INDEX, Setup};

#[test]
fn a_chain_that_is_newer_than_the_reference() {
    for pages in [1, 3] {
        let bed = Bed::new(Setup::default());
        let acc = bed.store.pool().access(AccessKind::Point);
        let value = |byte: u8| vec![byte; pages * 3_000];
        let old = write_chain(&bed.space, INDEX, &value(1), PageNo(0), &acc).unwrap();
        let upto = bed.store.wal().next_lsn();
        let mut read = Vec::new();
        read_chain_of(&bed.space, INDEX, old, upto, &acc, &mut read).unwrap();
        assert_eq!(read, value(1));
        release_chain(&bed.space, INDEX, old, &acc, SpaceClass::User).unwrap();
        let new = write_chain(&bed.space, INDEX, &value(2), PageNo(0), &acc).unwrap();
        assert_eq!(new, old, "the pages are used again");
        read.clear();
        read_chain(&bed.space, INDEX, old, &acc, &mut read).unwrap();
        assert_eq!(read, value(2));
        let error = read_chain_of(&bed.space, INDEX, old, upto, &acc, &mut read).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("newer"), "{error}");
    }
}
