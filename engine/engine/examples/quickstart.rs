//! Creates a database, writes and reads a few rows, opens it again.
//!
//! ```sh
//! cargo run -p holdfast-engine --example quickstart
//! ```

use holdfast::{Database, Result, TableDefinition};

const VISITS: TableDefinition<&str, u64> = TableDefinition::new("visits");

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");

    let db = Database::create(&path)?;
    let txn = db.begin_write()?;
    {
        let visits = txn.open_table(&VISITS)?;
        visits.insert("home", 1)?;
        visits.insert("about", 7)?;
        visits.upsert("home", 2)?;
    }
    txn.commit()?;

    // A transaction that is dropped without a commit leaves nothing behind.
    db.begin_write()?.open_table(&VISITS)?.delete("home")?;
    db.close()?;

    let db = Database::open(&path)?;
    let txn = db.begin_read()?;
    let visits = txn.open_table(&VISITS)?;
    assert_eq!(visits.get("home")?, Some(2));
    for row in visits.range("a"..)? {
        let (page, count) = row?;
        println!("{page}: {count}");
    }
    assert_eq!(visits.last()?, Some(("home".to_string(), 2)));
    Ok(())
}
