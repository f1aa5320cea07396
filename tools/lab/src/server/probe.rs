//! A server's own counters, read on a connection of the lab.
//!
//! Transactions are the server's `Com_commit`: neither the dump nor the lab commits. The meaning of
//! the other figures differs by engine; [`super::contender::Contender::how_it_is_counted`] states
//! it, and so does the output.

use anyhow::{Context, Result};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::address::Address;
use super::contender::Contender;
use super::data::SCHEMA;
use super::status::{Listed, monitor, told};
use crate::bench::Counters;
use crate::experiments::sideload::HOT;
use crate::target::Resident;

/// Columns of INNODB_BUFFER_POOL_STATS and HOLDFAST_BUFFER_POOL_STATS.
pub const STATS: [&str; 10] = [
    "POOL_SIZE",
    "FREE_BUFFERS",
    "DATABASE_PAGES",
    "OLD_DATABASE_PAGES",
    "PAGES_MADE_YOUNG",
    "PAGES_NOT_MADE_YOUNG",
    "NUMBER_PAGES_GET",
    "NUMBER_PAGES_READ",
    "NUMBER_PAGES_CREATED",
    "NUMBER_PAGES_WRITTEN",
];

/// A connection for queries.
pub struct Probe {
    conn: Conn,
    contender: Contender,
    page_bytes: f64,
    /// True if the server counts reads by file.
    file_summary: bool,
}

impl Probe {
    /// Connects. `contender` is the engine of the tables.
    pub fn new(address: &Address, contender: Contender) -> Result<Probe> {
        let mut conn = Conn::new(address.options()).context("connect to the server")?;
        // MyRocks has none.
        let page_size = format!("SELECT @@{}", contender.variable("page_size"));
        // Before 5.6 the page size could not be chosen, and was not shown.
        let page_bytes = if_told(conn.query_first::<f64, _>(page_size))?.flatten().unwrap_or(16384.0);
        let file_summary = if_told(conn.query_first::<bool, _>("SELECT @@performance_schema"))?;
        let file_summary = file_summary.flatten().unwrap_or(false);
        Ok(Probe { conn, contender, page_bytes, file_summary })
    }

    /// The connection itself.
    pub fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// The counters now, but for the dump's.
    pub fn counters(&mut self) -> Result<Counters> {
        // MyRocks has no such counters.
        let [young, not_young] =
            ["made_young", "made_not_young"].map(|name| self.contender.variable(&format!("buffer_pool_pages_{name}")));
        let status = Listed::status(&mut self.conn, &["Com_commit", &young, &not_young])?;
        Ok(Counters {
            commits: status.number("Com_commit").context("the server does not count Com_commit")?,
            dumped: 0,
            hot_reads: self.reads_of(HOT)?,
            made_young: status.number(&young),
            not_young: status.number(&not_young),
        })
    }

    /// Reads of a table from disk; `None` if the server does not report them.
    pub fn reads_of(&mut self, table: &str) -> Result<Option<u64>> {
        let sql = match self.contender {
            Contender::Holdfast => format!(
                "SELECT CAST(SUM(i.PAGE_MISSES) AS UNSIGNED) FROM information_schema.HOLDFAST_SYS_INDEXES i \
                 JOIN information_schema.HOLDFAST_SYS_TABLES t ON t.TABLE_ID = i.TABLE_ID \
                 WHERE t.NAME = '{SCHEMA}/{table}'"
            ),
            Contender::InnoDb { .. } | Contender::Released(_) if !self.file_summary => return Ok(None),
            Contender::InnoDb { .. } | Contender::Released(_) => format!(
                "SELECT CAST(SUM(COUNT_READ) AS UNSIGNED) FROM performance_schema.file_summary_by_instance \
                 WHERE FILE_NAME LIKE '%/{SCHEMA}/{table}.ibd'"
            ),
            Contender::MyRocks => format!(
                "SELECT CAST(SUM(VALUE) AS UNSIGNED) FROM information_schema.ROCKSDB_PERF_CONTEXT \
                 WHERE TABLE_SCHEMA = '{SCHEMA}' AND TABLE_NAME = '{table}' AND STAT_TYPE = 'BLOCK_READ_COUNT'"
            ),
        };
        let reads = if_told(self.conn.query_first::<Option<u64>, _>(sql));
        // A table that has not been opened yet is not in the lists, and was not read.
        Ok(reads.context("ask for the reads of a table")?.map(|n| n.flatten().unwrap_or(0)))
    }

