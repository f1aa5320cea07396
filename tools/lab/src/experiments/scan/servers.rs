//! `scan` on private servers: the experiment of [`super`], on InnoDB with its
//! two settings and on Holdfast with all defaults; on another released server, on its InnoDB.

use anyhow::{Context, Result, anyhow};
use holdfast_server::{Cache, Release};
use holdfast_testkit::DiskModel;
use holdfast_workload::dbt2;
use mysql::Conn;
use mysql::prelude::Queryable;
use parking_lot::Mutex;
use serde_json::json;

use super::{BIG, Options, SMALL, cases, run_on};
use crate::document::Document;
use crate::pin::Cores;
use crate::progress::Progress;
use crate::server::contender::{Contender, engine_name};
use crate::server::data::{Insert, SCHEMA};
use crate::server::options;
use crate::server::own::OwnServer;
use crate::server::probe::Probe;
use crate::server::released;
use crate::server::slow_disk::SlowDisk;
use crate::target::{Content, Policy, PoolState, Query, Site, Target, TargetSpec};

/// Runs the experiment on a private server for each contender.
pub fn run(
    options: &Options,
    contenders: &[Contender],
    model: Option<DiskModel>,
    progress: &mut Progress,
) -> Result<Document> {
    progress.step("building the engine for the server");
    let cache = Cache::of_the_project();
    holdfast_server::build(&cache).context("the engine for the server could not be built")?;
    let disk = model.map(|model| SlowDisk { model, later: false });
    let site = |&contender| ServerSite::load((&cache, contender), "mariadb", disk, options, progress);
    let sites = contenders.iter().map(site).collect::<Result<Vec<_>>>()?;
    let mut done = run_on(&sites.iter().map(|site| site as &dyn Site).collect::<Vec<_>>(), options, progress)?;
    for contender in contenders {
        done.settings[format!("options of {}", engine_name(*contender))] = json!(starts(*contender, options));
    }
    Ok(done)
}

/// Runs the experiment on another released server, on the real disk.
pub fn run_released(server: Release, options: &Options, progress: &mut Progress) -> Result<Document> {
    let (cache, contender) = (Cache::of_the_project(), Contender::Released(server));
    let site = ServerSite::load((&cache, contender), server.target(), None, options, progress)?;
    let done = run_on(&[&site], options, progress)?;
    Ok(released::with_options(done, server, &starts(contender, options)))
}

/// The divisor of the published pool, for InnoDB's reserve of free pages: 512 MB : 20 MB.
const SIZE: f64 = 25.6;

/// A server with the data. It is started for each policy.
struct ServerSite<'c> {
    target: &'static str,
    contender: Contender,
    server: Mutex<OwnServer<'c>>,
    cores: Cores,
    /// The modelled disk, if there is one.
    disk: Option<SlowDisk>,
}

impl<'c> ServerSite<'c> {
    /// Makes a server for a contender, and loads the tables.
    fn load(
        (cache, contender): (&'c Cache, Contender),
        target: &'static str,
        disk: Option<SlowDisk>,
        options: &Options,
        progress: &mut Progress,
    ) -> Result<ServerSite<'c>> {
        progress.step(&format!("{}: loading the tables", engine_name(contender)));
        let server = OwnServer::of(cache, contender, &format!("scan-{}", contender.engine().to_lowercase()))?;
        let (server, cores) = (Mutex::new(server), options.cores.clone());
        // From here on its data is removed with it.
        let mut site = ServerSite { target, contender, server, cores, disk };
        let server = site.server.get_mut();
        server.make_data()?;
        let starting = server_options(contender, options.pool_bytes() * 16);
        server.start(&starting, &site.cores, None).with_context(|| format!("start a server for {contender}"))?;
        let mut conn = Conn::new(server.address.options()).context("connect to the server")?;
        fill(&mut conn, contender, options, progress)?;
        drop(conn);
        server.shut_down()?;
        Ok(site)
    }
}

impl Drop for ServerSite<'_> {
    fn drop(&mut self) {
        let server = self.server.get_mut();
        server.kill();
        let _ = server.remove();
    }
}

/// Creates the schema and its tables.
fn fill(conn: &mut Conn, contender: Contender, options: &Options, progress: &mut Progress) -> Result<()> {
    conn.query_drop(format!("CREATE DATABASE {SCHEMA}"))?;
    conn.query_drop(format!("USE {SCHEMA}"))?;
    for sql in [create_new_order(), create_stock()] {
        conn.query_drop(format!("{sql} ENGINE={} CHARACTER SET latin1 COLLATE latin1_bin", contender.engine()))?;
    }
    let (rows_small, rows_big) =
        (Content::NewOrder(options.small_warehouses()), Content::Stock(options.big_warehouses()));
    let (rows_small, total) = (rows_small.rows(), rows_small.rows() + rows_big.rows());
    let mut told = |rows: u32| progress.show_part((rows.into(), total), "rows");
    let mut small = Insert::new(conn, SMALL, 3, dbt2::new_order_schema(), &mut told);
    dbt2::generate_new_order(options.small_warehouses(), |key, row| small.row(key, row))?;
    small.flush()?;
    let mut told = |rows: u32| progress.show_part((rows_small + u64::from(rows), total), "rows");
    let mut big = Insert::new(conn, BIG, 2, dbt2::stock_schema(), &mut told);
    dbt2::generate_stock(options.seed, options.big_warehouses(), |key, row| big.row(key, row))?;
    big.flush()?;
    conn.query_drop(format!("ANALYZE TABLE {SMALL}, {BIG}")).context("analyse the tables")
}

