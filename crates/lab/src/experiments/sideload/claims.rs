//! The claims of the experiment, and the verdicts on them.

use super::scenario::{Outcome, Start, TURNOVERS};
use crate::document::{Bar, Verdict};
use crate::measure::Figure;
use crate::target::{Hint, Policy};
use crate::worker::Speed;

/// Least share of the ceiling that OLTP and dump must each reach.
const SHARE: f64 = 0.95;
/// Most pages read until warm, as a multiple of a cold start without the dump.
const COLD_READS: f64 = 1.05;
/// Least factor by which OLTP slows down with the midpoint list without a delay, on a disk that
/// seeks.
const COLLAPSE: f64 = 50.0;
/// Without a delay: fewest pages made young per page of the dump. Below 1, since nothing moves
/// until the first eviction.
const MADE_YOUNG: f64 = 0.5;
/// With the delay: most pages made young per page of the dump. Above 0: the page at the end of one
/// batch of rows is touched again for the next batch. A dump that waits for a core in between comes
/// back after the delay.
const MADE_YOUNG_LATE: f64 = 0.25;
/// With the delay: fewest touches per page of the dump that come too early. Each row but the first
/// causes one.
const NOT_YOUNG: f64 = 10.0;

fn find(outcomes: &[Outcome], start: Start, full: bool, is: impl Fn(&Policy) -> bool) -> Option<&Outcome> {
    outcomes.iter().find(|o| o.start == start && (o.speed == Speed::Full) == full && is(&o.policy))
}

/// All verdicts of the experiment. `spinning` is true if the disk is one on which a seek takes the
/// time of many transactions.
#[must_use]
pub fn verdicts(outcomes: &[Outcome], spinning: bool) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for hint in [Hint::Declared, Hint::Undeclared] {
        verdicts.extend(holdfast(outcomes, hint));
    }
    verdicts.extend(midpoint(outcomes, spinning));
    verdicts
}

fn median(figure: Option<Figure>) -> Option<f64> {
    figure.map(|f| f.median)
}

fn holdfast(outcomes: &[Outcome], hint: Hint) -> Vec<Verdict> {
    let policy = Policy::Holdfast { hint };
    let mut verdicts = Vec::new();
    for start in [Start::Warm, Start::Cold] {
        let outcome = find(outcomes, start, true, |p| *p == policy);
        let name = format!("{policy}, {}", start.name());
        let oltp = outcome.and_then(|o| median(o.oltp_ratio()));
        let claim = format!("{name}: OLTP beside the dump, as a share of its rate when the pool holds both tables");
        verdicts.push(Verdict::new(claim, oltp, Bar::AtLeast(SHARE)));
        let dump = outcome.and_then(|o| median(o.dump_ratio()));
        let claim = format!("{name}: the dump beside OLTP, as a share of its rate when the pool holds both tables");
        verdicts.push(Verdict::new(claim, dump, Bar::AtLeast(SHARE)));
        // Zero reads prove nothing over too few turnovers.
        let enough = outcome.filter(|o| o.turnovers >= TURNOVERS);
        let turnovers = outcome.map_or(0.0, |o| o.turnovers);
        let claim = format!(
            "{name}: hot-table pages read from disk over {turnovers:.0} turnovers of the hot set (at least \
             {TURNOVERS:.0})"
        );
        verdicts.push(Verdict::new(claim, enough.map(|o| o.hot_reads as f64), Bar::Exactly(0.0)));
    }
    let cold = find(outcomes, Start::Cold, true, |p| *p == policy).and_then(|o| o.warmth);
    let alone = find(outcomes, Start::Warm, true, |p| *p == policy).and_then(|o| o.warmth);
    let ratio = match (cold, alone) {
        (Some(cold), Some(alone)) if cold.reached && alone.reached && alone.pages_read > 0 => {
            Some(cold.pages_read as f64 / alone.pages_read as f64)
        }
        _ => None,
    };
    let claim = format!(
        "{policy}, cold: pages read until the hot table is resident, as a share of those of a cold start without the dump"
    );
    verdicts.push(Verdict::new(claim, ratio, Bar::AtMost(COLD_READS)));
    verdicts
}

