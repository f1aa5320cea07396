//! What the judge finds.

use std::collections::BTreeSet;

use super::history::{Number, Token};
use super::level::{Anomaly, Level, excludes};

/// An anomaly, and to a transaction of which level it happened.
#[derive(Clone, Debug)]
pub struct Finding {
    pub anomaly: Anomaly,
    pub level: Level,
    pub text: String,
    /// The transactions that take part.
    pub txns: BTreeSet<Number>,
}

impl Finding {
    /// To a transaction of which level what happened.
    pub fn kind(&self) -> (Level, Anomaly) {
        (self.level, self.anomaly)
    }

    /// One that shows in the table itself, which no level allows.
    pub fn of_table(anomaly: Anomaly, text: String, token: Token) -> Finding {
        Finding { anomaly, level: Level::ReadUncommitted, text, txns: BTreeSet::from([token.txn()]) }
    }
}

/// What the levels exclude.
pub fn forbidden(findings: &[Finding]) -> impl Iterator<Item = &Finding> + Clone {
    findings.iter().filter(|finding| excludes(finding.level, finding.anomaly))
}
