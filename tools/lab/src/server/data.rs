//! The tables: `sbtest1` for OLTP, and `sbtest2`, which is dumped, both with sysbench's schema and
//! rows. An INSERT has many rows, which every server accepts.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use holdfast_workload::sysbench::SbRow;
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::experiments::sideload::{BIG, HOT};

/// The schema of the experiment on a server.
pub const SCHEMA: &str = "holdfast_lab";

/// Rows of an INSERT.
const ROWS_AT_ONCE: u32 = 2000;

/// Creates both tables with `engine` in the current schema, the hot one with `rows[0]` rows.
pub fn load(conn: &mut Conn, engine: &str, seed: u64, rows: [u32; 2], told: &mut dyn FnMut(u32)) -> Result<()> {
    let [hot, big] = rows;
    load_one(conn, (HOT, engine), seed, hot, told)?;
    load_one(conn, (BIG, engine), seed + 1, big, &mut |done| told(hot + done))
}

/// Creates a table with an engine in the current schema, with `rows` rows.
pub fn load_one(
    conn: &mut Conn,
    (table, engine): (&str, &str),
    seed: u64,
    rows: u32,
    told: &mut dyn FnMut(u32),
) -> Result<()> {
    conn.query_drop(create(table, engine)).with_context(|| format!("create {table} with {engine}"))?;
    let mut first = 1;
    while first <= rows {
        let last = rows.min(first + ROWS_AT_ONCE - 1);
        conn.query_drop(insert(table, seed, first, last, rows)).with_context(|| format!("fill {table}"))?;
        told(last);
        first = last + 1;
    }
    conn.query_drop(format!("ANALYZE TABLE {table}")).with_context(|| format!("analyse {table}"))
}

fn create(table: &str, engine: &str) -> String {
    format!(
        "CREATE TABLE {table} (id INT NOT NULL, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', \
         pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k (k)) ENGINE={engine} CHARACTER SET latin1 \
         COLLATE latin1_bin"
    )
}

/// Rows `first` to `last` of a table of `rows` rows.
fn insert(table: &str, seed: u64, first: u32, last: u32, rows: u32) -> String {
    let mut sql = format!("INSERT INTO {table} (id, k, c, pad) VALUES ");
    for id in first..=last {
        let row = SbRow::initial(seed, id, rows);
        let (c, pad) = (String::from_utf8_lossy(&row.c), String::from_utf8_lossy(&row.pad));
        let comma = if id == first { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(sql, "{comma}({id},{},'{c}','{pad}')", row.k);
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_an_insert_are_those_of_the_generator() {
        let sql = insert("t", 7, 2, 3, 100);
        assert!(sql.starts_with("INSERT INTO t (id, k, c, pad) VALUES (2,"), "{sql}");
        assert_eq!(sql.matches("),(").count(), 1);
        let row = SbRow::initial(7, 3, 100);
        assert!(sql.contains(&format!("(3,{},'{}'", row.k, String::from_utf8_lossy(&row.c))), "{sql}");
    }
}
