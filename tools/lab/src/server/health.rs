//! Findings from a server's own counters, and the settings that would help.
//!
//! The counters are read before and after an experiment. Each finding is a pure function of the two
//! readings. It is left out if the server lacks a counter or a variable of it.

use anyhow::Result;
use mysql::Conn;

use super::status::Listed;
use crate::measure::count;

/// Status and variables of a server at one moment.
#[derive(Clone, Debug, Default)]
pub struct Health {
    status: Listed,
    variables: Listed,
}

impl Health {
    /// Reads the counters.
    pub fn read(conn: &mut Conn) -> Result<Health> {
        Ok(Health { status: Listed::status(conn, &[])?, variables: Listed::variables(conn)? })
    }

    /// A status variable that is a number.
    pub(crate) fn status(&self, name: &str) -> Option<f64> {
        self.status.number(name)
    }

    /// A variable that is a number.
    pub(crate) fn variable(&self, name: &str) -> Option<f64> {
        self.variables.number(name)
    }

    /// A variable as the server writes it.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.variables.text(name)
    }
}

fn whole(n: f64) -> String {
    count(n.max(0.0) as u64)
}

/// Two readings.
struct Between<'h> {
    before: &'h Health,
    after: &'h Health,
}

impl Between<'_> {
    /// The growth of a counter.
    fn grew(&self, name: &str) -> Option<f64> {
        Some(self.after.status(name)? - self.before.status(name)?)
    }

    fn setting(&self, name: &str) -> String {
        self.after.setting(name).map_or_else(|| name.to_owned(), |value| format!("{name} (now {value})"))
    }

    /// The dump's pages in the young part of the list.
    fn young(&self) -> Option<String> {
        let made = self.grew("innodb_buffer_pool_pages_made_young")?;
        let spared = self.grew("innodb_buffer_pool_pages_made_not_young")?;
        let delay = self.after.variable("innodb_old_blocks_time")?;
        if delay > 0.0 || made < spared / 10.0 || made < 1000.0 {
            return None;
        }
        Some(format!(
            "{} pages were made young: innodb_old_blocks_time is 0, so the second row that a scan reads of a page makes it young, and hot pages \
             leave for it. SET GLOBAL innodb_old_blocks_time = 1000 keeps those that are hot already.",
            whole(made)
        ))
    }

    /// Statements that found no free page.
    fn free_pages(&self) -> Option<String> {
        let waits = self.grew("innodb_buffer_pool_wait_free").filter(|&n| n > 0.0)?;
        Some(format!(
            "Statements waited {} times for a free page: the page cleaner did not keep up. A higher {} and {} let it work further ahead.",
            whole(waits),
            self.setting("innodb_lru_scan_depth"),
            self.setting("innodb_io_capacity")
        ))
    }

    /// A cleaner that keeps a large part of the pool free while statements miss their pages.
    fn idle_frames(&self) -> Option<String> {
        let free = self.after.status("innodb_buffer_pool_pages_free")?;
        let total = self.after.status("innodb_buffer_pool_pages_total").filter(|&n| n > 0.0)?;
        let read = self.grew("innodb_pages_read")?;
        // The pages read would have filled the pool, and a setting has the size of the free part.
        if free < total / 4.0 || read < 2.0 * total || self.after.variable("innodb_lru_scan_depth")? < total / 4.0 {
            return None;
        }
        Some(format!(
            "{} of the cache's {} pages are free although {} pages were read: the page cleaner keeps as many free as {} says, which is too much for \
             a cache of this size.",
            whole(free),
            whole(total),
            whole(read),
            self.setting("innodb_lru_scan_depth")
        ))
    }

    /// The redo log nearly full.
    fn checkpoint(&self) -> Option<String> {
        let (age, most) =
            (self.after.status("innodb_checkpoint_age")?, self.after.status("innodb_checkpoint_max_age")?);
        let share = age / most;
        if share.is_nan() || share < 0.75 {
            return None;
        }
        Some(format!(
            "The checkpoint is {:.0} % of the redo log behind: once it is full, all writers wait for pages to be flushed. A larger {} or a higher \
             {} avoids that.",
            share * 100.0,
            self.setting("innodb_log_file_size"),
            self.setting("innodb_io_capacity")
        ))
    }

    /// The log buffer too small.
    fn log_buffer(&self) -> Option<String> {
        let waits = self.grew("innodb_log_waits").filter(|&n| n > 0.0)?;
        let setting = self.setting("innodb_log_buffer_size");
        Some(format!("Transactions waited {} times for room in the log's buffer: raise {setting}.", whole(waits)))
    }

    /// Purge that lags behind.
    fn history(&self) -> Option<String> {
        let length = self.after.status("innodb_history_list_length").filter(|&n| n > 100_000.0)?;
        Some(format!(
            "{} committed transactions wait for purge: their old versions take a part of the pool, and readers pass over them. Look for transactions \
             that have been open for long (information_schema.INNODB_TRX); else more {}.",
            whole(length),
            self.setting("innodb_purge_threads")
        ))
    }

    /// Tables that do not stay open.
    fn tables(&self) -> Option<String> {
        let pushed_out = self.grew("table_open_cache_overflows").filter(|&n| n > 0.0)?;
        let setting = self.setting("table_open_cache");
        Some(format!(
            "{} tables were closed to open others, since every session needs each of its tables: raise {setting}.",
            whole(pushed_out)
        ))
    }

    /// The log of Holdfast nearly full.
    fn holdfast_checkpoint(&self) -> Option<String> {
        let waits = self.grew("holdfast_log_space_waits").filter(|&n| n > 0.0)?;
        let setting = self.setting("holdfast_log_file_size");
        Some(format!("Transactions waited {} times for room in the log: raise {setting}.", whole(waits)))
    }

    /// A query cache whose results are rarely used.
    fn query_cache(&self) -> Option<String> {
        let inserts = self.grew("qcache_inserts").filter(|&n| n >= 1000.0)?;
        let (hits, prunes) = (self.grew("qcache_hits")?, self.grew("qcache_lowmem_prunes")?);
        if hits >= inserts {
            return None;
        }
        Some(format!(
            "The query cache took {} results, gave {} back and removed {} for lack of room, under a mutex that all sessions share: SET GLOBAL \
             query_cache_type = OFF, query_cache_size = 0.",
            whole(inserts),
            whole(hits),
            whole(prunes)
        ))
    }
}

