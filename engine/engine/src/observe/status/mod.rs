//! The statistics as text, for people: sections and lines like those of InnoDB's monitor, so that
//! habits carry over.
//!
//! Rates are per second since the previous call, or since the open.

mod format;
mod transactions;

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use holdfast_metrics::{Counter, Snapshot};

use self::format::{section, utc};
use crate::instance::Instance;
use crate::instance::rates::Previous;
use crate::observe::names::Names;
use crate::observe::stats::{self, Stats};

/// The latest deadlock, as the monitor shows it; nothing if there was none.
pub(crate) fn deadlock(instance: &Instance) -> Option<String> {
    let report = instance.txns.locks().latest_deadlock()?;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = transactions::deadlock(&mut out, Some(&report), &Names::of(instance));
    Some(out)
}

pub(crate) fn text(instance: &Instance) -> String {
    let stats = stats::of_memory(instance);
    let now = Previous::new(instance.publish_metrics());
    let names = Names::of(instance);
    // Released before the sessions are asked for, which calls code of the layer above.
    let previous = std::mem::replace(&mut *instance.status_since.lock(), now.clone());
    let (delta, seconds) = now.since(&previous);
    let mut out = String::new();
    let page = Page { instance, names, stats: &stats, total: now.snapshot(), delta: &delta, seconds };
    // Writing to a string cannot fail.
    let _ = page.write(&mut out);
    out
}

struct Page<'a> {
    instance: &'a Instance,
    names: Names,
    stats: &'a Stats,
    total: &'a Snapshot,
    delta: &'a Snapshot,
    seconds: f64,
}

