//! `flush`: flushing without bursts.
//!
//! dbSTRESS RW=1, 2010: MySQL 5.5.4 flushed too eagerly, never using more than half of its redo
//! log; 5.5.6 too lazily: the log ran full, a burst of flushing followed, and throughput dropped.
//! Both show in the checkpoint age. Here the age has to settle at 60 % of the capacity or above and
//! to stay there, while throughput stays even.
//!
//! 1. The age grows to its target at memory speed, over two laps of the log.
//! 2. The model of the disk is switched on, and the age settles.
//! 3. The seconds from then on are measured.
//!
//! On the real disk a loop of small appends with syncs runs at the same time. Its seconds show the
//! unevenness of the disk itself.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use holdfast::FlushMethod;
use holdfast_workload::dbstress;
use serde_json::json;

use crate::claims::{Bar, Claim, Evidence};
use crate::document::{Document, Run, metrics};
use crate::figures::{Chart, Figures, Grid};
use crate::machine::Machine;
use crate::measure::{Figure, human};
use crate::progress::Progress;
use crate::rig::control::SyncLoop;
use crate::rig::sampler::{Sample, Sampler};
use crate::rig::sessions::dbstress as sessions;
use crate::rig::site::{DiskKind, Settings, Site, Tables, modelled};
use crate::stats::Estimate;

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// OBJECTs.
    pub objects: u32,
    /// Sessions.
    pub sessions: u32,
    /// Capacities of the log, in bytes.
    pub capacities: Vec<u64>,
    /// How many times as fast as the published disk the model is.
    pub speed: f64,
    /// The time for the age to settle, and the measured time.
    pub settle: Duration,
    /// See `settle`.
    pub measured: Duration,
    /// Directory of the real disk.
    pub dir: PathBuf,
    /// Seed of data and load.
    pub seed: u64,
}

/// Longest warm-up at memory speed.
const WARM_UP_MAX: Duration = Duration::from_secs(60);
/// The least age at which the checkpoint has to settle, as a share of the capacity.
pub(crate) const TARGET: f64 = 0.6;

/// One disk with one capacity.
struct Case {
    disk: &'static str,
    capacity: u64,
    /// The measured seconds.
    samples: Vec<Sample>,
    /// Syncs per second of the loop beside it, by second.
    syncs: Vec<f64>,
    charts: Vec<Chart>,
}

impl Case {
    fn name(&self) -> String {
        format!("{}, log {} MB", self.disk, self.capacity >> 20)
    }

    fn ages(&self) -> Vec<f64> {
        self.samples.iter().map(|s| s.age_bytes as f64 / self.capacity as f64).collect()
    }

    fn age(&self) -> Option<Figure> {
        Figure::of(&self.ages())
    }

    /// The largest distance of the age from its median, as a share of the median.
    fn age_swing(&self) -> Option<f64> {
        self.age().map(swing)
    }

    fn tps(&self) -> Vec<f64> {
        self.samples.iter().map(|s| s.tps).collect()
    }

    /// The seconds in which throughput was a fifth below its median while the age fell by a
    /// fiftieth of the capacity.
    fn dips(&self) -> Option<f64> {
        let median = Figure::of(&self.tps())?.median;
        let ages: Vec<f64> = self.samples.iter().map(|s| s.age_bytes as f64).collect();
        Some(dips(&self.tps(), &ages, median, self.capacity) as f64)
    }
}

/// The largest distance of the age from its median, as a share of the median.
pub(crate) fn swing(age: Figure) -> f64 {
    (age.max - age.median).max(age.median - age.min) / age.median
}

/// The seconds in which throughput was a fifth below `median` while the age fell by a fiftieth of
/// the capacity.
pub(crate) fn dips(tps: &[f64], ages: &[f64], median: f64, capacity: u64) -> usize {
    let fell = ages.windows(2).map(|w| w[0] - w[1] > capacity as f64 / 50.0);
    fell.zip(&tps[1.min(tps.len())..]).filter(|(fell, tps)| *fell && **tps < 0.8 * median).count()
}

