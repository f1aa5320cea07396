//! The numbers that a table counts up were those of a `RawDatabase`: two of them over one database
//! gave the same numbers out.

use holdfast::Database;
use holdfast::raw::{Lifetime, RawDatabase};

#[test]
fn and_give_out_no_number_twice() {
    let database = Database::in_memory().unwrap();
    let [one, other] = [(); 2].map(|()| RawDatabase::new(database.clone()));
    one.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
    let [first, second] = [&one, &other].map(|raw| raw.open_table("t").unwrap());
    let taken: Vec<u64> = (0..10).flat_map(|_| [&first, &second].map(|table| table.take_mark(0, 1).unwrap())).collect();
    assert_eq!(taken, (1..=20).collect::<Vec<_>>());
    second.raise_mark(0, 100, 0).unwrap();
    assert_eq!(first.mark(0), 100);
}
