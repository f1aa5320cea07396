//! `scan` on private servers: the experiment of [`super`], on InnoDB with its
//! two settings and on Holdfast with all defaults; on another released server, on its InnoDB.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use holdfast_server::{Cache, Release, ReleasedServer, Server};
use holdfast_workload::dbt2;
use holdfast_workload::row::{Schema, Value};
use mysql::Conn;
use mysql::prelude::Queryable;
use parking_lot::Mutex;

use super::{BIG, Options, SMALL, run_on};
use crate::clock::PausableClock;
use crate::document::Document;
use crate::experiments::sideload::outcome::Resident;
use crate::pin::{Cores, Role};
use crate::progress::Progress;
use crate::server::address::Address;
use crate::server::contender::Contender;
use crate::server::data::SCHEMA;
use crate::server::probe::Probe;
use crate::server::released;
use crate::target::{Connection, IndexState, Policy, PoolState, Query, Site, Target, TargetSpec};

/// Runs the experiment. Returns the document and what is printed.
pub fn run(options: &Options, model: Option<(Duration, u64)>, progress: &mut Progress) -> Result<(Document, String)> {
    progress.step("building the engine for the server");
    holdfast_server::build(cache()).context("the engine for the server could not be built")?;
    let site = ServerSite { cores: options.cores.clone(), model };
    for contender in [INNODB, Contender::Holdfast] {
        progress.step(&format!("{}: loading the tables", contender.engine()));
        site.load(contender, options, progress)?;
    }
    run_on(&site, options, progress)
}

/// Runs the experiment on another released server, on the real disk.
pub fn run_released(server: Release, options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    let site = ReleasedSite::load(server, options, progress)?;
    let done = run_on(&site, options, progress)?;
    Ok(released::with_options(done, server, &released_options(server, options.pool_bytes())))
}

const INNODB: Contender = Contender::InnoDb { old_blocks_time_ms: 1000 };

/// The project's cache folder. Servers outlive the calls that start them.
fn cache() -> &'static Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    CACHE.get_or_init(Cache::of_the_project)
}

/// The data of both engines, a folder each.
struct ServerSite {
    cores: Cores,
    /// Seek and bytes per second of the modelled disk.
    model: Option<(Duration, u64)>,
}

/// The divisor of the published pool, for InnoDB's reserve of free pages: 512 MB : 20 MB.
const SIZE: f64 = 25.6;

impl ServerSite {
    fn server(contender: Contender) -> Server<'static> {
        Server::new(cache(), &format!("lab/scan-{}", contender.engine().to_lowercase())).bound_to_us()
    }

    fn up(&self, server: Server<'static>, contender: Contender, options: &[String]) -> Result<ServerTarget> {
        self.cores.pin(Role::Server);
        let up = server.up(PORT, false, options);
        self.cores.pin(Role::Clients);
        // From here on the target ends it.
        let address = Address::Socket(server.socket_path());
        up.with_context(|| format!("start a server for {contender}"))?;
        ServerTarget::reach(&address, contender, Some(server))
    }

    fn load(&self, contender: Contender, options: &Options, progress: &mut Progress) -> Result<()> {
        let server = ServerSite::server(contender);
        server.remove()?;
        let target = self.up(server, contender, &server_options(contender, options.pool_bytes() * 16))?;
        fill(&mut target.conn.lock(), contender, options, progress)?;
        target.server.as_ref().map_or(Ok(()), Server::down)
    }
}

impl Drop for ServerSite {
    fn drop(&mut self) {
        for contender in [INNODB, Contender::Holdfast] {
            let _ = ServerSite::server(contender).remove();
        }
    }
}

/// Creates the schema and its tables.
fn fill(conn: &mut Conn, contender: Contender, options: &Options, progress: &mut Progress) -> Result<()> {
    conn.query_drop(format!("CREATE DATABASE {SCHEMA}"))?;
    conn.query_drop(format!("USE {SCHEMA}"))?;
    for sql in [create_new_order(), create_stock()] {
        conn.query_drop(format!("{sql} ENGINE={} CHARACTER SET latin1 COLLATE latin1_bin", contender.engine()))?;
    }
    let mut small = Insert::new(conn, SMALL, 3, dbt2::new_order_schema());
    dbt2::generate_new_order(options.small_warehouses(), |key, row| small.row(key, row, progress))?;
    small.flush(progress)?;
    let mut big = Insert::new(conn, BIG, 2, dbt2::stock_schema());
    dbt2::generate_stock(options.seed, options.big_warehouses(), |key, row| big.row(key, row, progress))?;
    big.flush(progress)?;
    conn.query_drop(format!("ANALYZE TABLE {SMALL}, {BIG}")).context("analyse the tables")
}

