//! The processor time of a miss: point selects in the smallest pool, where nearly each misses,
//! against the same in a pool that holds everything, and a loop that only reads, in turns. One row
//! of each page is read, so the difference contains little but the miss.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use holdfast_workload::sysbench::Mix;

use super::options::{Options, SMALLEST};
use crate::claims::{self, Bar};
use crate::progress::Progress;
use crate::rig::control::PageLoop;
use crate::rig::sessions::Sessions;
use crate::rig::site::{Settings, Site};
use crate::server::turns::cell::{Cell, by_round};
use crate::subject::embedded::{Embedded, Work};
use crate::subject::meters::Meter;
use crate::subject::{Series, Subject, Turn};

/// The sides: selects in a pool that holds everything and in the smallest one, and the loop.
const SIDES: [&str; 3] = ["all in the pool", "in the smallest pool", "bare reads"];
pub(super) const ROOMY: usize = 0;
pub(super) const TIGHT: usize = 1;
pub(super) const BARE: usize = 2;

/// The most processor time of a miss, as a multiple of that of a bare read.
pub(super) const PRICE: Bar = Bar::AtMost(2.0);

/// The longest time of all of it: a quarter of a turn to make all resident, and three parts of it
/// for the selects that hit, as many for those that miss, and a half for the reads.
pub(super) fn time(options: &Options) -> Duration {
    options.plan.cell(options.threads.len()).mul_f64(2.25)
}

/// Processor microseconds of a miss in a round.
pub(super) fn miss_us(round: &[&Turn]) -> Option<f64> {
    let misses = round[TIGHT].per_transaction(Meter::Reads)?;
    Some((round[TIGHT].cpu_us()? - round[ROOMY].cpu_us()?) / misses.max(1e-9))
}

/// The processor time of a miss divided by that of a bare read.
pub(super) fn ratio(round: &[&Turn]) -> Option<f64> {
    Some(miss_us(round)? / round[BARE].cpu_us()?)
}

/// Measures the price for every number of threads: a cell of each.
pub(super) fn prices(
    site: &Arc<Site>,
    options: &Options,
    bare: &PageLoop<'_>,
    progress: &mut Progress,
) -> Result<Vec<Cell>> {
    let mut sides = SIDES.map(Series::new);
    let pools = [SMALLEST.max(options.data_bytes_at_most() * 2), SMALLEST];
    let price = |&threads: &usize| {
        let turn = |side: usize, _: &mut Series| match pools.get(side) {
            Some(&bytes) => selects(site, options, bytes, threads, progress),
            None => bare.run(threads, options.plan.turn / 2),
        };
        let decided = |turns: &[Vec<Turn>]| claims::decided(&by_round(turns, ratio), PRICE);
        Cell::until(&[&threads.to_string()], &mut sides, options.plan.rounds, turn, decided)
    };
    options.threads.iter().map(price).collect()
}

/// A turn of point selects.
fn selects(
    site: &Arc<Site>,
    options: &Options,
    pool_bytes: u64,
    threads: usize,
    progress: &mut Progress,
) -> Result<Turn> {
    let (turn, rows, seed) = (options.plan.turn, options.rows, options.plan.seed);
    let work = |mix, threads| Work { sessions: Sessions::Sysbench { mix, rows, threads }, seed };
    let mut engine = Embedded::open("point selects", Arc::clone(site), &Settings::pool(pool_bytes))?;
    if pool_bytes > SMALLEST {
        // One pass over the table makes all of it resident.
        let every_row = Mix { range_size: rows, simple_ranges: 1, point_selects: 0, ..Mix::POINT_SELECT };
        engine.warm_up(&work(every_row, 1), turn / 4, progress)?;
    }
    let work = work(Mix::POINT_SELECT, threads);
    engine.warm_up(&work, turn / 4, progress)?;
    engine.turn(&work, "the price of a miss", turn / 2, progress)
}
