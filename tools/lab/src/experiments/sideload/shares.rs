//! What is claimed of Holdfast beside the dump, on the embedded engine and on servers.

use super::outcome::{Outcome, ratios};
use crate::bench::Window;
use crate::claims::{self, Bar, Claim, Evidence};

/// Least share of the ceiling that OLTP and dump must each reach.
const SHARE: Bar = Bar::AtLeast(0.95);
/// Turnovers of the hot set over which it must not be read from disk. Zero reads prove nothing over
/// fewer.
pub(crate) const TURNOVERS: f64 = 20.0;

/// The claims of a run of Holdfast, called `name`: OLTP and dump as shares of the ceiling, and
/// reads of the hot table. Nothing is measured of a run that was not made.
pub(crate) fn claims(name: &str, outcome: Option<&Outcome>) -> [Claim; 3] {
    let none = Outcome::default();
    let outcome = outcome.unwrap_or(&none);
    let share = |what: &str, of: &[f64]| {
        let text = format!("{name}: {what}, as a share of its rate when the pool holds both tables");
        Claim::new(text, Evidence::turns(of), SHARE)
    };
    let reads = if outcome.turnovers >= TURNOVERS { outcome.evidence_of_hot_reads() } else { Evidence::Nothing };
    // A claim is compared with that of another run by its words, which have no measured figure.
    let text = format!("{name}: hot-table pages read from disk over at least {TURNOVERS:.0} turnovers of the hot set");
    [
        share("OLTP beside the dump", &outcome.oltp_ratios()),
        share("the dump beside OLTP", &outcome.dump_ratios()),
        Claim::new(text, reads, Bar::Exactly(0.0)),
    ]
}

/// True if more turns beside the ceiling would not change what is said of a run.
pub(crate) fn decided(own: &[Window], ceiling: &[Window]) -> bool {
    let decided = |of: fn(&Window) -> f64| {
        let each = |turns: &[Window]| turns.iter().map(of).collect::<Vec<_>>();
        claims::decided(&ratios(&each(own), &each(ceiling)), SHARE)
    };
    decided(|w| w.tps) && decided(|w| w.dumped_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of turnovers was among the words: no run's claim was in any baseline.
    #[test]
    fn two_runs_have_the_same_claims() {
        let texts = |turnovers| {
            let outcome = Outcome { hot_reads: Some(0), turnovers, ..Outcome::default() };
            claims("holdfast, warm", Some(&outcome)).map(|claim| claim.text)
        };
        assert_eq!(texts(25.0), texts(67.0));
    }
}
