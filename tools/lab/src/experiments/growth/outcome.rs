//! What was measured, judged and shown.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::plan::{GB, Step};
use crate::claims::{Bar, Claim, Evidence};
use crate::document::Run;
use crate::figures::{Chart, Grid, Line};
use crate::measure::{human, or_dash};

/// Bytes that an engine collects of the entries of an index before they leave memory, and what an
/// entry of the added index takes of them.
const SORT_BYTES: u64 = 64 << 20;
const ENTRY_BYTES: u64 = 33;
/// Bars: time per GB, and memory, of the largest size by those of the smallest.
const TIME: Bar = Bar::AtMost(1.2);
const MEMORY: Bar = Bar::AtMost(1.1);

/// What a step took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Taken {
    pub seconds: f64,
    pub peak_bytes: u64,
}

/// What was done before the kill.
pub(super) struct Killed {
    /// The rows that committed transactions have changed.
    pub changed: HashSet<u32>,
    pub log_bytes: u64,
}

/// What was measured of a size.
#[derive(Clone, Debug, Default)]
pub(super) struct Size {
    pub mib: u64,
    pub rows: u32,
    /// The file of the table after the load.
    pub bytes: u64,
    /// The steps in their order: on a server there are less.
    pub taken: Vec<(Step, Taken)>,
    /// Age of the log at the kill.
    pub log_bytes: u64,
    /// Rows that the dump lacks, and those that the recovered database lacks or has otherwise.
    pub lost: [u64; 2],
    pub findings: u64,
}

impl Size {
    pub fn taken(&self, step: Step) -> Option<Taken> {
        self.taken.iter().find(|(of, _)| *of == step).map(|(_, taken)| *taken)
    }

    fn gb(&self) -> f64 {
        self.bytes as f64 / GB
    }

    /// Seconds per GB, or seconds, of a step.
    fn cost(&self, step: Step) -> Option<f64> {
        let seconds = self.taken(step)?.seconds;
        Some(if step.is_per_gb() { seconds / self.gb() } else { seconds })
    }

    /// The memory that a larger size may take in a step: the peak, and what the buffer of the sort
    /// had left. An allocator may keep that buffer in the steps behind it.
    fn memory_for_larger(&self, step: Step) -> Option<f64> {
        let left = SORT_BYTES.saturating_sub(u64::from(self.rows) * ENTRY_BYTES);
        Some((self.taken(step)?.peak_bytes + left) as f64)
    }
}

/// The figure of the largest size by that of the smallest.
fn grown(sizes: &[Size], of: impl Fn(&Size) -> Option<f64>, by: impl Fn(&Size) -> Option<f64>) -> Option<f64> {
    Some(of(sizes.last()?)? / by(sizes.first()?)?)
}

/// The steps that were measured.
fn steps(sizes: &[Size]) -> Vec<Step> {
    sizes.first().map(|size| size.taken.iter().map(|(step, _)| *step).collect()).unwrap_or_default()
}

pub(super) fn claims(sizes: &[Size]) -> Vec<Claim> {
    let mib = |size: Option<&Size>| size.map_or(0, |size| size.mib);
    let compared = format!("at {} MiB, by that at {}", mib(sizes.last()), mib(sizes.first()));
    let steps = steps(sizes);
    let times = steps.iter().map(|&step| {
        let cost = |size: &Size| size.cost(step);
        let per = if step.is_per_gb() { " per GB" } else { "" };
        let text = format!("{}: time{per} {compared}", step.name());
        Claim::new(text, Evidence::once(grown(sizes, cost, cost)), TIME)
    });
    let peak = |step: Step| move |size: &Size| Some(size.taken(step)?.peak_bytes as f64);
    let memory = |&step| Evidence::once(grown(sizes, peak(step), |size| size.memory_for_larger(step)));
    let memory: Vec<Evidence> = steps.iter().map(memory).collect();
    let sum = |of: &dyn Fn(&Size) -> u64| Evidence::Counted(sizes.iter().map(of).sum::<u64>() as f64);
    let mut claims: Vec<Claim> = times.collect();
    claims.extend([
        Claim::worst(format!("peak memory of a step {compared}"), memory, MEMORY),
        Claim::new("rows that a dump lacks", sum(&|size| size.lost[0]), Bar::Exactly(0.0)),
        Claim::new(
            "rows that a recovered database lacks or has otherwise",
            sum(&|size| size.lost[1]),
            Bar::Exactly(0.0),
        ),
        Claim::new("findings of the checks", sum(&|size| size.findings), Bar::Exactly(0.0)),
    ]);
    claims
}

