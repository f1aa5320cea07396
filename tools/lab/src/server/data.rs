//! The tables: `sbtest1` for OLTP, and `sbtest2`, which is dumped, both with sysbench's schema and
//! rows. An INSERT has many rows, which every server accepts.

use anyhow::{Context, Result, anyhow};
use holdfast_workload::row::{Schema, Value};
use holdfast_workload::sysbench;
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::experiments::sideload::{BIG, HOT};

/// The schema of the experiment on a server.
pub const SCHEMA: &str = "holdfast_lab";

/// Creates both tables with `engine` in the current schema, the hot one with `rows[0]` rows.
pub fn load(conn: &mut Conn, engine: &str, seed: u64, rows: [u32; 2], told: &mut dyn FnMut(u32)) -> Result<()> {
    let [hot, big] = rows;
    load_one(conn, (HOT, engine), seed, hot, told)?;
    load_one(conn, (BIG, engine), seed.wrapping_add(1), big, &mut |done| told(hot + done))
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
    let mut inserts = Insert::new(conn, table, 1, sysbench::schema(), told);
    sysbench::generate(seed, rows, 1..=rows, |key, row| inserts.row(key, row))?;
    inserts.flush()?;
    conn.query_drop(format!("ANALYZE TABLE {table}")).with_context(|| format!("analyse {table}"))
}

fn create(table: &str, engine: &str) -> String {
    format!(
        "CREATE TABLE {table} (id INT NOT NULL, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', \
         pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k (k)) ENGINE={engine} CHARACTER SET latin1 \
         COLLATE latin1_bin"
    )
}

/// Bytes of an INSERT.
const STATEMENT: usize = 500_000;

/// Rows of the generators as INSERT statements. Keys have parts of four bytes each, texts are
/// letters.
pub(crate) struct Insert<'a> {
    conn: &'a mut Conn,
    table: &'a str,
    key_parts: usize,
    schema: Schema,
    sql: String,
    rows: u32,
    /// Told how many rows there are.
    told: &'a mut dyn FnMut(u32),
}

impl<'a> Insert<'a> {
    pub(crate) fn new(
        conn: &'a mut Conn,
        table: &'a str,
        key_parts: usize,
        schema: Schema,
        told: &'a mut dyn FnMut(u32),
    ) -> Insert<'a> {
        Insert { conn, table, key_parts, schema, sql: String::new(), rows: 0, told }
    }

    pub(crate) fn row(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        let sql = &mut self.sql;
        match sql.is_empty() {
            true => *sql = format!("INSERT INTO {} VALUES ", self.table),
            false => sql.push(','),
        }
        push_row(sql, self.key_parts, &self.schema, key, row)?;
        self.rows += 1;
        if self.sql.len() >= STATEMENT { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.sql.is_empty() {
            self.conn.query_drop(std::mem::take(&mut self.sql)).with_context(|| format!("fill {}", self.table))?;
            (self.told)(self.rows);
        }
        Ok(())
    }
}

/// A row in parentheses. Writing to a String cannot fail.
fn push_row(sql: &mut String, key_parts: usize, schema: &Schema, key: &[u8], row: &[u8]) -> Result<()> {
    sql.push('(');
    let parts = key.chunks_exact(4).take(key_parts).filter_map(|part| part.try_into().ok().map(u32::from_be_bytes));
    let mut values: Vec<String> = parts.map(|part| part.to_string()).collect();
    let row = schema.read(row);
    for column in 0..schema.columns().len() {
        values.push(match row.value(column).map_err(|f| anyhow!("{f}"))? {
            Value::Int(v) => v.to_string(),
            Value::BigInt(v) => v.to_string(),
            Value::Double(v) => v.to_string(),
            Value::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        });
    }
    sql.push_str(&values.join(","));
    sql.push(')');
    Ok(())
}

#[cfg(test)]
mod tests {
    use holdfast_workload::dbt2;
    use holdfast_workload::sysbench::SbRow;

    use super::*;

    #[test]
    fn rows_of_the_generators_become_sql() {
        let mut sql = String::new();
        let done = dbt2::generate_new_order(1, |key, row| {
            if sql.is_empty() { push_row(&mut sql, 3, &dbt2::new_order_schema(), key, row) } else { Ok(()) }
        });
        done.unwrap();
        assert_eq!(sql, "(1,1,2101)");
        sql.clear();
        let key = [1u32.to_be_bytes(), 2u32.to_be_bytes()].concat();
        let schema = Schema::new(&[("q", holdfast_workload::row::Type::Double)]);
        let mut row = Vec::new();
        schema.encode(&[Value::Double(10.0)], &mut row);
        push_row(&mut sql, 2, &schema, &key, &row).unwrap();
        assert_eq!(sql, "(1,2,10)");
        sql.clear();
        let add = |key: &[u8], row: &[u8]| push_row(&mut sql, 1, &sysbench::schema(), key, row);
        sysbench::generate(7, 100, 3..=3, add).unwrap();
        let row = SbRow::initial(7, 3, 100);
        let text = |bytes| String::from_utf8_lossy(bytes);
        assert_eq!(sql, format!("(3,{},'{}','{}')", row.k, text(&row.c), text(&row.pad)));
    }
}