fn server_options(contender: Contender, pool_bytes: u64) -> Vec<String> {
    let mut options = contender.options(pool_bytes, SIZE);
    options.push("--skip-networking".into());
    options
}

impl Site for ServerSite {
    fn open(&self, spec: &TargetSpec) -> Result<Arc<dyn Target>> {
        let (contender, pct) = match spec.policy {
            Policy::Holdfast { .. } => (Contender::Holdfast, None),
            Policy::Midpoint { pct, time_ms } => (Contender::InnoDb { old_blocks_time_ms: time_ms }, Some(pct)),
            Policy::Lru => bail!("no server has a plain LRU list"),
        };
        let mut options = server_options(contender, spec.pool_bytes);
        options.extend(pct.map(|pct| format!("--innodb-old-blocks-pct={pct}")));
        let mut server = ServerSite::server(contender);
        if let Some((seek, bytes_per_second)) = self.model {
            server = crate::server::slow_disk::on_slow_disk(server, &self.cores, seek, bytes_per_second, None)?;
        }
        Ok(Arc::new(self.up(server, contender, &options)?))
    }

    fn target_name(&self) -> &'static str {
        "mariadb"
    }

    fn policy_name(&self, policy: Policy) -> String {
        policy_name(policy)
    }

    fn set_slow(&self, _slow: bool) {}
}

/// A released server, which is restarted on its data for each policy.
struct ReleasedSite {
    release: Release,
    running: Mutex<ReleasedServer>,
    address: Address,
    cores: Cores,
}

impl ReleasedSite {
    fn load(release: Release, options: &Options, progress: &mut Progress) -> Result<ReleasedSite> {
        let cores = options.cores.clone();
        let (running, address) =
            released::start(release, &released_options(release, options.pool_bytes() * 16), &cores, progress)?;
        progress.step(&format!("{}: loading the tables", release.name()));
        fill(&mut Conn::new(address.options()).context("connect to the server")?, INNODB, options, progress)?;
        Ok(ReleasedSite { release, running: Mutex::new(running), address, cores })
    }
}

/// As published: a file per table, past the system's cache.
fn released_options(release: Release, pool_bytes: u64) -> Vec<String> {
    let mut options = released::with_pool(release, pool_bytes);
    if release.is_historic() {
        options.extend(["--innodb-flush-method=O_DIRECT", "--innodb-file-per-table"].map(str::to_owned));
    }
    options
}

impl Site for ReleasedSite {
    fn open(&self, spec: &TargetSpec) -> Result<Arc<dyn Target>> {
        let Policy::Midpoint { pct, time_ms } = spec.policy else { bail!("{} has InnoDB only", self.release.name()) };
        let mut options = released_options(self.release, spec.pool_bytes);
        options.push(format!("--innodb-old-blocks-pct={pct}"));
        options.push(format!("--innodb-old-blocks-time={time_ms}"));
        self.cores.pin(Role::Server);
        let up = self.running.lock().restart(&options);
        self.cores.pin(Role::Clients);
        up?;
        Ok(Arc::new(ServerTarget::reach(&self.address, INNODB, None)?))
    }

    fn target_name(&self) -> &'static str {
        self.release.target()
    }

    fn has(&self, policy: Policy) -> bool {
        matches!(policy, Policy::Midpoint { .. })
    }

    fn policy_name(&self, policy: Policy) -> String {
        policy_name(policy)
    }

    fn set_slow(&self, _slow: bool) {}
}

fn policy_name(policy: Policy) -> String {
    match policy {
        Policy::Midpoint { pct, time_ms } => format!("InnoDB (old_blocks_pct {pct}, time {time_ms} ms)"),
        _ => "holdfast".to_owned(),
    }
}

/// The server listens on its socket only; the port makes its name differ.
const PORT: u16 = 13391;

struct ServerTarget {
    /// The server, which ends with the target.
    server: Option<Server<'static>>,
    probe: Mutex<Probe>,
    conn: Mutex<Conn>,
    clock: Arc<PausableClock>,
}