/// Findings for the time between two readings, a sentence or two for each.
pub fn findings(before: &Health, after: &Health) -> Vec<String> {
    let between = Between { before, after };
    let all = [
        between.young(),
        between.free_pages(),
        between.idle_frames(),
        between.checkpoint(),
        between.log_buffer(),
        between.history(),
        between.tables(),
        between.holdfast_checkpoint(),
        between.query_cache(),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(status: &[(&str, u64)], variables: &[(&str, u64)]) -> Health {
        let listed = |list: &[(&str, u64)]| {
            Listed(list.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect())
        };
        Health { status: listed(status), variables: listed(variables) }
    }

    const YOUNG: &str = "innodb_buffer_pool_pages_made_young";
    const NOT_YOUNG: &str = "innodb_buffer_pool_pages_made_not_young";

    fn found(before: &Health, after: &Health) -> String {
        findings(before, after).join("\n")
    }

    #[test]
    fn a_server_without_trouble_and_one_without_counters_are_left_in_peace() {
        let calm = health(&[(YOUNG, 10), (NOT_YOUNG, 90_000), ("innodb_buffer_pool_wait_free", 7)], &[]);
        assert_eq!(found(&calm, &calm), "");
        assert_eq!(found(&Health::default(), &Health::default()), "");
    }

    #[test]
    fn pages_made_young_are_blamed_on_the_delay_only_where_it_is_0() {
        let before = health(&[(YOUNG, 5), (NOT_YOUNG, 0)], &[]);
        let after = |ms| health(&[(YOUNG, 50_005), (NOT_YOUNG, 0)], &[("innodb_old_blocks_time", ms)]);
        assert!(found(&before, &after(0)).starts_with("50,000 pages were made young: innodb_old_blocks_time is 0"));
        assert_eq!(found(&before, &after(1000)), "");
    }

    #[test]
    fn free_pages_are_too_many_only_where_pages_were_missed() {
        let (free, read) = ("innodb_buffer_pool_pages_free", "innodb_pages_read");
        let before = health(&[(read, 0)], &[]);
        let after = |reads, depth| {
            health(
                &[(free, 1445), ("innodb_buffer_pool_pages_total", 1536), (read, reads)],
                &[("innodb_lru_scan_depth", depth)],
            )
        };
        let text = found(&before, &after(90_000, 1536));
        assert!(text.starts_with("1,445 of the cache's 1,536 pages are free although 90,000 pages"), "{text}");
        assert!(text.contains("innodb_lru_scan_depth (now 1536)"), "{text}");
        assert_eq!(found(&before, &after(100, 1536)), "", "the pool has not been full");
        assert_eq!(found(&before, &after(90_000, 100)), "", "something else emptied it");
    }

    #[test]
    fn each_trouble_names_its_setting() {
        let before = health(
            &[
                ("innodb_buffer_pool_wait_free", 1),
                ("innodb_log_waits", 0),
                ("table_open_cache_overflows", 3),
                ("holdfast_log_space_waits", 2),
                ("qcache_inserts", 0),
                ("qcache_hits", 0),
                ("qcache_lowmem_prunes", 0),
            ],
            &[],
        );
        let after = health(
            &[
                ("innodb_buffer_pool_wait_free", 43),
                ("innodb_log_waits", 3),
                ("innodb_checkpoint_age", 90),
                ("innodb_checkpoint_max_age", 100),
                ("innodb_history_list_length", 2_000_000),
                ("table_open_cache_overflows", 1_003),
                ("holdfast_log_space_waits", 9),
                ("qcache_inserts", 298_916),
                ("qcache_hits", 76_349),
                ("qcache_lowmem_prunes", 291_970),
            ],
            &[("innodb_io_capacity", 200), ("innodb_log_buffer_size", 1024), ("table_open_cache", 400)],
        );
        let text = found(&before, &after);
        let expected = [
            "waited 42 times for a free page",
            "innodb_io_capacity (now 200)",
            "90 % of the redo log",
            "raise innodb_log_buffer_size (now 1024)",
            "2,000,000 committed transactions",
            "1,000 tables were closed to open others",
            "raise table_open_cache (now 400)",
            "waited 7 times for room in the log: raise holdfast_log_file_size",
            "took 298,916 results, gave 76,349 back and removed 291,970",
        ];
        for words in expected {
            assert!(text.contains(words), "{words} is not in {text}");
        }
    }
}
