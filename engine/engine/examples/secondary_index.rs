//! A table of people with an index on the city and a unique one on the e-mail address.
//!
//! ```sh
//! cargo run -p holdfast-engine --example secondary_index
//! ```

use holdfast::{Database, Error, IndexDefinition, Result, TableDefinition};

/// Name, city, e-mail address.
type Person = (&'static str, &'static str, &'static str);
type PersonOwned = (String, String, String);

const BY_CITY: IndexDefinition<u64, Person, &str> =
    IndexDefinition::new("by_city", |_: &u64, person: &PersonOwned, keys| keys.push(&person.1));
const BY_EMAIL: IndexDefinition<u64, Person, &str> =
    IndexDefinition::unique("by_email", |_: &u64, person: &PersonOwned, keys| keys.push(&person.2));

fn people() -> TableDefinition<u64, Person> {
    TableDefinition::new("people").index(&BY_CITY).index(&BY_EMAIL)
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    db.transact(|txn| {
        let people = txn.open_table(&people())?;
        people.insert(1, ("Ada", "London", "ada@example.org"))?;
        people.insert(2, ("Grace", "New York", "grace@example.org"))?;
        people.insert(3, ("Alan", "London", "alan@example.org"))?;

        // A unique index refuses the row, and the statement leaves nothing behind.
        let again = people.insert(4, ("Eve", "Paris", "ada@example.org"));
        assert!(matches!(again, Err(Error::DuplicateKey)));
        assert_eq!(people.get(4)?, None);

        people.update(3, ("Alan", "Cambridge", "alan@example.org"))?;
        Ok(())
    })?;

    let txn = db.begin_read()?;
    let people = txn.open_table(&people())?;
    let by_city = people.index(&BY_CITY)?;

    // Rows through the index.
    let in_london = by_city.range("London"..="London")?.collect::<Result<Vec<_>>>()?;
    assert_eq!(in_london.len(), 1);
    println!("in London: {}", in_london[0].2.0);

    // Keys alone, from the last city to the first: answered without a look at the rows.
    let cities = by_city.keys(..)?.rev().map(|e| e.map(|(city, _)| city)).collect::<Result<Vec<_>>>()?;
    assert_eq!(cities, ["New York", "London", "Cambridge"]);

    let (id, (name, ..)) = people.index(&BY_EMAIL)?.get("grace@example.org")?.expect("the row was inserted");
    assert_eq!((id, name.as_str()), (2, "Grace"));
    Ok(())
}