impl ServerTarget {
    fn reach(address: &Address, contender: Contender, server: Option<Server<'static>>) -> Result<ServerTarget> {
        let conn = Conn::new(address.options()).context("connect to the server")?;
        let probe = Probe::new(address, contender.engine())?;
        let clock = Arc::new(PausableClock::new());
        Ok(ServerTarget { server, probe: Mutex::new(probe), conn: Mutex::new(conn), clock })
    }
}

impl Target for ServerTarget {
    fn connect(&self) -> Result<Box<dyn Connection + '_>> {
        bail!("on a server sysbench runs OLTP, not the lab")
    }

    fn query(&self, query: Query) -> Result<f64> {
        let sql = match query {
            Query::SumNewOrder(_) => format!("SELECT SUM(no_w_id) FROM {SCHEMA}.{SMALL}"),
            Query::SumStock(_) => format!("SELECT SUM(s_quantity) FROM {SCHEMA}.{BIG} WHERE s_data LIKE 'a%'"),
        };
        let sum = self.conn.lock().query_first::<Option<f64>, _>(sql)?;
        sum.flatten().ok_or_else(|| anyhow!("the sum of nothing"))
    }

    fn pool(&self) -> Result<PoolState> {
        let mut probe = self.probe.lock();
        let resident = probe.resident()?;
        let index = |r: Resident| IndexState { table: r.table, index: r.index, resident_pages: r.pages };
        let [pool_pages, free_pages, database_pages, old_pages, made_young, not_young, gets, read, created, written] =
            probe.pool_stats()?;
        // One query runs at a time, so the pages read, read-ahead included, are of its table.
        let disk_reads = [SMALL, BIG].map(|table| (table.to_owned(), read)).to_vec();
        Ok(PoolState {
            page_bytes: probe.page_bytes(),
            pool_pages,
            free_pages,
            database_pages,
            old_pages,
            made_young,
            not_young,
            gets,
            pages_read: read,
            pages_created: created,
            pages_written: written,
            indexes: resident.into_iter().map(index).collect(),
            disk_reads,
        })
    }

    fn clock(&self) -> &Arc<PausableClock> {
        &self.clock
    }
}

impl Drop for ServerTarget {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            let _ = server.kill();
        }
    }
}

fn create_new_order() -> String {
    format!(
        "CREATE TABLE {SMALL} (no_d_id INT NOT NULL, no_w_id INT NOT NULL, no_o_id INT NOT NULL, \
         PRIMARY KEY (no_d_id, no_w_id, no_o_id))"
    )
}

fn create_stock() -> String {
    let dist: String = (1..=10).fold(String::new(), |sql, n| sql + &format!("s_dist_{n:02} VARCHAR(24), "));
    format!(
        "CREATE TABLE {BIG} (s_w_id INT NOT NULL, s_i_id INT NOT NULL, s_quantity DOUBLE, {dist}s_ytd DECIMAL(16,8), \
         s_order_cnt INT, s_remote_cnt INT, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id))"
    )
}

/// Bytes of an INSERT.
const STATEMENT: usize = 500_000;

/// Rows of the generators as INSERT statements. Keys have parts of four bytes each, texts are
/// letters.
struct Insert<'a> {
    conn: &'a mut Conn,
    table: &'static str,
    key_parts: usize,
    schema: Schema,
    sql: String,
    rows: u64,
}

impl<'a> Insert<'a> {
    fn new(conn: &'a mut Conn, table: &'static str, key_parts: usize, schema: Schema) -> Insert<'a> {
        Insert { conn, table, key_parts, schema, sql: String::new(), rows: 0 }
    }

    fn row(&mut self, key: &[u8], row: &[u8], progress: &mut Progress) -> Result<()> {
        let sql = &mut self.sql;
        match sql.is_empty() {
            true => *sql = format!("INSERT INTO {} VALUES ", self.table),
            false => sql.push(','),
        }
        push_row(sql, self.key_parts, &self.schema, key, row)?;
        self.rows += 1;
        if self.sql.len() >= STATEMENT { self.flush(progress) } else { Ok(()) }
    }

    fn flush(&mut self, progress: &mut Progress) -> Result<()> {
        if !self.sql.is_empty() {
            self.conn.query_drop(std::mem::take(&mut self.sql)).with_context(|| format!("fill {}", self.table))?;
            progress.show(&format!("{}: {} rows", self.table, self.rows));
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
    }
}
