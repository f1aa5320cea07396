//! What is claimed of Holdfast beside the dump, on the embedded engine and on servers.

use crate::claims::{self, Bar, Claim, Evidence};

/// Least share of the ceiling that OLTP and dump must each reach.
const SHARE: Bar = Bar::AtLeast(0.95);
/// Turnovers of the hot set over which it must not be read from disk. Zero reads prove nothing over
/// fewer.
pub(crate) const TURNOVERS: f64 = 20.0;

/// Holdfast beside the dump.
pub(crate) struct Shares<'a> {
    /// The subject and how it was started.
    pub name: String,
    /// OLTP as a share of the ceiling, turn by turn.
    pub oltp: &'a [f64],
    /// The dump as a share of the ceiling.
    pub dump: &'a [f64],
    /// Hot-table pages read from disk, over this many turnovers of the hot set.
    pub hot_reads: Evidence,
    /// See `hot_reads`.
    pub turnovers: f64,
}

impl Shares<'_> {
    /// Its three claims.
    pub(crate) fn claims(&self) -> [Claim; 3] {
        let Shares { name, turnovers, .. } = self;
        let share = |what: &str, of| {
            let text = format!("{name}: {what}, as a share of its rate when the pool holds both tables");
            Claim::new(text, Evidence::turns(of), SHARE)
        };
        let reads = if *turnovers >= TURNOVERS { self.hot_reads } else { Evidence::Nothing };
        // A claim is compared with that of another run by its words, which have no measured figure.
        let text =
            format!("{name}: hot-table pages read from disk over at least {TURNOVERS:.0} turnovers of the hot set");
        [
            share("OLTP beside the dump", self.oltp),
            share("the dump beside OLTP", self.dump),
            Claim::new(text, reads, Bar::Exactly(0.0)),
        ]
    }

    /// True if more turns would not change what is said of these shares.
    pub(crate) fn decided(oltp: &[f64], dump: &[f64]) -> bool {
        claims::decided(oltp, SHARE) && claims::decided(dump, SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of turnovers was among the words: no run's claim was in any baseline.
    #[test]
    fn two_runs_have_the_same_claims() {
        let texts = |turnovers| {
            let (oltp, dump, hot_reads) = (&[1.0][..], &[1.0][..], Evidence::Counted(0.0));
            Shares { name: "holdfast, warm".into(), oltp, dump, hot_reads, turnovers }.claims().map(|claim| claim.text)
        };
        assert_eq!(texts(25.0), texts(67.0));
    }
}
