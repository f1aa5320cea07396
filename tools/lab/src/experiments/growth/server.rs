//! The table of a size on a private server, and what is done with it, by SQL.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use holdfast_workload::rng::Rng;
use mysql::Conn;
use mysql::prelude::Queryable;

use super::outcome::{Killed, Size};
use super::plan::{Options, Step, UNFINISHED, UPDATES, USUAL_AGE};
use super::watch::{Reached, Watch};
use crate::progress::Progress;
use crate::server::data::SCHEMA;
use crate::server::options::size;
use crate::server::turns::engine_name;
use crate::server::turns::side::{Settings, Side};
use crate::subject::meters::Meter;

/// Bytes that a row takes, with its share of a page.
const BYTES_PER_ROW: u64 = 220;
/// The largest table, in MiB: `id` is an INT.
pub(super) const MOST_MIB: u64 = (i32::MAX as u64 * BYTES_PER_ROW) >> 20;
/// Rows of a transaction that loads.
const ROWS_AT_ONCE: u32 = 50_000;

/// The table of a size.
struct Table<'s, 'c> {
    side: &'s mut Side<'c>,
    settings: Settings,
    seed: u64,
    rows: u32,
}

/// Does all steps with a table of `mib` MiB; `before` is the next smaller size.
pub(super) fn measure(
    side: &mut Side<'_>,
    options: &Options,
    mib: u64,
    before: Option<&Size>,
    progress: &mut Progress,
) -> Result<Size> {
    let rows = u32::try_from((mib << 20) / BYTES_PER_ROW).context("too many rows")?;
    let Options { pool_bytes, log_bytes, .. } = *options;
    let settings = Settings { pool_bytes, log_bytes: Some(log_bytes), size: size(pool_bytes), ..Settings::default() };
    let name = engine_name(side.contender);
    let mut watch = Watch { name: &name, mib, before, process: None, taken: Vec::new(), progress };
    let mut table = Table { side, settings, seed: options.plan.seed, rows };
    watch.announce("starting");
    watch.process = Some(table.create()?);
    watch.step(Step::Load, |reached| table.load(reached))?;
    let missed = watch.step(Step::Dump, |_| table.missed())?;
    let findings = watch.step(Step::Check, |_| table.check())?;
    watch.step(Step::Index, |_| table.alter("ADD INDEX k_2 (k)"))?;
    watch.beside("dropping the index", None, |_| table.alter("DROP INDEX k_2"))?;
    let (_, killed) = watch.beside("updates until the kill", None, |reached| table.update_and_kill(reached))?;
    watch.step_that_starts(Step::Recovery, || table.start())?;
    let (_, wrong) = watch.beside("rows after the recovery", None, |_| table.wrong(&killed))?;
    table.side.stop()?;
    let (taken, lost) = (watch.taken, [missed, wrong]);
    Ok(Size { mib, rows, bytes: u64::from(rows) * BYTES_PER_ROW, taken, log_bytes: killed.log_bytes, lost, findings })
}

impl Table<'_, '_> {
    fn conn(&mut self) -> Result<&mut Conn> {
        self.side.conn()
    }

    /// Starts the server. Returns its process.
    fn start(&mut self) -> Result<u32> {
        self.side.start(&self.settings)?;
        self.side.process().context("the process of the server is not known")
    }

    /// Starts the server and makes the table.
    fn create(&mut self) -> Result<u32> {
        let process = self.start()?;
        let engine = self.side.contender.engine();
        let conn = self.conn()?;
        conn.query_drop(format!("CREATE DATABASE {SCHEMA}"))?;
        conn.query_drop(format!("USE {SCHEMA}"))?;
        conn.query_drop(format!(
            "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, \
             pad CHAR(60) NOT NULL) ENGINE={engine} CHARACTER SET latin1 COLLATE latin1_bin"
        ))?;
        Ok(process)
    }

    fn load(&mut self, reached: &Reached) -> Result<()> {
        let (seed, rows) = (self.seed, self.rows);
        let conn = self.conn()?;
        let mut first = 1;
        while first <= rows {
            let last = rows.min(first + ROWS_AT_ONCE - 1);
            let (k, c) = (k(seed, rows), content("seq", 0));
            let values = format!("seq, {k}, {c}, CONCAT(MD5(-seq), LEFT(MD5(-seq - 1), 28))");
            conn.query_drop(format!("INSERT INTO t SELECT {values} FROM seq_{first}_to_{last}"))?;
            reached.set(last.into(), rows.into());
            first = last + 1;
        }
        Ok(())
    }

    /// The number of rows that a SELECT of all rows lacks.
    fn missed(&mut self) -> Result<u64> {
        let sql = "SELECT COUNT(*), SUM(CRC32(c)), SUM(CRC32(pad)) FROM t FORCE INDEX (PRIMARY)";
        let (seen, _, _): (u64, u64, u64) = self.conn()?.query_first(sql)?.context("no row")?;
        Ok(seen.abs_diff(self.rows.into()))
    }

