//! Queries, each with a word about whether its rows have an order.

use holdfast_workload::rng::Rng;

use super::conditions::{condition, filter, link, of_column};
use super::dice::Dice;
use super::kinds::Kind;
use super::schema::{Column, Part, Schema, Table};

/// A query; true if the order of its rows is certain.
pub type Query = (String, bool);

/// One on tables that the session sees.
pub fn query(schema: &Schema, session: usize, rng: &mut Rng) -> Option<Query> {
    let table = schema.table(session, rng)?;
    Some(match rng.below(100) {
        0..=34 => plain(table, rng),
        35..=44 => along_key(table, rng).unwrap_or_else(|| plain(table, rng)),
        45..=59 => join(table, schema.table(session, rng)?, rng),
        60..=74 => groups(table, rng),
        75..=87 => nested(table, schema.table(session, rng)?, rng),
        88..=92 => union(table, schema.table(session, rng)?, rng),
        93..=96 if table.versioned => history(table, rng),
        93..=95 if table.is_summed() => (format!("CHECKSUM TABLE {} EXTENDED", table.name), true),
        _ => plain(table, rng),
    })
}

fn columns(table: &Table, alias: &str, rng: &mut Rng) -> String {
    if rng.chance(35) {
        return format!("{alias}*");
    }
    let some: Vec<_> = (0..1 + rng.below(3)).map(|_| format!("{alias}{}", table.column(rng).name)).collect();
    some.join(", ")
}

/// What comes behind a condition: an order and a limit, where that makes the result certain.
fn ending(table: &Table, alias: &str, rng: &mut Rng) -> (String, bool) {
    match table.total_order(alias, rng) {
        Some(order) if rng.chance(60) => {
            let limit = match rng.below(4) {
                0 => format!(" LIMIT {}", 1 + rng.below(5)),
                1 => format!(" LIMIT {}, {}", rng.below(3), 1 + rng.below(4)),
                _ => String::new(),
            };
            (format!("{order}{limit}"), true)
        }
        _ => (String::new(), false),
    }
}

fn plain(table: &Table, rng: &mut Rng) -> Query {
    let what = columns(table, "", rng);
    let hint = table.hint(rng);
    let filter = filter(table, "", rng);
    let (ending, ordered) = ending(table, "", rng);
    let lock = match rng.below(40) {
        0..=4 => " FOR UPDATE",
        5..=7 => " LOCK IN SHARE MODE",
        8 => " FOR UPDATE NOWAIT",
        9 => " FOR UPDATE SKIP LOCKED",
        _ => "",
    };
    (format!("SELECT {what} FROM {}{hint}{filter}{ending}{lock}", table.name), ordered)
}

/// What an index has without the rows, in its order or against it. Rows that the order does not
/// tell apart look the same.
fn along_key(table: &Table, rng: &mut Rng) -> Option<Query> {
    let indexes = table.indexes();
    let (name, parts) = if indexes.is_empty() { return None } else { *rng.one_of(&indexes) };
    let whole = |part: &&Part| part.prefix.is_none() && table.named(&part.column).is_some();
    let exact = |part: &&Part| whole(part) && table.named(&part.column).is_some_and(|column| column.kind.is_exact());
    let (shown, ordered): (Vec<&Part>, bool) = match parts.iter().take_while(exact).collect::<Vec<_>>() {
        leading if leading.is_empty() => (parts.iter().filter(whole).collect(), false),
        leading => (leading[..1 + rng.below(leading.len() as u64) as usize].to_vec(), true),
    };
    let hint = if rng.chance(70) { format!(" FORCE INDEX ({name})") } else { String::new() };
    if shown.is_empty() {
        return None;
    }
    let of = table.named(&rng.one_of(&shown).column)?;
    let filter = if rng.chance(50) { format!(" WHERE {}", of_column(of, "", rng)) } else { String::new() };
    let names = shown.iter().map(|part| part.column.as_str()).collect::<Vec<_>>().join(", ");
    let head = format!("SELECT {names} FROM {}{hint}{filter}", table.name);
    if !ordered {
        return Some((head, false));
    }
    let against = rng.chance(40);
    let by = |part: &&Part| format!("{}{}", part.column, if part.descending == against { "" } else { " DESC" });
    let by = shown.iter().map(by).collect::<Vec<_>>().join(", ");
    let group = if rng.chance(25) { format!(" GROUP BY {names}") } else { String::new() };
    let limit = if rng.chance(30) { format!(" LIMIT {}", 1 + rng.below(6)) } else { String::new() };
    Some((format!("{head}{group} ORDER BY {by}{limit}"), true))
}

