//! Claims about what an experiment measured, and the verdicts on them.
//!
//! A verdict is one of three answers:
//!
//! - *holds*: the 95 % interval of the figure clears the bar;
//! - *fails*: the interval lies wholly beyond it. A run judges some twenty claims, and a *fails*
//!   that is none costs a day of search. So the interval of 9,995 in 10,000 runs has to lie beyond
//!   the bar as well: of 1,000 noisy runs none fails what holds, and on a quiet machine 5 turns
//!   fail what lost half of its throughput, 10 turns what lost a quarter (the tests simulate it);
//! - *cannot tell*: neither, after as many turns as the experiment gives. The verdict says what
//!   stood in the way.
//!
//! While turns come in, only an interval of 99 % that clears the bar, or one of 99.99 % beyond it,
//! ends them ([`decided`]). A run that stops at the first 95 % interval that looks good is wrong
//! more often than 5 times in 100; so is one that stops at the first that looks bad.
//!
//! What is counted (reads of a table, pages made young, versions of a row) is judged exactly. A
//! figure that a run has only one of, and that depends on its speed, holds if it clears the bar; if
//! it does not, it fails on a quiet machine only. So does a figure of seconds that nothing is
//! measured beside: what disturbs some of them disturbs no reference. Seconds that follow one
//! another are alike, so their interval of 99.99 % has to lie beyond the bar.

use serde::Serialize;

use crate::conditions::Conditions;
use crate::stats::{Estimate, Interval};

/// What a value must be for its claim to hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Exactly this.
    Exactly(f64),
}

impl Bar {
    /// True if `value` passes.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Bar::AtLeast(bar) => value >= bar,
            Bar::AtMost(bar) => value <= bar,
            Bar::Exactly(bar) => value == bar,
        }
    }

    /// True if every value of `interval` passes.
    fn clears(self, interval: Interval) -> bool {
        self.holds(interval.low) && self.holds(interval.high)
    }

    /// True if no value of `interval` passes.
    fn beyond(self, interval: Interval) -> bool {
        match self {
            Bar::AtLeast(bar) => interval.high < bar,
            Bar::AtMost(bar) => interval.low > bar,
            Bar::Exactly(bar) => interval.high < bar || interval.low > bar,
        }
    }
}

impl std::fmt::Display for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bar::AtLeast(bar) => write!(f, ">= {bar}"),
            Bar::AtMost(bar) => write!(f, "<= {bar}"),
            Bar::Exactly(bar) => write!(f, "= {bar}"),
        }
    }
}

impl Serialize for Bar {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The answer to a claim, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Answer {
    /// It holds.
    #[serde(rename = "holds")]
    Holds,
    /// It could not be told on this machine now.
    #[serde(rename = "cannot tell")]
    CannotTell,
    /// It fails.
    #[serde(rename = "fails")]
    Fails,
}

impl Answer {
    /// Its words.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Holds => "holds",
            Answer::CannotTell => "cannot tell",
            Answer::Fails => "fails",
        }
    }
}

/// What was measured of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// A count, which is the same on every machine.
    Counted(f64),
    /// A figure of turns, each with a reference beside it.
    Turns(Estimate),
    /// A figure of seconds without a reference; it depends on the machine.
    Seconds(Estimate),
    /// The only figure of its kind in the run; it depends on the speed of the machine.
    Once(f64),
    /// Nothing: the run did not get that far.
    Nothing,
}

impl Evidence {
    /// A count that was reached, or nothing.
    pub fn counted(value: Option<f64>) -> Evidence {
        value.filter(|v| v.is_finite()).map_or(Evidence::Nothing, Evidence::Counted)
    }

    /// The only figure of its kind, or nothing.
    pub fn once(value: Option<f64>) -> Evidence {
        value.filter(|v| v.is_finite()).map_or(Evidence::Nothing, Evidence::Once)
    }

    /// The figures of turns; a single one stands for itself.
    pub fn turns(values: &[f64]) -> Evidence {
        Estimate::of(values).map_or_else(|| Evidence::once(values.first().copied()), Evidence::Turns)
    }

    /// An estimate, or nothing.
    pub fn estimate(estimate: Option<Estimate>) -> Evidence {
        estimate.map_or(Evidence::Nothing, Evidence::Turns)
    }

