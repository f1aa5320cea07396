//! Several threads move money between accounts, each transfer a transaction of its own, with
//! retries.
//!
//! ```sh
//! cargo run --release -p holdfast-engine --example concurrent_writers
//! ```

use holdfast::{Database, Result, TableDefinition, WaitMode};

const ACCOUNTS: TableDefinition<u32, i64> = TableDefinition::new("accounts");
const NUMBER_OF_ACCOUNTS: u32 = 16;
const THREADS: u32 = 4;
const TRANSFERS: u32 = 200;

/// Moves `amount`; whether there was enough. Runs again from the start when another transfer got in
/// the way.
fn transfer(db: &Database, from: u32, to: u32, amount: i64) -> Result<bool> {
    db.transact(|txn| {
        let accounts = txn.open_table(&ACCOUNTS)?;
        let balance = accounts.get_for_update(from, WaitMode::Wait)?.unwrap_or(0);
        if balance < amount {
            return Ok(false);
        }
        let other = accounts.get_for_update(to, WaitMode::Wait)?.unwrap_or(0);
        accounts.update(from, balance - amount)?;
        accounts.update(to, other + amount)?;
        Ok(true)
    })
}

fn total(db: &Database) -> Result<i64> {
    let txn = db.begin_read()?;
    txn.open_table(&ACCOUNTS)?.iter()?.map(|row| row.map(|(_, balance)| balance)).sum()
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    db.transact(|txn| {
        let accounts = txn.open_table(&ACCOUNTS)?;
        (0..NUMBER_OF_ACCOUNTS).try_for_each(|id| accounts.insert(id, 1_000))
    })?;

    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                let db = db.clone();
                scope.spawn(move || -> Result<()> {
                    for i in 0..TRANSFERS {
                        let from = (i * 7 + worker * 3) % NUMBER_OF_ACCOUNTS;
                        let to = (from + 1 + i % (NUMBER_OF_ACCOUNTS - 1)) % NUMBER_OF_ACCOUNTS;
                        transfer(&db, from, to, i64::from(i % 50))?;
                        // A snapshot never sees half a transfer.
                        if i % 50 == 0 {
                            assert_eq!(total(&db)?, i64::from(NUMBER_OF_ACCOUNTS) * 1_000);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;

    assert_eq!(total(&db)?, i64::from(NUMBER_OF_ACCOUNTS) * 1_000);
    println!("{} transfers, and no money was lost", THREADS * TRANSFERS);
    Ok(())
}
