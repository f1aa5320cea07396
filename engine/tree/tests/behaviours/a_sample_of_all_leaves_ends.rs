//! A sample makes a look for each leaf that is asked for. Of a caller that wants all leaves,
//! however many there are, it looked for as many as the number says, and that was without an end.

use std::collections::BTreeSet;

use crate::common::{Bed, Setup, put};

#[test]
fn and_shows_every_key() {
    const KEYS: u32 = 20_000;
    let bed = Bed::new(Setup { frames: 2_000, ..Setup::default() });
    let tree = bed.new_tree();
    let acc = bed.access();
    for n in 0..KEYS {
        put(&tree, &n.to_be_bytes(), &[3; 200], &acc).unwrap();
    }
    let mut seen = BTreeSet::new();
    tree.sample(usize::MAX, &acc, &mut |keys| seen.extend(keys.iter().cloned())).unwrap();
    assert_eq!(seen.len(), KEYS as usize);
    let mut leaves = 0;
    tree.sample(10, &acc, &mut |_| leaves += 1).unwrap();
    assert_eq!(leaves, 10);
}
