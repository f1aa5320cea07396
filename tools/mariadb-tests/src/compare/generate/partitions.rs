//! Partitions that are changed, and exchanged with tables.

use holdfast_workload::rng::Rng;

use super::dice::Dice;
use super::schema::{Partition, Schema, Table};

/// Partitions as they stand in a definition.
pub fn list(partitions: &[Partition]) -> String {
    partitions.iter().map(Partition::sql).collect::<Vec<_>>().join(", ")
}

/// A statement about the partitions of a table; changes what is known of it.
pub fn change(after: &mut Schema, table_name: &str, rng: &mut Rng) -> Option<String> {
    let (new_partition, new_table) = (after.new_name("p"), after.new_name("t"));
    let table = after.table_mut(table_name)?;
    if !table.partitioned {
        return None;
    }
    if table.partitions.is_empty() {
        let change = rng.one_of(&["ADD PARTITION PARTITIONS 1", "COALESCE PARTITION 1", "REBUILD PARTITION ALL"]);
        return Some(format!("ALTER TABLE {table_name} {change}"));
    }
    let at = rng.below(table.partitions.len() as u64) as usize;
    let partition = table.partitions[at].name.clone();
    let change = match rng.below(9) {
        0 => format!("TRUNCATE PARTITION {partition}"),
        1 => format!("REBUILD PARTITION {partition}"),
        2 => {
            table.partitions.remove(at);
            format!("DROP PARTITION {partition}")
        }
        3 => {
            let mut single = table.clone();
            single.name = new_table.clone();
            make_single(&mut single);
            table.partitions.remove(at);
            after.tables.push(single);
            format!("CONVERT PARTITION {partition} TO TABLE {new_table}")
        }
        4 if rng.chance(50) => {
            make_single(table);
            "REMOVE PARTITIONING".into()
        }
        _ => reorganize(table, at, new_partition, rng),
    };
    Some(format!("ALTER TABLE {table_name} {change}"))
}

fn make_single(table: &mut Table) {
    table.partitioned = false;
    table.partitions.clear();
    table.tail = table.tail.split(" PARTITION BY").next().unwrap_or_default().into();
}

/// Two partitions become one, or one becomes two, or one gets another name.
fn reorganize(table: &mut Table, at: usize, new_name: String, rng: &mut Rng) -> String {
    let values = table.partitions[at].values.clone();
    let new = |values: String| Partition { name: new_name.clone(), values };
    let (from, instead) = match table.partitions.get(at + 1) {
        Some(next) if rng.chance(40) => (at..at + 2, vec![new(both(&values, &next.values))]),
        _ => (at..at + 1, halves(&table.partitions[at], &new_name, rng).unwrap_or_else(|| vec![new(values)])),
    };
    let names: Vec<_> = table.partitions[from.clone()].iter().map(|partition| partition.name.as_str()).collect();
    let change = format!("REORGANIZE PARTITION {} INTO ({})", names.join(", "), list(&instead));
    table.partitions.splice(from, instead);
    change
}

/// The values of two partitions that follow each other.
fn both(first: &str, second: &str) -> String {
    match (first.strip_suffix(')'), second.strip_prefix("VALUES IN (")) {
        (Some(first), Some(second)) if first.starts_with("VALUES IN") => format!("{first}, {second}"),
        _ => second.into(),
    }
}

fn halves(partition: &Partition, new_name: &str, rng: &mut Rng) -> Option<Vec<Partition>> {
    let half = |name: &str, values: String| Partition { name: name.into(), values };
    if partition.values == "VALUES LESS THAN MAXVALUE" {
        let border = 8 + rng.below(4);
        let below = half(new_name, format!("VALUES LESS THAN ({border})"));
        return Some(vec![below, half(&partition.name, partition.values.clone())]);
    }
    let (one, others) = partition.values.strip_prefix("VALUES IN (")?.split_once(", ")?;
    Some(vec![half(new_name, format!("VALUES IN ({one})")), half(&partition.name, format!("VALUES IN ({others}"))])
}

/// A table with rows that takes the place of a partition of another table: the statements, and it.
pub fn exchange(schema: &mut Schema, rng: &mut Rng) -> Option<(Vec<String>, Table)> {
    let all: Vec<_> = schema.tables.iter().filter(|table| !table.partitions.is_empty()).cloned().collect();
    if all.is_empty() {
        return None;
    }
    let whole = rng.one_of(&all);
    let mut single = whole.clone();
    single.name = schema.new_name("t");
    make_single(&mut single);
    let name = &single.name;
    let partition = &rng.one_of(&whole.partitions).name;
    let mut said =
        vec![format!("CREATE TABLE {name} LIKE {}", whole.name), format!("ALTER TABLE {name} REMOVE PARTITIONING")];
    if rng.chance(80) {
        // What the partition may hold: else the exchange is refused.
        let written: Vec<_> = whole.columns.iter().filter(|c| c.generated.is_none()).map(|c| c.name.as_str()).collect();
        let columns = written.join(", ");
        let from = format!("{} PARTITION ({partition})", whole.name);
        said.push(format!("INSERT INTO {name} ({columns}) SELECT {columns} FROM {from}"));
        said.push(format!("DELETE FROM {name} WHERE id % 2 = {}", rng.below(2)));
    } else {
        said.push(super::rows::insert(&single, rng));
    }
    said.push(format!("ALTER TABLE {} EXCHANGE PARTITION {partition} WITH TABLE {name}", whole.name));
    Some((said, single))
}