    /// An estimate from seconds without a reference, or nothing.
    pub fn seconds(estimate: Option<Estimate>) -> Evidence {
        estimate.map_or(Evidence::Nothing, Evidence::Seconds)
    }

    fn of_estimate(self) -> Option<Estimate> {
        match self {
            Evidence::Turns(estimate) | Evidence::Seconds(estimate) => Some(estimate),
            Evidence::Counted(_) | Evidence::Once(_) | Evidence::Nothing => None,
        }
    }

    fn value(self) -> Option<f64> {
        match self {
            Evidence::Counted(value) | Evidence::Once(value) => Some(value),
            Evidence::Turns(estimate) | Evidence::Seconds(estimate) => Some(estimate.value),
            Evidence::Nothing => None,
        }
    }

    fn answer(self, bar: Bar, quiet: bool) -> Answer {
        let unless_disturbed = if quiet { Answer::Fails } else { Answer::CannotTell };
        match self {
            Evidence::Counted(value) if bar.holds(value) => Answer::Holds,
            Evidence::Counted(_) => Answer::Fails,
            Evidence::Turns(e) | Evidence::Seconds(e) if bar.clears(e.likely) => Answer::Holds,
            Evidence::Turns(e) if bar.beyond(e.sure) => Answer::Fails,
            Evidence::Seconds(e) if bar.beyond(e.certain) => unless_disturbed,
            Evidence::Turns(_) | Evidence::Seconds(_) => Answer::CannotTell,
            Evidence::Once(value) if bar.holds(value) => Answer::Holds,
            Evidence::Once(_) | Evidence::Nothing => unless_disturbed,
        }
    }

    /// Why it could not be told.
    fn reason(self, bar: Bar, conditions: &Conditions) -> String {
        let narrowly = match self {
            Evidence::Turns(e) if bar.beyond(e.likely) => {
                "beyond the bar at 95 %, not at 99.95 %: more turns would tell; "
            }
            Evidence::Seconds(e) if bar.beyond(e.likely) && !bar.beyond(e.certain) => {
                "beyond the bar at 95 %, not at 99.99 %: more seconds would tell; "
            }
            _ => "",
        };
        match self {
            Evidence::Turns(e) => format!(
                "{narrowly}{:.3} to {:.3} after {} turns, half of which differ by up to {:.0} %; {conditions}",
                e.likely.low,
                e.likely.high,
                e.turns,
                e.spread * 100.0
            ),
            Evidence::Seconds(e) => format!(
                "{narrowly}{:.3} to {:.3} of {} seconds, half of which differ by up to {:.0} %; {conditions}",
                e.likely.low,
                e.likely.high,
                e.turns,
                e.spread * 100.0
            ),
            Evidence::Nothing => format!("not measured; {conditions}"),
            Evidence::Counted(_) | Evidence::Once(_) => conditions.to_string(),
        }
    }
}

/// True if there are turns enough of these figures: the claim holds by the 99 % interval, or fails.
pub fn decided(values: &[f64], bar: Bar) -> bool {
    Estimate::of(values).is_some_and(|e| bar.clears(e.firm) || bar.beyond(e.certain))
}

/// A claim with what was measured of it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The claim, in words.
    pub text: String,
    /// What was measured; of several the worst counts.
    pub of: Vec<Evidence>,
    /// The value that it is compared with.
    pub bar: Bar,
}

impl Claim {
    /// A claim about one figure.
    pub fn new(text: impl Into<String>, of: Evidence, bar: Bar) -> Claim {
        Claim::worst(text, vec![of], bar)
    }

    /// A claim about the worst of several figures.
    pub fn worst(text: impl Into<String>, of: Vec<Evidence>, bar: Bar) -> Claim {
        Claim { text: text.into(), of, bar }
    }

    /// The verdict, measured under `conditions`.
    pub fn judge(&self, conditions: &Conditions) -> Verdict {
        let far = |of: &Evidence| match (self.bar, of.value()) {
            (_, None) => f64::INFINITY,
            (Bar::AtLeast(_), Some(value)) => -value,
            (Bar::AtMost(_), Some(value)) => value,
            (Bar::Exactly(bar), Some(value)) => (value - bar).abs(),
        };
        let rank = |of: &Evidence| (of.answer(self.bar, conditions.quiet()), far(of));
        let worst = self.of.iter().copied().max_by(|a, b| {
            let ((a, near), (b, far)) = (rank(a), rank(b));
            a.cmp(&b).then(near.total_cmp(&far))
        });
        let of = worst.unwrap_or(Evidence::Nothing);
        let answer = of.answer(self.bar, conditions.quiet());
        let estimate = of.of_estimate();
        let reason = if answer == Answer::CannotTell { of.reason(self.bar, conditions) } else { String::new() };
        Verdict {
            claim: self.text.clone(),
            value: of.value(),
            interval: estimate.map(|e| e.likely),
            turns: estimate.map(|e| e.turns),
            bar: self.bar,
            answer,
            reason,
        }
    }
}

