//! The claims of the experiment on the embedded engine.

use super::options::Start;
use super::outcome::{Outcome, Warmth};
use super::shares;
use crate::claims::{Bar, Claim, Evidence};
use crate::target::{Hint, Policy};

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

/// What a policy has measured.
pub type PolicyOutcome = (Policy, Outcome);

/// Less than a transaction in any sample: none counts as this many a second.
const LEAST_TPS: f64 = 0.1;

fn find(outcomes: &[PolicyOutcome], start: Start, is: impl Fn(&Policy) -> bool) -> Option<&Outcome> {
    let found = outcomes.iter().find(|(policy, o)| o.start == start && o.rate.is_none() && is(policy));
    found.map(|(_, outcome)| outcome)
}

/// All claims of the experiment. `spinning` is true if the disk is one on which a seek takes the
/// time of many transactions.
pub fn claims(outcomes: &[PolicyOutcome], spinning: bool) -> Vec<Claim> {
    let holdfast = [Hint::Declared, Hint::Undeclared].into_iter().flat_map(|hint| holdfast(outcomes, hint));
    holdfast.chain(midpoint(outcomes, spinning)).collect()
}

fn holdfast(outcomes: &[PolicyOutcome], hint: Hint) -> Vec<Claim> {
    let policy = Policy::Holdfast { hint };
    let mut claims = Vec::new();
    for start in [Start::Warm, Start::Cold] {
        let outcome = find(outcomes, start, |p| *p == policy);
        claims.extend(shares::claims(&format!("{policy}, {}", start.name()), outcome));
    }
    let cold = find(outcomes, Start::Cold, |p| *p == policy).and_then(|o| o.warmth);
    let alone = find(outcomes, Start::Warm, |p| *p == policy).and_then(|o| o.warmth);
    let reads = |w: Option<Warmth>| w.filter(|w| w.reached)?.reads.map(|n| n as f64).filter(|&n| n > 0.0);
    let ratio = reads(cold).zip(reads(alone)).map(|(cold, alone)| cold / alone);
    let text = format!(
        "{policy}, cold: pages read until the hot table is resident, as a share of those of a cold start without the dump"
    );
    claims.push(Claim::new(text, Evidence::counted(ratio), COLD_READS));
    claims
}