/// The 5th percentile of the seconds, as a share of their median.
pub(crate) fn evenness(seconds: &[f64]) -> Option<f64> {
    let median = Figure::of(seconds)?.median;
    let mut sorted = seconds.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted[sorted.len() * 5 / 100] / median)
}

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If the data cannot be loaded, or a session fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<(Document, String)> {
    let mut cases = Vec::new();
    for &capacity in &options.capacities {
        cases.push(case(options, "modelled disk", &modelled(options.speed), capacity, progress)?);
    }
    let real = DiskKind::Real { dir: options.dir.clone(), method: FlushMethod::ODirect };
    let smallest = options.capacities.iter().copied().min().context("no capacity")?;
    cases.push(case(options, "real disk", &real, smallest, progress)?);

    let mut document = Document::new("flush", settings(options), Machine::this(Some(&options.dir)));
    document.title = "Flushing without bursts".to_owned();
    document.runs = cases.iter().map(document_run).collect();
    document.claims = cases.iter().filter(|c| c.syncs.is_empty()).flat_map(claims).collect();
    let charts = cases.iter().map(|c| (c.name(), c.charts.clone())).collect();
    document.figures = Figures { lead: lead(options), words: Vec::new(), grids: vec![grid(&cases)], charts };
    let text = document.figures.text();
    Ok((document, text))
}

fn case(
    options: &Options,
    disk: &'static str,
    kind: &DiskKind,
    capacity: u64,
    progress: &mut Progress,
) -> Result<Case> {
    let load = dbstress::Options::light(options.objects, options.sessions, 1);
    progress.step(&format!("{disk}, log {} MB", capacity >> 20));
    progress.show("loading");
    let site = Site::load(kind, Tables::DbStress(load), options.seed)?;
    let settings =
        Settings { log_bytes: Some(capacity), ..Settings::pool(u64::from(options.objects) * 8000 + (32 << 20)) };
    let db = site.open(&settings)?;
    let load = sessions(&db, &site, load, options.seed);
    let mut sampler = Sampler::new(&db);
    site.set_slow(false);
    let (mut warm, mut written) = (Duration::ZERO, 0.0);
    let step = Duration::from_secs(1);
    // One lap of the log, and one more: by then the first changes of the dirty pages are spread
    // evenly over it.
    while warm < WARM_UP_MAX && written < 2.0 * TARGET * capacity as f64 {
        sampler.run("warm-up at memory speed", &load, step, progress)?;
        warm += step;
        written += sampler.latest().map_or(0.0, |s| s.log_bytes_per_s);
    }
    site.set_slow(true);
    sampler.run("settling", &load, options.settle, progress)?;
    let from = sampler.samples.len();
    let syncs = match site.path() {
        Some(path) => Some(SyncLoop::start(path.parent().unwrap_or(path))?),
        None => None,
    };
    let mut seconds = Vec::new();
    if let Some(syncs) = &syncs {
        // One second at a time, so that the seconds of the loop are those of the load.
        for _ in 0..options.measured.as_secs() {
            let before = (syncs.count(), std::time::Instant::now());
            sampler.run("measured", &load, step, progress)?;
            seconds.push((syncs.count() - before.0) as f64 / before.1.elapsed().as_secs_f64());
        }
    } else {
        sampler.run("measured", &load, options.measured, progress)?;
    }
    site.set_slow(false);
    let charts = sampler.charts(&format!("Log {} MB", capacity >> 20), &load);
    let samples = sampler.samples.split_off(from);
    Ok(Case { disk, capacity, samples, syncs: seconds, charts })
}

fn lead(options: &Options) -> String {
    format!(
        "dbSTRESS RW=1, {} sessions. Published in 2010: MySQL 5.5.4 never used more than half of its redo log, 5.5.6 let it run full, and \
         TPS dropped with every burst of flushing. Target here: the checkpoint age settles at 60 % of the capacity or above.",
        options.sessions
    )
}