impl Page<'_> {
    fn rate(&self, counter: Counter) -> f64 {
        self.delta.get(counter) as f64 / self.seconds
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let rule = "=".repeat(47);
        let now = utc(SystemTime::now());
        writeln!(out, "{rule}\n{now} HOLDFAST MONITOR OUTPUT\n{rule}")?;
        writeln!(out, "Per second averages calculated from the last {:.0} seconds", self.seconds)?;
        self.semaphores(out)?;
        let deadlock = self.instance.txns.locks().latest_deadlock();
        transactions::deadlock(out, deadlock.as_ref(), &self.names)?;
        let open = self.instance.txns.transactions();
        transactions::transactions(out, &self.stats.transactions, &open, &self.names)?;
        self.file_io(out)?;
        self.log(out)?;
        self.pool(out)?;
        self.tables(out)?;
        self.rows(out)?;
        writeln!(out, "{}\nEND OF HOLDFAST MONITOR OUTPUT\n{}", "-".repeat(30), "=".repeat(30))
    }

    fn semaphores(&self, out: &mut String) -> fmt::Result {
        section(out, "SEMAPHORES")?;
        for wait in &self.stats.waits {
            let (ms, max) = (wait.total.as_secs_f64() * 1e3, wait.max.as_secs_f64() * 1e3);
            writeln!(out, "{} waits {}, {ms:.1} ms in all, {max:.1} ms at most", wait.class, wait.count)?;
        }
        Ok(())
    }

    fn file_io(&self, out: &mut String) -> fmt::Result {
        section(out, "FILE I/O")?;
        let get = |counter| self.total.get(counter);
        writeln!(
            out,
            "{} OS file reads, {} OS file writes, {} OS fsyncs",
            get(Counter::DataReads),
            get(Counter::DataWrites) + get(Counter::LogWrites),
            get(Counter::DataFsyncs) + get(Counter::OsLogFsyncs)
        )?;
        writeln!(
            out,
            "{:.2} reads/s, {:.2} writes/s, {:.2} fsyncs/s",
            self.rate(Counter::DataReads),
            self.rate(Counter::DataWrites) + self.rate(Counter::LogWrites),
            self.rate(Counter::DataFsyncs) + self.rate(Counter::OsLogFsyncs)
        )
    }

    fn log(&self, out: &mut String) -> fmt::Result {
        section(out, "LOG")?;
        let log = &self.stats.log;
        writeln!(out, "Log sequence number {}", log.lsn)?;
        writeln!(out, "Log flushed up to   {}", log.durable_lsn)?;
        writeln!(out, "Last checkpoint at  {}", log.checkpoint_lsn)?;
        writeln!(out, "Checkpoint age      {} of {}", log.age_bytes, log.capacity_bytes)?;
        writeln!(
            out,
            "{} log i/o's done, {:.2} log i/o's/second",
            self.total.get(Counter::LogWrites),
            self.rate(Counter::LogWrites)
        )
    }

    fn pool(&self, out: &mut String) -> fmt::Result {
        section(out, "BUFFER POOL AND MEMORY")?;
        let c = &self.stats.cache;
        let m = &self.stats.memory;
        writeln!(out, "Replacement policy {}", c.policy)?;
        writeln!(out, "Total memory {} bytes, besides {}", c.size_bytes, m.total())?;
        writeln!(out, "Buffer pool size   {}", c.frames)?;
        writeln!(out, "Free buffers       {}", c.free_frames)?;
        writeln!(out, "Database pages     {}", c.resident_pages)?;
        writeln!(out, "Old database pages {}", c.old_pages)?;
        writeln!(out, "Scan ring pages    {}", c.ring_pages)?;
        writeln!(out, "Modified db pages  {}", c.dirty_pages)?;
        writeln!(out, "Pages made young {}, not young {}", c.made_young, c.not_young)?;
        writeln!(
            out,
            "{:.2} youngs/s, {:.2} non-youngs/s",
            self.rate(Counter::PagesMadeYoung),
            self.rate(Counter::PagesNotMadeYoung)
        )?;
        writeln!(out, "Pages read {}, created {}, written {}", c.pages_read, c.pages_created, c.pages_written)?;
        writeln!(
            out,
            "{:.2} reads/s, {:.2} creates/s, {:.2} writes/s",
            self.rate(Counter::PagesRead),
            self.rate(Counter::PagesCreated),
            self.rate(Counter::PagesWritten)
        )?;
        let requests = self.delta.get(Counter::BufferPoolReadRequests);
        if requests == 0 {
            return writeln!(out, "No buffer pool page gets since the last printout");
        }
        let per_mille = |n: u64| n.min(requests) * 1000 / requests;
        writeln!(
            out,
            "Buffer pool hit rate {} / 1000, young-making rate {} / 1000 not {} / 1000",
            1000 - per_mille(self.delta.get(Counter::BufferPoolReads)),
            per_mille(self.delta.get(Counter::PagesMadeYoung)),
            per_mille(self.delta.get(Counter::PagesNotMadeYoung))
        )
    }

    fn tables(&self, out: &mut String) -> fmt::Result {
        section(out, "TABLES IN THE BUFFER POOL")?;
        writeln!(out, "{} tables open", self.stats.tables.len())?;
        for table in &self.stats.tables {
            for index in &table.indexes {
                writeln!(
                    out,
                    "{}.{}: {} pages, {:.2} MB; {} hits, {} misses",
                    table.name,
                    index.name,
                    index.resident_pages,
                    index.resident_bytes as f64 / (1 << 20) as f64,
                    index.hits,
                    index.misses
                )?;
            }
        }
        Ok(())
    }

    fn rows(&self, out: &mut String) -> fmt::Result {
        section(out, "ROW OPERATIONS")?;
        let kinds = [Counter::RowsInserted, Counter::RowsUpdated, Counter::RowsDeleted, Counter::RowsRead];
        let [inserted, updated, deleted, read] = kinds.map(|counter| self.total.get(counter));
        writeln!(out, "Number of rows inserted {inserted}, updated {updated}, deleted {deleted}, read {read}")?;
        let [inserted, updated, deleted, read] = kinds.map(|counter| self.rate(counter));
        writeln!(out, "{inserted:.2} inserts/s, {updated:.2} updates/s, {deleted:.2} deletes/s, {read:.2} reads/s")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::Database;
    use crate::raw::RawDatabase;

    /// What finds the sessions was promised that, and was called under the lock of the rates.
    #[test]
    fn no_lock_is_held_while_sessions_are_asked_for() {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        let instance = Arc::clone(&db.database().instance);
        let is_free = Arc::new(AtomicBool::new(false));
        let (found, asked) = (Arc::clone(&is_free), Arc::downgrade(&instance));
        db.set_sessions(move |_| {
            let is_free = asked.upgrade().is_some_and(|instance| instance.status_since.try_lock().is_some());
            found.store(is_free, Ordering::SeqCst);
            None
        });
        let txn = db.database().begin_write().unwrap();
        text(&instance);
        drop(txn);
        assert!(is_free.load(Ordering::SeqCst));
    }
}