/// The verdict on a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim, in words.
    pub claim: String,
    /// The measured value; null if the run did not get that far.
    pub value: Option<f64>,
    /// Its 95 % interval, if it is a figure of turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<usize>,
    /// The value that it is compared with.
    pub bar: Bar,
    /// The answer.
    pub answer: Answer,
    /// Why it could not be told.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Verdict {
    /// The measured value with its interval, in words.
    pub fn measured(&self) -> String {
        measured(self.value, self.interval.map(|of| (of.low, of.high)))
    }
}

/// A value with its interval, in words.
pub(crate) fn measured(value: Option<f64>, interval: Option<(f64, f64)>) -> String {
    match (value, interval) {
        (None, _) => "not measured".to_owned(),
        (Some(value), None) => format!("{value:.3}"),
        (Some(value), Some((low, high))) => format!("{value:.3} ({low:.3} to {high:.3})"),
    }
}

/// The worst answer; *holds* if there is none.
pub fn worst(verdicts: &[Verdict]) -> Answer {
    verdicts.iter().map(|v| v.answer).max().unwrap_or(Answer::Holds)
}

#[cfg(test)]
mod tests {
    use holdfast_workload::rng::Rng;

    use super::*;
    use crate::stats::tests::normal;
    use crate::turns::{Rounds, in_turns};

    fn answer(of: Evidence, bar: Bar) -> Answer {
        Claim::new("a", of, bar).judge(&Conditions::quiet_machine()).answer
    }

    #[test]
    fn a_count_is_judged_exactly() {
        assert_eq!(answer(Evidence::Counted(0.0), Bar::Exactly(0.0)), Answer::Holds);
        assert_eq!(answer(Evidence::Counted(1.0), Bar::Exactly(0.0)), Answer::Fails);
        let busy = Conditions::busy_machine();
        let claim = Claim::new("a", Evidence::Counted(1.06), Bar::AtMost(1.05));
        assert_eq!(claim.judge(&busy).answer, Answer::Fails, "whatever the machine does");
    }

    #[test]
    fn an_interval_clears_the_bar_or_lies_beyond_it_or_neither() {
        let around = |middle: f64, apart: f64| {
            Evidence::turns(&[-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5].map(|n| middle + n * apart))
        };
        assert_eq!(answer(around(0.99, 0.01), Bar::AtLeast(0.95)), Answer::Holds);
        assert_eq!(answer(around(0.90, 0.001), Bar::AtLeast(0.95)), Answer::Fails);
        assert_eq!(answer(around(0.96, 0.05), Bar::AtLeast(0.95)), Answer::CannotTell);
        assert_eq!(answer(around(0.94, 0.05), Bar::AtLeast(0.95)), Answer::CannotTell);
        assert_eq!(answer(around(1.0, 0.01), Bar::AtMost(1.2)), Answer::Holds);
        assert_eq!(answer(around(1.5, 0.01), Bar::AtMost(1.2)), Answer::Fails);
    }

    /// It was said that the interval contains the bar.
    #[test]
    fn a_miss_that_more_turns_would_show_is_said_to_be_one() {
        let turns = Evidence::turns(&[-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5].map(|n| 0.9 + n * 0.01));
        let verdict = Claim::new("a", turns, Bar::AtLeast(0.92)).judge(&Conditions::quiet_machine());
        assert!(verdict.interval.is_some_and(|of| of.high < 0.92) && verdict.answer == Answer::CannotTell);
        let why = "beyond the bar at 95 %, not at 99.95 %: more turns would tell; ";
        assert!(verdict.reason.starts_with(why), "{}", verdict.reason);
        let within = Claim::new("a", turns, Bar::AtLeast(0.9)).judge(&Conditions::quiet_machine());
        assert!(!within.reason.contains("beyond the bar"), "{}", within.reason);
    }

