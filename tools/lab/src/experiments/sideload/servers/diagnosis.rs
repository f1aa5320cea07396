//! A sentence on what a server's counters show about a run.

use crate::experiments::sideload::outcome::Outcome;
use crate::experiments::sideload::{HOT, Start};
use crate::measure::human;
use crate::server::contender::Contender;

/// What happened to the hot table, and why.
pub(super) fn of(contender: Contender, outcome: &Outcome) -> String {
    let Some(reads) = outcome.hot_reads else {
        return "the server does not report how often it read the hot table.".to_owned();
    };
    if reads == 0 {
        return "the dump cost no read of the hot table.".to_owned();
    }
    let known = outcome.tells_its_content();
    let kept =
        if known { format!("; {} MB of it are in the pool", human(outcome.mb(1, HOT, ""))) } else { String::new() };
    let cost = format!("{} reads of the hot table beside the dump{kept}", human(reads as f64));
    let young = outcome.young.map_or(0, |y| y.0);
    let reached = outcome.warmth.is_some_and(|w| w.reached);
    match contender {
        Contender::InnoDb { old_blocks_time_ms: 0 } => format!(
            "{cost}. old_blocks_time is 0: the second row of a page that the dump reads makes the page young ({} were), \
             and hot pages leave for it.",
            human(young as f64)
        ),
        Contender::InnoDb { old_blocks_time_ms } if outcome.start == Start::Cold && !reached => format!(
            "{cost}. old_blocks_time is {old_blocks_time_ms} ms: a page of a cold table is evicted by the dump before \
             that time is over, and never gets young."
        ),
        _ => format!("{cost}: they leave the cache between two uses."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Resident;

    fn outcome(contender: Contender, start: Start, hot_reads: Option<u64>) -> (Contender, Outcome) {
        let resident = vec![Resident { table: HOT.to_owned(), index: "PRIMARY".to_owned(), pages: 275, mb: 4.5 }];
        let of = Outcome {
            subject: contender.to_string(),
            start,
            hot_reads,
            young: Some((17, 0)),
            resident: [Vec::new(), resident, Vec::new()],
            ..Outcome::default()
        };
        (contender, of)
    }

    #[test]
    fn the_sentence_names_the_cause() {
        let of = |(contender, outcome): (Contender, Outcome)| super::of(contender, &outcome);
        let innodb = |time| Contender::InnoDb { old_blocks_time_ms: time };
        let text = of(outcome(innodb(0), Start::Warm, Some(100)));
        assert!(text.contains("100 reads") && text.contains("4.50 MB") && text.contains("young (17"), "{text}");
        assert!(of(outcome(innodb(1000), Start::Cold, Some(9))).contains("is 1000 ms: a page of a cold table"));
        assert!(of(outcome(innodb(1000), Start::Warm, Some(9))).ends_with("between two uses."));
        assert_eq!(of(outcome(Contender::Holdfast, Start::Cold, Some(0))), "the dump cost no read of the hot table.");
        assert!(of(outcome(Contender::MyRocks, Start::Cold, None)).contains("does not report"));
    }
}