fn midpoint(outcomes: &[PolicyOutcome], spinning: bool) -> Vec<Claim> {
    let undelayed = |p: &Policy| matches!(p, Policy::Midpoint { time_ms: 0, .. });
    let delayed = |p: &Policy| matches!(p, Policy::Midpoint { time_ms: 1.., .. });
    let mut claims = Vec::new();
    let cold = find(outcomes, Start::Cold, undelayed);
    if spinning {
        let alone = find(outcomes, Start::Warm, undelayed).and_then(|o| o.tps_alone);
        let factors = |(alone, cold): (f64, &Outcome)| -> Vec<f64> {
            cold.tps_in_cold.iter().map(|tps| alone / tps.max(LEAST_TPS)).collect()
        };
        let factors = alone.zip(cold).map(factors).unwrap_or_default();
        let text = "midpoint_lru, time 0, cold: factor by which OLTP collapses beside the dump";
        claims.push(Claim::new(text, Evidence::turns(&factors), COLLAPSE));
    }
    // InnoDB's counts. Without a delay the second row of a page makes it young. With a delay, the
    // dump has left the page before it may become young, and every row but the first counts as "not
    // young".
    let made = |o: &Outcome| o.young.map(|(made, _)| made as f64);
    let spared = |o: &Outcome| o.young.map(|(_, spared)| spared as f64);
    // Of a dump that did not get a page nothing is known.
    let per_page = |count: f64, o: &Outcome| (o.dumped_pages > 0.0).then(|| count / o.dumped_pages);
    let made_per_page = |o: &Outcome| per_page(made(o)?, o);
    let spared_per_page = |o: &Outcome| per_page(spared(o)?, o);
    let mut claim = |text: &str, of: Option<f64>, bar| {
        claims.push(Claim::new(format!("midpoint_lru, {text}"), Evidence::counted(of), bar));
    };
    claim("time 0: pages made young per page that the dump reads", cold.and_then(made_per_page), MADE_YOUNG);
    claim("time 0: touches counted as not young", cold.and_then(spared), Bar::Exactly(0.0));
    let cold = find(outcomes, Start::Cold, delayed);
    claim(
        "with the delay: pages made young per page that the dump reads",
        cold.and_then(made_per_page),
        MADE_YOUNG_LATE,
    );
    claim(
        "with the delay: touches counted as not young per page that the dump reads",
        cold.and_then(spared_per_page),
        NOT_YOUNG,
    );
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Answer, Verdict, worst};
    use crate::conditions::Conditions;

    fn verdicts(outcomes: &[PolicyOutcome], spinning: bool) -> Vec<Verdict> {
        claims(outcomes, spinning).iter().map(|c| c.judge(&Conditions::quiet_machine())).collect()
    }

    fn failing(outcomes: &[PolicyOutcome]) -> usize {
        verdicts(outcomes, true).iter().filter(|v| v.answer == Answer::Fails).count()
    }

    fn outcome(policy: Policy, start: Start, tps: f64) -> PolicyOutcome {
        let of = Outcome {
            subject: policy.to_string(),
            start,
            tps_alone: Some(1000.0),
            tps_beside: vec![tps; 3],
            tps_in_cold: vec![tps; 3],
            ceiling_tps: vec![1000.0; 3],
            dump_s_beside: vec![100.0; 3],
            ceiling_dump_s: vec![97.0; 3],
            p95_ms: Some(1.0),
            hot_reads: Some(0),
            turnovers: 25.0,
            warmth: Some(Warmth { reads: Some(100), seconds: 1.0, reached: true, whole: true }),
            young: Some((95, 0)),
            dumped_pages: 100.0,
            ..Outcome::default()
        };
        (policy, of)
    }

    fn all_good() -> Vec<PolicyOutcome> {
        let mut outcomes = Vec::new();
        for start in [Start::Warm, Start::Cold] {
            for hint in [Hint::Declared, Hint::Undeclared] {
                outcomes.push(outcome(Policy::Holdfast { hint }, start, 980.0));
            }
            outcomes.push(outcome(Policy::Midpoint { pct: 37, time_ms: 0 }, start, 10.0));
            let mut delayed = outcome(Policy::Midpoint { pct: 37, time_ms: 10 }, start, 10.0);
            delayed.1.young = Some((3, 5000));
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
            let declared = Policy::Holdfast { hint: Hint::Declared };
            outcomes.iter_mut().filter(|o| o.0 == declared).for_each(|o| change(&mut o.1));
            super::tests::failing(&outcomes)
        };
        assert_eq!(failing(&|o| o.tps_beside = vec![900.0; 3]), 2);
        assert_eq!(failing(&|o| o.dump_s_beside = vec![9700.0; 3]), 2);
        assert_eq!(failing(&|o| o.hot_reads = Some(1)), 2);
        assert_eq!(failing(&|o| o.turnovers = 19.0), 2, "zero reads over too few turnovers");
        let slow = Warmth { reads: Some(106), seconds: 1.0, reached: true, whole: true };
        assert_eq!(failing(&|o| o.warmth = (o.start == Start::Cold).then_some(slow).or(o.warmth)), 1);
        assert_eq!(failing(&|o| o.warmth = o.warmth.map(|w| Warmth { reached: o.start == Start::Warm, ..w })), 1);
    }

    #[test]
    fn a_table_that_a_busy_machine_did_not_get_warm_fails_nothing() {
        let mut outcomes = all_good();
        let cold =
            |o: &&mut PolicyOutcome| o.0 == Policy::Holdfast { hint: Hint::Declared } && o.1.start == Start::Cold;
        let (_, o) = outcomes.iter_mut().find(cold).unwrap();
        o.warmth = o.warmth.map(|w| Warmth { reached: false, whole: false, ..w });
        (o.hot_reads, o.tps_beside, o.ceiling_tps) = (Some(210), vec![60.0], vec![4000.0]);
        assert_eq!(failing(&outcomes), 3, "on a quiet machine");
        let fails = |v: &Verdict| v.answer == Answer::Fails;
        assert!(!claims(&outcomes, true).iter().any(|c| fails(&c.judge(&Conditions::busy_machine()))));
        // Of a table that was resident each read counts.
        outcomes[0].1.hot_reads = Some(1);
        assert!(claims(&outcomes, true).iter().any(|c| fails(&c.judge(&Conditions::busy_machine()))));
    }

    /// Two of the four claims held where nothing was counted, and one of a dump without a page.
    #[test]
    fn what_was_not_counted_does_not_hold() {
        let failing = |change: &dyn Fn(&mut Outcome)| {
            let mut outcomes = all_good();
            let midpoint = outcomes.iter_mut().filter(|o| matches!(o.0, Policy::Midpoint { .. }));
            midpoint.for_each(|o| change(&mut o.1));
            super::tests::failing(&outcomes)
        };
        assert_eq!(failing(&|o| o.young = None), 4);
        assert_eq!(failing(&|o| o.dumped_pages = 0.0), 3);
    }

    #[test]
    fn a_midpoint_list_that_does_not_collapse_is_noticed() {
        let mut outcomes = all_good();
        let cold = |o: &&mut PolicyOutcome| o.0 == Policy::Midpoint { pct: 37, time_ms: 0 } && o.1.start == Start::Cold;
        if let Some((_, o)) = outcomes.iter_mut().find(cold) {
            o.tps_in_cold = vec![21.0; 3];
            o.young = Some((10, 1));
        }
        assert_eq!(failing(&outcomes), 3);
        assert_eq!(failing(&[]), 19, "without runs nothing holds");
    }
}