    /// The number of findings.
    fn check(&mut self) -> Result<u64> {
        let said: Vec<(String, String, String, String)> = self.conn()?.query("CHECK TABLE t")?;
        Ok(said.iter().filter(|(.., kind, text)| !(kind == "status" && text == "OK")).count() as u64)
    }

    fn alter(&mut self, change: &str) -> Result<()> {
        Ok(self.conn()?.query_drop(format!("ALTER TABLE t {change}"))?)
    }

    /// Updates random rows until the log has its usual age, then kills the server. A transaction
    /// has changed rows and has not ended.
    fn update_and_kill(&mut self, reached: &Reached) -> Result<Killed> {
        let enough = self.settings.log_bytes.unwrap_or(0) as f64 * USUAL_AGE;
        let mut rng = Rng::for_part(self.seed, u64::from(self.rows) + 1);
        let mut changed = HashSet::new();
        let began = self.written()?;
        let mut written = 0.0;
        while written < enough {
            let ids: Vec<u32> = (0..UPDATES).map(|_| 1 + rng.below(self.rows.into()) as u32).collect();
            update(self.conn()?, &ids, 1)?;
            changed.extend(ids);
            written = self.written()? - began;
            reached.set(written as u64, enough as u64);
        }
        let mut unfinished = self.side.connect()?;
        unfinished.query_drop("BEGIN")?;
        let ids: Vec<u32> = (1..=UNFINISHED.min(self.rows / 2)).collect();
        update(&mut unfinished, &ids, 2)?;
        // It makes durable what came before it, that of the unfinished transaction as well.
        let last = self.rows;
        update(self.conn()?, &[last], 1)?;
        changed.insert(last);
        let log_bytes = (self.written()? - began) as u64;
        self.side.kill();
        Ok(Killed { changed, log_bytes })
    }

    fn written(&mut self) -> Result<f64> {
        self.side.read()?[Meter::Log as usize].context("the server does not say how much log it has written")
    }

    /// The number of rows that are not there, or not as the last commit left them.
    fn wrong(&mut self, killed: &Killed) -> Result<u64> {
        let (old, new) = (content("id", 0), content("id", 1));
        let sql = format!("SELECT COUNT(*), SUM(c = {old}), SUM(c = {new}), SUM(IF(c = {new}, id, 0)) FROM {SCHEMA}.t");
        let (rows, old, new, sum): (u64, u64, u64, u64) = self.conn()?.query_first(sql)?.context("no row")?;
        let changed = killed.changed.len() as u64;
        let expected_sum: u64 = killed.changed.iter().map(|id| u64::from(*id)).sum();
        let of_others = u64::from(new == changed && sum != expected_sum);
        let (all, unchanged) = (u64::from(self.rows), u64::from(self.rows) - changed);
        Ok(all.abs_diff(rows) + unchanged.abs_diff(old) + changed.abs_diff(new) + of_others)
    }
}

/// Gives rows the content of a version. `k` changes with every update, which so writes to the log.
fn update(conn: &mut Conn, ids: &[u32], version: u32) -> Result<()> {
    let listed: Vec<String> = ids.iter().map(u32::to_string).collect();
    let content = content("id", version);
    conn.query_drop(format!("UPDATE {SCHEMA}.t SET k = k + 1, c = {content} WHERE id IN ({})", listed.join(",")))?;
    let (distinct, found) = (ids.iter().collect::<HashSet<_>>().len() as u64, matched(conn));
    ensure!(found == distinct, "{found} of {distinct} rows were found");
    Ok(())
}

/// The rows that the last UPDATE has found.
fn matched(conn: &Conn) -> u64 {
    let info = conn.info_str();
    let digits = info.trim_start_matches("Rows matched: ").split(' ').next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// The expression for `k` of row `seq` of `rows` rows. The lower half of the seed counts: a sum
/// that no BIGINT holds is an error.
fn k(seed: u64, rows: u32) -> String {
    format!("CRC32(seq * 31 + {}) % {rows}", seed & u64::from(u32::MAX))
}

/// The expression for `c` of row `id`: as it was loaded (0), changed (1), changed by the
/// transaction that does not end (2).
fn content(id: &str, version: u32) -> String {
    let text = format!("CONCAT(MD5({id}), MD5({id} + 1), MD5({id} + 2), LEFT(MD5({id} + 3), 22), '-{version}')");
    // As the column has it, so that it is compared as the column is.
    format!("CONVERT({text} USING latin1)")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server said "BIGINT UNSIGNED value is out of range" of the greatest ones.
    #[test]
    fn every_seed_has_rows() {
        assert_eq!(k(7, 100), "CRC32(seq * 31 + 7) % 100");
        assert_eq!(k(u64::MAX, 100), "CRC32(seq * 31 + 4294967295) % 100");
    }
}