/// Options of the server of a contender. The files of a historic release are as published: a file
/// per table, past the system's cache.
fn server_options(contender: Contender, pool_bytes: u64) -> Vec<String> {
    let mut options = options::of(contender, pool_bytes, SIZE);
    if contender.release().is_some_and(Release::is_historic) {
        options.extend(["--innodb-flush-method=O_DIRECT", "--innodb-file-per-table"].map(str::to_owned));
    }
    options
}

/// The options of the server of a contender with this policy.
fn with_policy(policy: Policy, contender: Contender, pool_bytes: u64) -> Vec<String> {
    let Policy::Midpoint { pct, time_ms } = policy else {
        return server_options(contender, pool_bytes);
    };
    if let Contender::InnoDb { .. } = contender {
        let mut options = server_options(Contender::InnoDb { old_blocks_time_ms: time_ms }, pool_bytes);
        options.push(format!("--innodb-old-blocks-pct={pct}"));
        return options;
    }
    let mut options = server_options(contender, pool_bytes);
    options.extend([format!("--innodb-old-blocks-pct={pct}"), format!("--innodb-old-blocks-time={time_ms}")]);
    options
}

/// True if the policy is one of the contender.
fn is_of(policy: Policy, contender: Contender) -> bool {
    matches!(policy, Policy::Holdfast { .. }) == (contender == Contender::Holdfast)
}

/// The options of the starts of a contender, one for each policy, in words.
fn starts(contender: Contender, options: &Options) -> String {
    let policies = cases().into_iter().map(|case| case.policy).filter(|policy| is_of(*policy, contender));
    let starts: Vec<_> = policies.map(|policy| with_policy(policy, contender, options.pool_bytes())).collect();
    options::in_words(&starts)
}

impl Site for ServerSite<'_> {
    fn open(&self, spec: &TargetSpec) -> Result<Box<dyn Target + Sync + '_>> {
        let (contender, mut own) = (self.contender, self.server.lock());
        let options = with_policy(spec.policy, contender, spec.pool_bytes);
        own.start(&options, &self.cores, self.disk).with_context(|| format!("start a server for {contender}"))?;
        let conn = Conn::new(own.address.options()).context("connect to the server")?;
        let probe = Probe::new(&own.address, contender)?;
        Ok(Box::new(ServerTarget { server: &self.server, probe: Mutex::new(probe), conn: Mutex::new(conn) }))
    }

    fn target_name(&self) -> &'static str {
        self.target
    }

    fn has(&self, policy: Policy) -> bool {
        is_of(policy, self.contender)
    }

    fn policy_name(&self, policy: Policy) -> String {
        match policy {
            Policy::Midpoint { pct, time_ms } => {
                format!("{} (old_blocks_pct {pct}, time {time_ms} ms)", engine_name(self.contender))
            }
            _ => "holdfast".to_owned(),
        }
    }
}

struct ServerTarget<'s, 'c> {
    /// The server, which ends with the target.
    server: &'s Mutex<OwnServer<'c>>,
    probe: Mutex<Probe>,
    conn: Mutex<Conn>,
}

impl Target for ServerTarget<'_, '_> {
    fn query(&self, query: Query) -> Result<f64> {
        let sql = match query {
            Query::SumNewOrder => format!("SELECT SUM(no_w_id) FROM {SCHEMA}.{SMALL}"),
            Query::SumStock => format!("SELECT SUM(s_quantity) FROM {SCHEMA}.{BIG} WHERE s_data LIKE 'a%'"),
        };
        let sum = self.conn.lock().query_first::<Option<f64>, _>(sql)?;
        sum.flatten().ok_or_else(|| anyhow!("the sum of nothing"))
    }

    fn pool(&self) -> Result<PoolState> {
        let mut probe = self.probe.lock();
        let indexes = probe.resident()?;
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
            indexes,
            disk_reads,
        })
    }
}

impl Drop for ServerTarget<'_, '_> {
    fn drop(&mut self) {
        // Nothing was written. A release is shut down as it is restarted.
        let mut server = self.server.lock();
        if server.release().is_none() {
            server.kill();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::contender::INNODB;

    /// The report said that all settings but the pool were the server's defaults.
    #[test]
    fn the_options_of_a_release_are_those_of_its_starts() {
        let contender = Contender::Released(Release::Mysql56);
        let policies = cases().into_iter().map(|case| case.policy).filter(|policy| is_of(*policy, contender));
        let starts: Vec<_> = policies.map(|policy| with_policy(policy, contender, 20 << 20)).collect();
        let set = |pct, ms| [format!("--innodb-old-blocks-pct={pct}"), format!("--innodb-old-blocks-time={ms}")];
        for (start, set) in starts.iter().zip([set(90, 0), set(5, 5), set(37, 60_000)]) {
            assert!(start.contains(&"--innodb-buffer-pool-size=20971520".to_owned()), "{start:?}");
            assert!(set.iter().all(|option| start.contains(option)), "{set:?} is not in {start:?}");
        }
        assert_eq!(starts.len(), 3);
    }

    #[test]
    fn a_private_server_has_each_option_once() {
        let options = with_policy(Policy::Midpoint { pct: 90, time_ms: 0 }, INNODB, 20 << 20);
        let times = |name: &str| options.iter().filter(|option| option.starts_with(name)).count();
        assert_eq!(["--innodb-old-blocks-pct=90", "--innodb-old-blocks-time=0"].map(times), [1, 1]);
    }
}