    #[test]
    fn a_single_figure_fails_on_a_quiet_machine_only() {
        let slow = Claim::new("a", Evidence::Once(3.0), Bar::AtMost(1.0));
        assert_eq!(slow.judge(&Conditions::quiet_machine()).answer, Answer::Fails);
        let verdict = slow.judge(&Conditions::busy_machine());
        assert_eq!(verdict.answer, Answer::CannotTell);
        assert!(verdict.reason.contains("others used 50 % of the processor"), "{}", verdict.reason);
        let missing = Claim::new("a", Evidence::Nothing, Bar::AtMost(1.0));
        assert_eq!(missing.judge(&Conditions::quiet_machine()).answer, Answer::Fails);
        assert_eq!(missing.judge(&Conditions::busy_machine()).answer, Answer::CannotTell);
    }

    #[test]
    fn seconds_without_a_reference_fail_on_a_quiet_machine_only() {
        let seconds = |middle: f64| {
            Evidence::seconds(Estimate::of(&[-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5].map(|n| middle + n * 0.001)))
        };
        let of = |middle| Claim::new("a", seconds(middle), Bar::AtMost(1.1));
        assert_eq!(of(3.0).judge(&Conditions::quiet_machine()).answer, Answer::Fails);
        let verdict = of(3.0).judge(&Conditions::busy_machine());
        assert_eq!((verdict.answer, verdict.turns), (Answer::CannotTell, Some(7)));
        assert!(verdict.reason.contains("of 7 seconds") && verdict.reason.contains("50 %"), "{}", verdict.reason);
        assert_eq!(of(1.0).judge(&Conditions::busy_machine()).answer, Answer::Holds);
        assert_eq!(of(1.1).judge(&Conditions::quiet_machine()).answer, Answer::CannotTell);
    }

    #[test]
    fn the_worst_of_several_figures_counts() {
        let of = [0.99, 0.5, 0.97].map(Evidence::Counted).to_vec();
        let verdict = Claim::worst("a", of, Bar::AtLeast(0.95)).judge(&Conditions::quiet_machine());
        assert_eq!((verdict.answer, verdict.value), (Answer::Fails, Some(0.5)));
        let none = Claim::worst("a", Vec::new(), Bar::AtLeast(0.95)).judge(&Conditions::quiet_machine());
        assert_eq!((none.answer, none.value), (Answer::Fails, None));
    }

    #[test]
    fn the_answer_of_a_run_is_its_worst() {
        let verdict =
            |value| Claim::new("a", Evidence::Counted(value), Bar::AtLeast(1.0)).judge(&Conditions::quiet_machine());
        assert_eq!(worst(&[verdict(2.0), verdict(0.0)]), Answer::Fails);
        assert_eq!(worst(&[verdict(2.0)]), Answer::Holds);
        let cannot_tell = Claim::new("a", Evidence::Nothing, Bar::AtLeast(1.0)).judge(&Conditions::busy_machine());
        assert_eq!(worst(&[verdict(2.0), cannot_tell.clone()]), Answer::CannotTell);
        assert_eq!(worst(&[verdict(0.0), cannot_tell]), Answer::Fails);
        assert_eq!(worst(&[]), Answer::Holds);
    }

    /// What disturbs the turns of a simulated run.
    #[derive(Clone, Copy)]
    enum Noise {
        /// Every turn deviates by a share of it, and one in ten is up to so many times slower.
        Bursts { usual: f64, burst: f64 },
        /// Turns deviate by Student's t with two degrees of freedom: some by very much.
        Tails(f64),
        /// The machine's speed wanders: a turn is mostly like the one before.
        Drift(f64),
    }

