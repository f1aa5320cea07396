//! New tables.

use holdfast_workload::rng::Rng;

use super::dice::Dice;
use super::kinds::Kind;
use super::partitions;
use super::schema::{Column, Key, Part, Partition, Schema, Table, parts};

/// What tables of a scenario may be like.
#[derive(Clone, Copy)]
pub struct Taste {
    pub partitions: bool,
    pub versions: bool,
    pub references: bool,
    /// After a crash the engines go on to count at different numbers.
    pub counts: bool,
}

/// A new table of `session`, and the statement that makes it.
pub fn table(schema: &mut Schema, session: usize, taste: Taste, rng: &mut Rng) -> (Table, String) {
    let name = schema.new_name("t");
    let mut table = Table {
        name,
        columns: Vec::new(),
        primary: Vec::new(),
        keys: Vec::new(),
        tail: String::new(),
        partitions: Vec::new(),
        partitioned: taste.partitions && rng.chance(50),
        versioned: taste.versions && rng.chance(60),
        temporary: None,
        references: Vec::new(),
    };
    if !table.partitioned && rng.chance(6) {
        table.temporary = Some(session);
    }
    columns(&mut table, taste, rng);
    primary_key(&mut table, rng);
    for _ in 0..rng.below(4) {
        let key = key(schema, &table, rng);
        table.keys.push(key);
    }
    if taste.references && table.temporary.is_none() {
        reference(schema, &mut table, rng);
    }
    if table.versioned {
        table.tail += " WITH SYSTEM VERSIONING";
    }
    if table.partitioned {
        partition(&mut table, rng);
    }
    let sql = statement(&table);
    (table, sql)
}

fn statement(table: &Table) -> String {
    let mut items: Vec<String> =
        table.columns.iter().map(|column| format!("{} {}", column.name, column.definition())).collect();
    if !table.primary.is_empty() {
        items.push(format!("PRIMARY KEY {}", parts(&table.primary)));
    }
    items.extend(table.keys.iter().map(Key::sql));
    items.extend(table.references.iter().cloned());
    let temporary = if table.temporary.is_some() { "TEMPORARY " } else { "" };
    format!("CREATE {temporary}TABLE {} ({}){}", table.name, items.join(", "), table.tail)
}

fn columns(table: &mut Table, taste: Taste, rng: &mut Rng) {
    if table.partitioned || rng.chance(80) {
        let kind = if rng.chance(85) { Kind::Int { name: "INT", bits: 32, unsigned: false } } else { Kind::int(rng) };
        let counts = taste.counts && rng.chance(40);
        table.columns.push(Column {
            name: "id".into(),
            kind,
            null: false,
            default: String::new(),
            generated: None,
            counts,
        });
    }
    for number in 1..=2 + rng.below(5) {
        let column = column(format!("c{number}"), table, rng);
        table.columns.push(column);
    }
}

/// A column for a table.
pub fn column(name: String, table: &Table, rng: &mut Rng) -> Column {
    let mut column = Column {
        name,
        kind: Kind::any(rng),
        null: rng.chance(65),
        default: String::new(),
        generated: None,
        counts: false,
    };
    if rng.chance(12) {
        generate(&mut column, table, rng);
    } else if rng.chance(35) && !matches!(column.kind, Kind::Bit(_)) {
        let value = if column.null && rng.chance(30) { "NULL".into() } else { column.kind.literal(rng) };
        column.default = if value.contains('(') { format!(" DEFAULT ({value})") } else { format!(" DEFAULT {value}") };
    }
    column
}

/// Makes it one whose values follow from those of others.
fn generate(column: &mut Column, table: &Table, rng: &mut Rng) {
    let from: Vec<_> = table.columns.iter().filter(|c| c.generated.is_none() && !c.counts).collect();
    if from.is_empty() {
        return;
    }
    let from = *rng.one_of(&from);
    let name = &from.name;
    let int = Kind::Int { name: "INT", bits: 32, unsigned: false };
    let (kind, expression) = match from.kind {
        Kind::Int { bits, .. } if bits < 32 => (int, format!("{name} + 1")),
        Kind::Int { .. } => (int, format!("{name} % 3")),
        Kind::Char(_, collation) | Kind::VarChar(_, collation) | Kind::Text(_, collation) => {
            let expression = rng.one_of(&["LEFT({}, 2)", "UPPER({})", "CONCAT({}, 'x')"]).replace("{}", name);
            (Kind::VarChar(30, collation), format!("LEFT({expression}, 30)"))
        }
        _ => (int, format!("LENGTH({name})")),
    };
    column.kind = kind;
    column.generated = Some((expression, rng.chance(50)));
    column.null = true;
}