/// Tables of the sizes of an engine, `whose` in their titles.
pub(super) fn grids(whose: &str, sizes: &[Size]) -> Vec<Grid> {
    let steps = steps(sizes);
    let names: Vec<String> = steps.iter().map(|step| format!("{}, {}", step.name(), step.unit())).collect();
    let header: Vec<&str> = ["MiB", "GB"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut times = Grid::new(&format!("Time{whose}"), 0, &header, "GB: the table after the load. Recovery: seconds.");
    let header: Vec<&str> = ["MiB", "log, MB"].into_iter().chain(steps.iter().map(|step| step.name())).collect();
    let note = "The peak of the process in each step, in MB. Log: what the recovery reads.";
    let mut memory = Grid::new(&format!("Memory{whose}"), 0, &header, note);
    let cell = |value| or_dash(value, human);
    for size in sizes {
        let costs = steps.iter().map(|&step| cell(size.cost(step)));
        times.rows.push([size.mib.to_string(), human(size.gb())].into_iter().chain(costs).collect());
        let peaks = steps.iter().map(|&step| cell(size.taken(step).map(|taken| taken.peak_bytes as f64 / 1e6)));
        let log = human(size.log_bytes as f64 / 1e6);
        memory.rows.push([size.mib.to_string(), log].into_iter().chain(peaks).collect());
    }
    vec![times, memory]
}

pub(super) fn charts(sizes: &[Size]) -> Vec<Chart> {
    let lines = |of: &dyn Fn(&Size, Step) -> Option<f64>| -> Vec<Line> {
        let line =
            |step: Step| Line::new(step.name(), sizes.iter().filter_map(|size| Some((size.gb(), of(size, step)?))));
        steps(sizes).into_iter().map(line).collect()
    };
    let times = lines(&|size, step| Some(size.taken(step)?.seconds / size.gb()));
    let memory = lines(&|size, step| Some(size.taken(step)?.peak_bytes as f64 / 1e6));
    vec![
        Chart::over("Time", "GB of the table", "seconds per GB", times),
        Chart::over("Peak memory", "GB of the table", "MB", memory),
    ]
}

/// A size of an engine in the document.
pub(super) fn document_run(target: &str, name: &str, size: &Size) -> Run {
    let step = |(step, taken): &(Step, Taken)| {
        let value = json!({
            "seconds": taken.seconds,
            "seconds_per_gb": taken.seconds / size.gb(),
            "peak_memory_bytes": taken.peak_bytes,
        });
        (step.name().to_owned(), value)
    };
    let steps: Map<String, Value> = size.taken.iter().map(step).collect();
    let metrics = json!({
        "mib": size.mib,
        "rows": size.rows,
        "table_bytes": size.bytes,
        "steps": steps,
        "log_bytes_at_kill": size.log_bytes,
        "rows_lost_by_dump": size.lost[0],
        "rows_lost_by_recovery": size.lost[1],
        "findings": size.findings,
    });
    Run::new(target, name, metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Answer;
    use crate::conditions::Conditions;

    const STEPS: [Step; 7] =
        [Step::Load, Step::Dump, Step::Check, Step::Index, Step::Backup, Step::Restore, Step::Recovery];

    fn size(mib: u64, seconds: f64, peak_bytes: u64) -> Size {
        let rows = (mib << 20) / 256;
        let taken = STEPS.map(|step| (step, Taken { seconds, peak_bytes })).into();
        Size { mib, rows: rows as u32, bytes: mib * 1_000_000, taken, ..Size::default() }
    }

    fn answers(sizes: &[Size]) -> Vec<(String, Option<f64>, Answer)> {
        let judged = claims(sizes).into_iter().map(|claim| claim.judge(&Conditions::busy_machine()));
        judged.map(|verdict| (verdict.claim, verdict.value, verdict.answer)).collect()
    }

    #[test]
    fn steps_are_judged_per_gb_and_recovery_in_seconds() {
        let answers = answers(&[size(100, 2.0, 50 << 20), size(400, 8.0, 50 << 20)]);
        assert_eq!(answers[0], ("load: time per GB at 400 MiB, by that at 100".into(), Some(1.0), Answer::Holds));
        assert_eq!(answers[6], ("recovery: time at 400 MiB, by that at 100".into(), Some(4.0), Answer::CannotTell));
        assert!(answers[7..].iter().all(|(.., answer)| *answer == Answer::Holds), "{answers:?}");
    }

    #[test]
    fn memory_may_grow_by_what_the_sort_had_left() {
        let check = Step::Check as usize;
        let mut sizes = [size(32, 1.0, 30_000_000), size(10_000, 1.0, 30_000_000)];
        sizes[1].taken[check].1.peak_bytes += SORT_BYTES;
        assert_eq!(answers(&sizes)[7].2, Answer::Holds);
        sizes[1].taken[check].1.peak_bytes += SORT_BYTES;
        assert_eq!(answers(&sizes)[7].2, Answer::CannotTell);
        let mut sizes = [size(1_000, 1.0, 30_000_000), size(10_000, 1.0, 30_000_000)];
        sizes[1].taken[check].1.peak_bytes += 4_000_000;
        assert_eq!(answers(&sizes)[7].2, Answer::CannotTell, "the smallest size fills the buffer");
    }

    #[test]
    fn a_lost_row_fails() {
        let lossy = Size { lost: [0, 1], ..size(400, 1.0, 1) };
        let answers = answers(&[size(100, 1.0, 1), lossy]);
        assert_eq!([answers[8].2, answers[9].2], [Answer::Holds, Answer::Fails]);
    }
}