    /// A machine that other programs disturb.
    struct Machine<'r> {
        rng: &'r mut Rng,
        noise: Noise,
        speed: f64,
    }

    impl<'r> Machine<'r> {
        fn new(rng: &'r mut Rng, noise: Noise) -> Machine<'r> {
            let speed = if matches!(noise, Noise::Drift(_)) { normal(rng) } else { 0.0 };
            Machine { rng, noise, speed }
        }

        fn turn(&mut self, rate: f64) -> f64 {
            let rng = &mut *self.rng;
            match self.noise {
                Noise::Bursts { usual, burst } => {
                    let deviation = normal(rng);
                    let slower = if rng.below(10) == 0 { 1.0 + (burst - 1.0) * rng.unit() } else { 1.0 };
                    rate * (usual * deviation).exp() / slower
                }
                Noise::Tails(usual) => {
                    let [of, a, b] = [(); 3].map(|()| normal(rng));
                    rate * (usual * of / ((a * a + b * b) / 2.0).sqrt()).exp()
                }
                Noise::Drift(usual) => {
                    self.speed = 0.8 * self.speed + 0.6 * normal(rng);
                    rate * (usual * self.speed).exp()
                }
            }
        }
    }

    /// The answer on the pairs of a run whose true ratio is `truth`, judged as an experiment judges
    /// them.
    fn simulated(rng: &mut Rng, truth: f64, noise: Noise, rounds: Rounds) -> Answer {
        let mut machine = Machine::new(rng, noise);
        let bar = Bar::AtLeast(0.95);
        let ratios = |turns: &[Vec<f64>]| -> Vec<f64> { turns[0].iter().zip(&turns[1]).map(|(a, b)| a / b).collect() };
        let turns = in_turns(
            2,
            rounds,
            |side| Ok(machine.turn(if side == 0 { truth } else { 1.0 })),
            |turns| decided(&ratios(turns), bar),
        );
        answer(Evidence::turns(&ratios(&turns.unwrap())), bar)
    }

    /// The answers of that many runs.
    fn answers(runs: usize, truth: f64, noise: Noise, rounds: Rounds) -> [usize; 3] {
        let mut rng = Rng::new(11);
        let mut counts = [0; 3];
        (0..runs).for_each(|_| counts[simulated(&mut rng, truth, noise, rounds) as usize] += 1);
        counts
    }

    const ROUNDS: Rounds = Rounds { least: 15, most: 60 };
    const BUSY: Noise = Noise::Bursts { usual: 0.25, burst: 4.0 };
    const QUIET: Noise = Noise::Bursts { usual: 0.03, burst: 1.3 };

    #[test]
    fn no_noisy_run_of_a_thousand_fails_what_holds() {
        let fails = |runs, truth, noise, rounds| answers(runs, truth, noise, rounds)[Answer::Fails as usize];
        assert_eq!(fails(1000, 0.96, BUSY, ROUNDS), 0);
        assert_eq!(fails(300, 1.0, BUSY, ROUNDS), 0);
        for noise in [BUSY, Noise::Tails(0.15), Noise::Drift(0.3)] {
            for (least, most) in [(5, 5), (5, 10), (10, 10), (4, 16)] {
                assert_eq!(fails(1000, 0.98, noise, Rounds { least, most }), 0, "{least} to {most} rounds");
            }
        }
    }

    #[test]
    fn few_turns_fail_a_clear_miss() {
        let fails = |truth, rounds| answers(300, truth, QUIET, rounds)[Answer::Fails as usize];
        assert!(fails(0.5, Rounds { least: 5, most: 5 }) >= 240, "half of the throughput");
        assert!(fails(0.75, Rounds { least: 10, most: 10 }) >= 270, "three quarters of it");
        assert!(fails(0.7, Rounds::up_to_twice(5)) >= 285);
        assert!(fails(0.85, Rounds::up_to_twice(10)) >= 285);
    }

    #[test]
    fn a_planted_loss_is_found_and_a_small_one_is_not_called_good() {
        // A tenth below the bar, on a quiet machine: found in 99 runs of 100.
        let [holds, _, fails] = answers(300, 0.85, QUIET, ROUNDS);
        assert!(fails >= 297 && holds == 0, "{holds} hold, {fails} fail");
        // A third below it, on a busy machine: found in 9 of 10.
        let [holds, _, fails] = answers(300, 0.6, BUSY, ROUNDS);
        assert!(fails >= 270 && holds == 0, "{holds} hold, {fails} fail");
        // A fiftieth below it, on a busy machine, is hardly ever said to hold.
        let [holds, ..] = answers(300, 0.93, BUSY, ROUNDS);
        assert!(holds <= 15, "{holds} hold");
    }

    #[test]
    fn on_a_quiet_machine_what_holds_is_said_to_hold() {
        let [holds, _, fails] = answers(300, 0.99, QUIET, ROUNDS);
        assert!(holds >= 297 && fails == 0, "{holds} hold, {fails} fail");
    }
}
