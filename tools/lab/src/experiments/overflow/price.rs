//! The processor time of a miss: point selects in the smallest pool, where nearly each misses,
//! against the same in a pool that holds everything, and a loop that only reads, in turns. One row
//! of each page is read, so the difference contains little but the miss.

use anyhow::Result;
use holdfast::metrics::Counter;
use holdfast_workload::sysbench::Mix;

use super::options::{Options, SMALLEST};
use crate::claims::{self, Bar};
use crate::measure::{human, median};
use crate::progress::Progress;
use crate::rig::control::{PageLoop, Rate};
use crate::rig::sessions::sysbench;
use crate::rig::site::{Settings, Site};
use crate::turns;

/// The price of a miss with one number of threads.
#[derive(Clone, Debug)]
pub(super) struct Price {
    pub threads: usize,
    /// The rate of the disk without an engine, in the median turn.
    pub device: Rate,
    /// Processor microseconds of a select whose pages are resident, and of a miss.
    pub hit_us: f64,
    pub miss_us: f64,
    /// The processor time of a miss divided by that of a bare read, by turn.
    pub ratios: Vec<f64>,
    /// Misses per second.
    pub misses_per_s: f64,
}

/// One turn.
struct Turn {
    hit_us: f64,
    miss_us: f64,
    misses_per_s: f64,
    rate: Rate,
}

/// The processor time of a miss divided by that of a bare read, by turn.
fn ratios(turns: &[Turn]) -> Vec<f64> {
    turns.iter().map(|t| t.miss_us / t.rate.cpu_us).collect()
}

/// The most processor time of a miss, as a multiple of that of a bare read.
pub(super) const PRICE: Bar = Bar::AtMost(2.0);

/// Measures the price for every number of threads.
pub(super) fn prices(
    site: &Site,
    options: &Options,
    bare: &PageLoop<'_>,
    progress: &mut Progress,
) -> Result<Vec<Price>> {
    let mut prices = Vec::new();
    for &threads in &options.threads {
        let turn = |_| {
            let (hit_us, _, _) = selects(site, options, SMALLEST.max(options.data_bytes_at_most() * 2), threads)?;
            let (select_us, misses, misses_per_s) = selects(site, options, SMALLEST, threads)?;
            let rate = bare.run(threads, options.plan.turn / 2)?;
            let miss_us = (select_us - hit_us) / misses.max(1e-9);
            progress.show(&format!(
                "{threads} threads: {} us of CPU per miss, {} us per bare read",
                human(miss_us),
                human(rate.cpu_us)
            ));
            Ok(Turn { hit_us, miss_us, misses_per_s, rate })
        };
        let turns = turns::alone(options.plan.rounds, turn, |turns| claims::decided(&ratios(turns), PRICE))?;
        let middle = |of: &dyn Fn(&Turn) -> f64| median(&turns.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        let device = Rate { per_second: middle(&|t| t.rate.per_second), cpu_us: middle(&|t| t.rate.cpu_us) };
        let ratios = ratios(&turns);
        let (hit_us, miss_us, misses_per_s) =
            (middle(&|t| t.hit_us), middle(&|t| t.miss_us), middle(&|t| t.misses_per_s));
        prices.push(Price { threads, device, hit_us, miss_us, ratios, misses_per_s });
    }
    Ok(prices)
}

/// Processor microseconds per select, misses per select, misses per second.
fn selects(site: &Site, options: &Options, pool_bytes: u64, threads: usize) -> Result<(f64, f64, f64)> {
    let db = site.open(&Settings::pool(pool_bytes))?;
    let all_fits = pool_bytes > SMALLEST;
    let measured = {
        if all_fits {
            // One pass over the table makes all of it resident.
            let every_row = Mix { range_size: options.rows, simple_ranges: 1, point_selects: 0, ..Mix::POINT_SELECT };
            sysbench(&db, site, every_row, 1, 1, options.plan.seed).run(options.plan.turn / 4, &mut |_| Ok(()))?;
        }
        let load = sysbench(&db, site, Mix::POINT_SELECT, options.rows, threads, options.plan.seed);
        load.run(options.plan.turn / 4, &mut |_| Ok(()))?;
        let before = db.metrics_snapshot();
        let turn = load.run(options.plan.turn / 2, &mut |_| Ok(()))?;
        let read = db.metrics_snapshot().delta(&before).get(Counter::PagesRead) as f64;
        (turn.cpu_us().unwrap_or(f64::NAN), read / turn.transactions.max(1.0), read / turn.seconds)
    };
    db.close()?;
    Ok(measured)
}
