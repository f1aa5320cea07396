//! The claims of the experiment on the embedded engine.

use super::options::Start;
use super::scenario::Outcome;
use super::shares::Shares;
use crate::claims::{Bar, Claim, Evidence};
use crate::target::{Hint, Policy};
use crate::worker::Speed;

/// Most pages read until warm, as a multiple of a cold start without the dump.
const COLD_READS: Bar = Bar::AtMost(1.05);
/// Least factor by which OLTP slows down with the midpoint list without a delay, on a disk that
/// seeks.
const COLLAPSE: Bar = Bar::AtLeast(50.0);
/// Without a delay: fewest pages made young per page of the dump. Below 1, since nothing moves
/// until the first eviction.
const MADE_YOUNG: Bar = Bar::AtLeast(0.5);
/// With the delay: most pages made young per page of the dump. Above 0: the page at the end of one
/// batch of rows is touched again for the next batch. A dump that waits for a core in between comes
/// back after the delay.
const MADE_YOUNG_LATE: Bar = Bar::AtMost(0.25);
/// With the delay: fewest touches per page of the dump that come too early. Each row but the first
/// causes one.
const NOT_YOUNG: Bar = Bar::AtLeast(10.0);

fn find(outcomes: &[Outcome], start: Start, is: impl Fn(&Policy) -> bool) -> Option<&Outcome> {
    outcomes.iter().find(|o| o.start == start && o.speed == Speed::Full && is(&o.policy))
}

/// All claims of the experiment. `spinning` is true if the disk is one on which a seek takes the
/// time of many transactions.
#[must_use]
pub fn claims(outcomes: &[Outcome], spinning: bool) -> Vec<Claim> {
    let holdfast = [Hint::Declared, Hint::Undeclared].into_iter().flat_map(|hint| holdfast(outcomes, hint));
    holdfast.chain(midpoint(outcomes, spinning)).collect()
}

fn holdfast(outcomes: &[Outcome], hint: Hint) -> Vec<Claim> {
    let policy = Policy::Holdfast { hint };
    let mut claims = Vec::new();
    for start in [Start::Warm, Start::Cold] {
        let outcome = find(outcomes, start, |p| *p == policy);
        let (oltp, dump) = outcome.map_or_else(Default::default, |o| (o.oltp_ratios(), o.dump_ratios()));
        let beside = Shares {
            name: format!("{policy}, {}", start.name()),
            oltp: &oltp,
            dump: &dump,
            hot_reads: outcome.map(|o| o.hot_reads),
            turnovers: outcome.map_or(0.0, |o| o.turnovers),
        };
        claims.extend(beside.claims());
    }
    let cold = find(outcomes, Start::Cold, |p| *p == policy).and_then(|o| o.warmth);
    let alone = find(outcomes, Start::Warm, |p| *p == policy).and_then(|o| o.warmth);
    let ratio = match (cold, alone) {
        (Some(cold), Some(alone)) if cold.reached && alone.reached && alone.pages_read > 0 => {
            Some(cold.pages_read as f64 / alone.pages_read as f64)
        }
        _ => None,
    };
    let text = format!(
        "{policy}, cold: pages read until the hot table is resident, as a share of those of a cold start without the dump"
    );
    claims.push(Claim::new(text, Evidence::counted(ratio), COLD_READS));
    claims
}

fn midpoint(outcomes: &[Outcome], spinning: bool) -> Vec<Claim> {
    let undelayed = |p: &Policy| matches!(p, Policy::Midpoint { time_ms: 0, .. });
    let delayed = |p: &Policy| matches!(p, Policy::Midpoint { time_ms: 1.., .. });
    let mut claims = Vec::new();
    let cold = find(outcomes, Start::Cold, undelayed);
    if spinning {
        let alone = find(outcomes, Start::Warm, undelayed).and_then(|o| o.tps_alone);
        let factors = alone.zip(cold).map(|(alone, cold)| cold.collapse(alone)).unwrap_or_default();
        let text = "midpoint_lru, time 0, cold: factor by which OLTP collapses beside the dump";
        claims.push(Claim::new(text, Evidence::turns(&factors), COLLAPSE));
    }
    // InnoDB's counts. Without a delay the second row of a page makes it young. With a delay, the
    // dump has left the page before it may become young, and every row but the first counts as "not
    // young".
    let per_page = |count: u64, o: &Outcome| count as f64 / o.dumped_pages.max(1.0);
    let mut claim = |text: &str, of: Option<f64>, bar| {
        claims.push(Claim::new(format!("midpoint_lru, {text}"), Evidence::counted(of), bar));
    };
    claim("time 0: pages made young per page that the dump reads", cold.map(|o| per_page(o.young.0, o)), MADE_YOUNG);
    claim("time 0: touches counted as not young", cold.map(|o| o.young.1 as f64), Bar::Exactly(0.0));
    let cold = find(outcomes, Start::Cold, delayed);
    claim(
        "with the delay: pages made young per page that the dump reads",
        cold.map(|o| per_page(o.young.0, o)),
        MADE_YOUNG_LATE,
    );
    claim(
        "with the delay: touches counted as not young per page that the dump reads",
        cold.map(|o| per_page(o.young.1, o)),
        NOT_YOUNG,
    );
    claims
}

#[cfg(test)]
mod tests {
    use super::super::scenario::Warmth;
    use super::*;
    use crate::claims::{Answer, Verdict, worst};
    use crate::conditions::Conditions;
    use crate::target::PoolState;

    fn verdicts(outcomes: &[Outcome], spinning: bool) -> Vec<Verdict> {
        claims(outcomes, spinning).iter().map(|c| c.judge(&Conditions::quiet_machine())).collect()
    }

    fn failing(outcomes: &[Outcome]) -> usize {
        verdicts(outcomes, true).iter().filter(|v| v.answer == Answer::Fails).count()
    }

    fn outcome(policy: Policy, start: Start, tps: f64) -> Outcome {
        let pool = PoolState::default();
        Outcome {
            policy,
            start,
            speed: Speed::Full,
            tps_alone: Some(1000.0),
            tps_beside: vec![tps; 3],
            tps_in_cold: vec![tps; 3],
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
        assert_eq!(worst(&verdicts), Answer::Holds, "{verdicts:#?}");
        assert_eq!(claims(&all_good(), false).len(), 18, "no collapse is claimed of a fast disk");
    }

    #[test]
    fn every_way_to_fail_is_noticed() {
        let failing = |change: &dyn Fn(&mut Outcome)| {
            let mut outcomes = all_good();
            outcomes
                .iter_mut()
                .filter(|o| matches!(o.policy, Policy::Holdfast { hint: Hint::Declared }))
                .for_each(change);
            super::tests::failing(&outcomes)
        };
        assert_eq!(failing(&|o| o.tps_beside = vec![900.0; 3]), 2);
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
            o.tps_in_cold = vec![21.0; 3];
            o.young = (10, 1);
        }
        assert_eq!(failing(&outcomes), 3);
        assert_eq!(failing(&[]), 19, "without runs nothing holds");
    }
}