fn midpoint(outcomes: &[Outcome], spinning: bool) -> Vec<Verdict> {
    let undelayed = |p: &Policy| matches!(p, Policy::Midpoint { time_ms: 0, .. });
    let delayed = |p: &Policy| matches!(p, Policy::Midpoint { time_ms: 1.., .. });
    let mut verdicts = Vec::new();
    if spinning {
        let alone = find(outcomes, Start::Warm, true, undelayed).and_then(|o| o.tps_alone);
        let beside = find(outcomes, Start::Cold, true, undelayed).and_then(|o| o.tps());
        let factor = alone.zip(beside).map(|(alone, beside)| alone / beside.median.max(1e-3));
        let claim = "midpoint_lru, time 0, cold: factor by which OLTP collapses beside the dump";
        verdicts.push(Verdict::new(claim, factor, Bar::AtLeast(COLLAPSE)));
    }
    // InnoDB's counts. Without a delay the second row of a page makes it young. With a delay, the
    // dump has left the page before it may become young, and every row but the first counts as "not
    // young".
    let per_page = |count: u64, o: &Outcome| count as f64 / o.dumped_pages.max(1.0);
    let cold = find(outcomes, Start::Cold, true, undelayed);
    let claim = "midpoint_lru, time 0: pages made young per page that the dump reads";
    verdicts.push(Verdict::new(claim, cold.map(|o| per_page(o.young.0, o)), Bar::AtLeast(MADE_YOUNG)));
    let claim = "midpoint_lru, time 0: touches counted as not young";
    verdicts.push(Verdict::new(claim, cold.map(|o| o.young.1 as f64), Bar::Exactly(0.0)));
    let cold = find(outcomes, Start::Cold, true, delayed);
    let claim = "midpoint_lru, with the delay: pages made young per page that the dump reads";
    verdicts.push(Verdict::new(claim, cold.map(|o| per_page(o.young.0, o)), Bar::AtMost(MADE_YOUNG_LATE)));
    let claim = "midpoint_lru, with the delay: touches counted as not young per page that the dump reads";
    verdicts.push(Verdict::new(claim, cold.map(|o| per_page(o.young.1, o)), Bar::AtLeast(NOT_YOUNG)));
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::scenario::Warmth;
    use super::*;
    use crate::target::PoolState;

    fn outcome(policy: Policy, start: Start, tps: f64) -> Outcome {
        let pool = PoolState::default();
        Outcome {
            policy,
            start,
            speed: Speed::Full,
            tps_alone: Some(1000.0),
            tps_beside: vec![tps; 3],
            ceiling_tps: vec![1000.0; 3],
            dump_alone: None,
            dump_beside: vec![97.0; 3],
            ceiling_dump: vec![100.0; 3],
            p95_ms: 1.0,
            hot_reads: 0,
            turnovers: 25.0,
            warmth: Some(Warmth { pages_read: 100, seconds: 1.0, reached: true }),
            pools: [pool.clone(), pool.clone(), pool],
            young: (95, 0),
            dumped_pages: 100.0,
            samples: Vec::new(),
            phases: Vec::new(),
        }
    }

    fn all_good() -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for start in [Start::Warm, Start::Cold] {
            for hint in [Hint::Declared, Hint::Undeclared] {
                outcomes.push(outcome(Policy::Holdfast { hint }, start, 980.0));
            }
            outcomes.push(outcome(Policy::Midpoint { pct: 37, time_ms: 0 }, start, 10.0));
            let mut delayed = outcome(Policy::Midpoint { pct: 37, time_ms: 10 }, start, 10.0);
            delayed.young = (3, 5000);
            outcomes.push(delayed);
        }
        outcomes
    }

    #[test]
    fn good_outcomes_hold() {
        let verdicts = verdicts(&all_good(), true);
        assert_eq!(verdicts.len(), 19);
        assert!(verdicts.iter().all(|v| v.holds), "{verdicts:#?}");
        assert_eq!(super::verdicts(&all_good(), false).len(), 18, "no collapse is claimed of a fast disk");
    }

    #[test]
    fn every_way_to_fail_is_noticed() {
        let failing = |change: &dyn Fn(&mut Outcome)| {
            let mut outcomes = all_good();
            outcomes
                .iter_mut()
                .filter(|o| matches!(o.policy, Policy::Holdfast { hint: Hint::Declared }))
                .for_each(change);
            verdicts(&outcomes, true).iter().filter(|v| !v.holds).count()
        };
        assert_eq!(failing(&|o| o.tps_beside = vec![949.0, 900.0, 2000.0]), 2, "the median counts");
        assert_eq!(failing(&|o| o.dump_beside = vec![1.0; 3]), 2);
        assert_eq!(failing(&|o| o.hot_reads = 1), 2);
        assert_eq!(failing(&|o| o.turnovers = 19.0), 2, "zero reads over too few turnovers");
        let slow = Warmth { pages_read: 106, seconds: 1.0, reached: true };
        assert_eq!(failing(&|o| o.warmth = (o.start == Start::Cold).then_some(slow).or(o.warmth)), 1);
        assert_eq!(failing(&|o| o.warmth = o.warmth.map(|w| Warmth { reached: o.start == Start::Warm, ..w })), 1);
    }

    #[test]
    fn a_midpoint_list_that_does_not_collapse_is_noticed() {
        let mut outcomes = all_good();
        let cold = |o: &&mut Outcome| o.policy == Policy::Midpoint { pct: 37, time_ms: 0 } && o.start == Start::Cold;
        if let Some(o) = outcomes.iter_mut().find(cold) {
            o.tps_beside = vec![21.0; 3];
            o.young = (10, 1);
        }
        assert_eq!(verdicts(&outcomes, true).iter().filter(|v| !v.holds).count(), 3);
        assert!(verdicts(&[], true).iter().all(|v| !v.holds), "without runs nothing holds");
    }
}