    /// The columns [`STATS`] of the pool's statistics.
    pub fn pool_stats(&mut self) -> Result<[u64; STATS.len()]> {
        let engine = self.contender.engine().to_uppercase();
        let sql = format!("SELECT {} FROM information_schema.{engine}_BUFFER_POOL_STATS", STATS.join(", "));
        let row = if_told(self.conn.query_first::<mysql::Row, _>(sql)).context("ask for the pool's statistics")?;
        match row.flatten() {
            Some(row) => Ok(std::array::from_fn(|column| row.get::<u64, _>(column).unwrap_or(0))),
            None => self.monitors_pool_stats(),
        }
    }

    /// The same from InnoDB's monitor, which also reports them before 5.5.28.
    fn monitors_pool_stats(&mut self) -> Result<[u64; STATS.len()]> {
        let text = monitor(&mut self.conn)?.context("the server has no statistics of the pool")?;
        let requests = "Innodb_buffer_pool_read_requests";
        let gets = Listed::status(&mut self.conn, &[requests])?.number(requests);
        of_monitor(&text, gets.context("the server counts no requests")?)
            .context("InnoDB's monitor says nothing of the pool")
    }

    /// Size of a page, in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes as u64
    }

    /// The content of the cache, by table and index; empty if the server does not report it.
    pub fn resident(&mut self) -> Result<Vec<Resident>> {
        let sql = match self.contender {
            Contender::Holdfast => format!(
                "SELECT SUBSTRING_INDEX(t.NAME, '/', -1), i.NAME, i.RESIDENT_PAGES \
                 FROM information_schema.HOLDFAST_SYS_INDEXES i JOIN information_schema.HOLDFAST_SYS_TABLES t \
                 ON t.TABLE_ID = i.TABLE_ID WHERE t.NAME LIKE '{SCHEMA}/%'"
            ),
            Contender::InnoDb { .. } | Contender::Released(_) => format!(
                "SELECT REPLACE(SUBSTRING_INDEX(TABLE_NAME, '.', -1), '`', ''), INDEX_NAME, COUNT(*) \
                 FROM information_schema.INNODB_BUFFER_PAGE WHERE TABLE_NAME LIKE '`{SCHEMA}`.%' GROUP BY 1, 2"
            ),
            Contender::MyRocks => return Ok(Vec::new()),
        };
        let rows = if_told(self.conn.query::<(String, String, u64), _>(sql));
        let rows = rows.context("ask what the cache holds")?.unwrap_or_default();
        let resident =
            |(table, index, pages)| Resident { table, index, pages, mb: pages as f64 * self.page_bytes / 1e6 };
        Ok(rows.into_iter().map(resident).collect())
    }
}

/// The columns [`STATS`] from the text of InnoDB's monitor, with `gets` as the requests: the
/// monitor has only their rate.
fn of_monitor(text: &str, gets: u64) -> Option<[u64; STATS.len()]> {
    let pool = text.split_once("BUFFER POOL AND MEMORY")?.1;
    let number = |name| told(pool, name);
    let [size, free, data, old] =
        ["Buffer pool size ", "Free buffers ", "Database pages ", "Old database pages "].map(number);
    let [young, not_young] = ["Pages made young ", ", not young "].map(number);
    let [read, created, written] = ["Pages read ", ", created ", ", written "].map(number);
    Some([size?, free?, data?, old?, young?, not_young?, gets, read?, created?, written?])
}

/// `None` if this user has no right to the query, or if this server lacks the table or variable:
/// the experiment does without such figures.
fn if_told<T>(answer: mysql::Result<T>) -> mysql::Result<Option<T>> {
    const DENIED: [u16; 3] = [1044, 1142, 1227];
    /// A column, a table of INFORMATION_SCHEMA, a table, a variable.
    const UNKNOWN: [u16; 4] = [1054, 1109, 1146, 1193];
    match answer {
        Err(mysql::Error::MySqlError(said)) if DENIED.contains(&said.code) || UNKNOWN.contains(&said.code) => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monitor_of_old_tells_the_pools_statistics() {
        let text = "LOG\n---\nPages read 1\n----------------------\nBUFFER POOL AND MEMORY\n----------------------\n\
                    Total memory allocated 137363456; in additional pool allocated 0\nDictionary memory allocated 23006\n\
                    Buffer pool size   8191\nFree buffers       8049\nDatabase pages     142\nOld database pages 52\n\
                    Modified db pages  0\nPending reads 0\nPending writes: LRU 0, flush list 0, single page 0\n\
                    Pages made young 7, not young 9\n0.00 youngs/s, 0.00 non-youngs/s\nPages read 141, created 1, written 3\n";
        assert_eq!(of_monitor(text, 77), Some([8191, 8049, 142, 52, 7, 9, 77, 141, 1, 3]));
        assert_eq!(of_monitor("nothing", 0), None);
    }
}