fn part(column: &Column, prefix_likely: u64, rng: &mut Rng) -> Part {
    let must = column.kind.is_large() || column.kind.length() > 190;
    let prefix = (column.kind.has_prefixes() && (must || rng.chance(prefix_likely)))
        .then(|| 1 + rng.below(column.kind.length().min(4)));
    Part { column: column.name.clone(), prefix, descending: rng.chance(15) }
}

fn some_parts(table: &Table, most: u64, rng: &mut Rng) -> Vec<Part> {
    let mut chosen: Vec<Part> = Vec::new();
    for _ in 0..1 + rng.below(most) {
        let column = rng.one_of(&table.columns);
        if chosen.iter().all(|part| part.column != column.name) {
            chosen.push(part(column, 40, rng));
        }
    }
    chosen
}

fn primary_key(table: &mut Table, rng: &mut Rng) {
    let has_id = table.named("id").is_some();
    let id = Part { column: "id".into(), prefix: None, descending: rng.chance(10) };
    let counts = table.columns.iter().any(|column| column.counts);
    if has_id && (table.partitioned || counts || rng.chance(75)) {
        table.primary = vec![id];
        if rng.chance(10) && !table.partitioned {
            let column = rng.one_of(&table.columns[1..]).clone();
            let part = part(&column, 40, rng);
            if can_be_primary(table, &part) {
                table.primary.push(part);
            }
        }
    } else if rng.chance(75) {
        let chosen = some_parts(table, 3, rng);
        if chosen.iter().all(|part| can_be_primary(table, part)) {
            table.primary = chosen;
        }
    }
    for part in table.primary.clone() {
        if let Some(column) = table.columns.iter_mut().find(|column| column.name == part.column) {
            column.null = false;
            if column.default.ends_with("NULL") {
                column.default.clear();
            }
        }
    }
}

fn can_be_primary(table: &Table, part: &Part) -> bool {
    let can_be =
        |column: &Column| column.generated.is_none() && !(part.prefix.is_some() && column.kind.has_expansions());
    table.named(&part.column).is_some_and(can_be)
}

/// A key for a table.
pub fn key(schema: &mut Schema, table: &Table, rng: &mut Rng) -> Key {
    let mut parts = some_parts(table, 3, rng);
    let unique = rng.chance(25);
    if unique && table.partitioned && parts.iter().all(|part| part.column != "id") {
        parts.push(Part { column: "id".into(), prefix: None, descending: false });
    }
    Key { name: schema.new_name("k"), unique, parts }
}

/// Lets it refer to another table, or to itself.
fn reference(schema: &mut Schema, table: &mut Table, rng: &mut Rng) {
    let own: Vec<_> =
        table.columns.iter().filter(|c| c.kind.is_int() && c.generated.is_none() && !c.counts).cloned().collect();
    let parents: Vec<_> =
        schema.tables.iter().filter(|t| t.temporary.is_none() && !t.partitioned && !t.versioned).cloned().collect();
    if own.is_empty() || parents.is_empty() || table.partitioned || table.versioned {
        return;
    }
    let parent = rng.one_of(&parents);
    let others: Vec<_> = parent.columns.iter().filter(|c| c.kind.is_int() && c.generated.is_none()).collect();
    if others.is_empty() {
        return;
    }
    let other = *rng.one_of(&others);
    let column = rng.one_of(&own).name.clone();
    if let Some(own) = table.columns.iter_mut().find(|c| c.name == column) {
        own.kind = other.kind.clone();
        own.default.clear();
    }
    let actions =
        ["", " ON DELETE CASCADE", " ON DELETE SET NULL", " ON UPDATE CASCADE", " ON DELETE CASCADE ON UPDATE CASCADE"];
    let name = schema.new_name("f");
    table.references.push(format!(
        "CONSTRAINT {name} FOREIGN KEY ({column}) REFERENCES {} ({}){}",
        parent.name,
        other.name,
        rng.one_of(&actions)
    ));
}

fn partition(table: &mut Table, rng: &mut Rng) {
    let named: &[(&str, &str)] = match rng.below(4) {
        0 | 1 => {
            let by = rng.one_of(&["HASH", "KEY"]);
            table.tail += &format!(" PARTITION BY {by} (id) PARTITIONS {}", 1 + rng.below(4));
            return;
        }
        2 => {
            table.tail += " PARTITION BY RANGE (id)";
            &[("p0", "VALUES LESS THAN (3)"), ("p1", "VALUES LESS THAN (7)"), ("p2", "VALUES LESS THAN MAXVALUE")]
        }
        _ => {
            table.tail += " PARTITION BY LIST (id)";
            &[("p0", "VALUES IN (0, 1, 2, 3)"), ("p1", "VALUES IN (4, 5, 6)"), ("p2", "DEFAULT")]
        }
    };
    table.partitions =
        named.iter().map(|&(name, values)| Partition { name: name.into(), values: values.into() }).collect();
    table.tail += &format!(" ({})", partitions::list(&table.partitions));
}
