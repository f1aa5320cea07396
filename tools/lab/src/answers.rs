//! Documents as plain text: the figures, and the answers to claims.

use crate::claims::{Answer, Verdict};
use crate::document::Document;
use crate::text::{table, wrapped};

/// One line per experiment: how many of its claims hold. Then the claims that do not.
pub fn summary(documents: &[Document]) -> String {
    let row = |d: &Document| {
        let holds = d.with(Answer::Holds).count();
        vec![d.experiment.clone(), format!("{holds} of {}", d.verdicts.len())]
    };
    let mut out = table(&["experiment", "claims that hold"], &documents.iter().map(row).collect::<Vec<_>>(), 2);
    for answer in [Answer::Fails, Answer::CannotTell] {
        for (document, verdict) in documents.iter().flat_map(|d| d.with(answer).map(move |v| (d, v))) {
            out.push_str(&wrapped(&format!("{}: {}: {}", answer.name(), document.experiment, verdict.claim), 4));
        }
    }
    out
}

/// The figures and the verdicts.
pub fn text(document: &Document) -> String {
    document.figures.text() + &verdicts(&document.verdicts)
}

/// The verdicts, one per line, with the reason where there is one.
pub fn verdicts(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    for v in verdicts {
        let mark = if v.answer == Answer::Fails { "FAILS" } else { v.answer.name() };
        let reason = if v.reason.is_empty() { String::new() } else { format!("; {}", v.reason) };
        out.push_str(&wrapped(&format!("{mark:<11}  {}: {} ({}){reason}", v.claim, v.measured(), v.bar), 15));
    }
    out
}