fn settings(options: &Options) -> serde_json::Value {
    json!({
        "workload": "dbSTRESS RW=1, a WRITE is one UPDATE",
        "anti_dead": "slices", "hpk": true, "same_ref": true, "distribution": "uniform",
        "objects": options.objects,
        "sessions": options.sessions,
        "log_capacities_mib": options.capacities.iter().map(|c| c >> 20).collect::<Vec<_>>(),
        "model": modelled(options.speed).describe(),
        "settle_s": options.settle.as_secs_f64(),
        "measured_s": options.measured.as_secs_f64(),
        "seed": options.seed,
    })
}

/// The claims that the embedded engine and servers have in common: about the age of the checkpoint,
/// as shares of the capacity, and about the seconds in which TPS dipped.
pub(crate) fn age_claims(name: &str, ages: &[f64], dips: Option<f64>) -> Vec<Claim> {
    let claim = |text: &str, of, bar| Claim::new(format!("{name}: {text}"), of, bar);
    vec![
        claim("checkpoint age, as a share of the capacity", Evidence::turns(ages), Bar::AtLeast(TARGET)),
        claim(
            "farthest that the age is from its median",
            Evidence::once(Figure::of(ages).map(swing)),
            Bar::AtMost(0.1),
        ),
        claim("seconds in which TPS dips while the age falls", Evidence::once(dips), Bar::Exactly(0.0)),
    ]
}

/// The claim that the seconds are even, on a disk that is.
pub(crate) fn even_claim(name: &str, seconds: &[f64]) -> Claim {
    let even = Estimate::by(&[seconds], seconds.len(), &|parts| evenness(&parts[0]));
    let text = format!("{name}: 5th percentile of one-second TPS, as a share of the median");
    Claim::new(text, Evidence::estimate(even), Bar::AtLeast(0.8))
}

fn claims(case: &Case) -> Vec<Claim> {
    let mut claims = age_claims(&case.name(), &case.ages(), case.dips());
    claims.push(even_claim(&case.name(), &case.tps()));
    claims
}

fn document_run(case: &Case) -> Run {
    Run {
        target: "embedded".to_owned(),
        policy: case.name(),
        metrics: metrics(json!({
            "age_of_capacity": case.age(),
            "age_swing": case.age_swing(),
            "tps": Figure::of(&case.tps()),
            "tps_5th_percentile_of_median": evenness(&case.tps()),
            "dips": case.dips(),
            "syncs_per_s_beside": Figure::of(&case.syncs),
            "syncs_5th_percentile_of_median": evenness(&case.syncs),
            "samples": case.samples,
        })),
    }
}

fn grid(cases: &[Case]) -> Grid {
    let header = [
        "",
        "TPS",
        "5th pct of median",
        "age of capacity",
        "swing of the age",
        "dips",
        "log MB/s",
        "pages written/s",
        "syncs/s beside",
        "5th pct of median",
    ];
    let note = "Only the seconds after warm-up and settling. Syncs: a loop of appends of 512 bytes with a sync each, at the same time on the same disk.";
    let mut grid = Grid::new("Seconds that count", 1, &header, note);
    let number = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    for case in cases {
        let mean = |of: &dyn Fn(&Sample) -> f64| {
            Figure::of(&case.samples.iter().map(of).collect::<Vec<_>>()).map(|f| f.median)
        };
        let whole = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), human);
        grid.rows.push(vec![
            case.name(),
            whole(mean(&|s| s.tps)),
            number(evenness(&case.tps())),
            number(case.age().map(|a| a.median)),
            number(case.age_swing()),
            whole(case.dips()),
            number(mean(&|s| s.log_bytes_per_s / 1e6)),
            whole(mean(&|s| s.writes_per_s)),
            whole(Figure::of(&case.syncs).map(|f| f.median)),
            number(evenness(&case.syncs)),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_is_the_fifth_percentile_of_the_median() {
        let mut seconds = vec![100.0; 99];
        seconds.push(1.0);
        assert_eq!(evenness(&seconds), Some(1.0));
        assert_eq!(evenness(&[10.0, 100.0, 100.0]), Some(0.1));
        assert_eq!(evenness(&[]), None);
    }
}