fn join(left: &Table, right: &Table, rng: &mut Rng) -> Query {
    let what = format!("{}, {}", columns(left, "a.", rng), columns(right, "b.", rng));
    let side = rng.one_of(&["", "", "LEFT ", "STRAIGHT_"]);
    let (a, b) = (left.hint(rng), right.hint(rng));
    let link = link(left, "a.", right, "b.", rng);
    let condition = condition(if rng.chance(50) { left } else { right }, "", rng);
    let condition = qualify(&condition, left, right);
    (format!("SELECT {what} FROM {} a{a} {side}JOIN {} b{b} ON {link}{condition}", left.name, right.name), false)
}

/// Conditions of a join say which table they are about; those that do not are left out where it is
/// not clear.
fn qualify(condition: &str, left: &Table, right: &Table) -> String {
    let ambiguous = left.columns.iter().any(|column| right.named(&column.name).is_some());
    if ambiguous { String::new() } else { format!(" WHERE {condition}") }
}

fn groups(table: &Table, rng: &mut Rng) -> Query {
    let exact: Vec<&Column> = table.columns.iter().filter(|column| column.kind.is_exact()).collect();
    let measure = table.column(rng);
    let measured = match measure.kind {
        Kind::Float | Kind::Double => format!("COUNT({})", measure.name),
        _ if measure.kind.is_int() => format!("SUM({0}), MIN({0}), MAX({0})", measure.name),
        _ if measure.kind.is_exact() => format!("MIN({0}), MAX({0})", measure.name),
        _ => format!("COUNT(DISTINCT {})", measure.name),
    };
    let (hint, filter) = (table.hint(rng), filter(table, "", rng));
    if exact.is_empty() || rng.chance(25) {
        return (format!("SELECT COUNT(*), {measured} FROM {}{hint}{filter}", table.name), true);
    }
    let by = &rng.one_of(&exact).name;
    if rng.chance(30) {
        return (format!("SELECT DISTINCT {by} FROM {}{hint}{filter}", table.name), false);
    }
    let having = if rng.chance(20) { " HAVING COUNT(*) > 1" } else { "" };
    let order = if rng.chance(50) { format!(" ORDER BY {by}") } else { String::new() };
    let ordered = !order.is_empty();
    (
        format!("SELECT {by}, COUNT(*), {measured} FROM {}{hint}{filter} GROUP BY {by}{having}{order}", table.name),
        ordered,
    )
}

fn nested(outer: &Table, inner: &Table, rng: &mut Rng) -> Query {
    let what = columns(outer, "a.", rng);
    let link = link(outer, "a.", inner, "b.", rng);
    let condition = condition(inner, "b.", rng);
    let (outer_name, inner_name) = (&outer.name, &inner.name);
    let (ending, ordered) = ending(outer, "a.", rng);
    let not = if rng.chance(30) { "NOT " } else { "" };
    let nested = match rng.below(3) {
        0 => format!("{not}EXISTS (SELECT 1 FROM {inner_name} b WHERE {link} AND {condition})"),
        1 => match link.split_once(" = ") {
            Some((a, b)) => format!("{a} {not}IN (SELECT {b} FROM {inner_name} b WHERE {condition})"),
            None => "1 = 1".into(),
        },
        _ => format!("(SELECT COUNT(*) FROM {inner_name} b WHERE {link}) > {}", rng.below(3)),
    };
    (format!("SELECT {what} FROM {outer_name} a WHERE {nested}{ending}"), ordered)
}

fn union(left: &Table, right: &Table, rng: &mut Rng) -> Query {
    let exact = |table: &Table, rng: &mut Rng| {
        let exact: Vec<_> = table.columns.iter().filter(|c| c.kind.is_int()).map(|c| c.name.clone()).collect();
        if exact.is_empty() { "1".into() } else { rng.one_of(&exact).clone() }
    };
    let (a, b) = (exact(left, rng), exact(right, rng));
    let (first, second) = (filter(left, "", rng), filter(right, "", rng));
    let all = rng.one_of(&["", " ALL"]);
    (format!("SELECT {a} FROM {}{first} UNION{all} SELECT {b} FROM {}{second}", left.name, right.name), false)
}

fn history(table: &Table, rng: &mut Rng) -> Query {
    let what = columns(table, "", rng);
    (format!("SELECT {what} FROM {} FOR SYSTEM_TIME ALL{}", table.name, filter(table, "", rng)), false)
}
