//! The results of the experiment on servers, as document and text, and the claims about them.

use serde_json::json;

use super::diagnosis;
use crate::bench::{SEGMENTS, Segment};
use crate::claims::Claim;
use crate::document::Run;
use crate::experiments::sideload::outcome::Outcome;
use crate::experiments::sideload::{HOT, Start, shares};
use crate::figures::{Shown, cells};
use crate::measure::{human, median, or_dash};
use crate::server::contender::Contender;
use crate::text::table;

/// The outcome of a contender.
#[derive(Clone, Debug)]
pub struct ContenderOutcome {
    pub contender: Contender,
    /// What was measured.
    pub of: Outcome,
}

impl ContenderOutcome {
    /// The outcome on `target` as a run of the document.
    pub fn run(&self, target: &str) -> Run {
        let others = json!({"diagnosis": diagnosis::of(self.contender, &self.of), "counted": self.contender.how_it_is_counted()});
        self.of.run(target, "beside the dump", others)
    }
}

/// The claims, on Holdfast. The other engines are only reported.
pub fn claims(outcomes: &[ContenderOutcome]) -> Vec<Claim> {
    let of = |start| {
        let is_ours = |o: &&ContenderOutcome| o.contender == Contender::Holdfast && o.of.start == start;
        shares::claims(&format!("holdfast, {}", Start::name(start)), outcomes.iter().find(is_ours).map(|o| &o.of))
    };
    [Start::Warm, Start::Cold].into_iter().flat_map(of).collect()
}

/// The results and the content of the cache as text.
pub fn text(outcomes: &[ContenderOutcome]) -> String {
    let percent = |v: f64| format!("{:.1} %", v * 100.0);
    let hot_mb = |o: &Outcome| o.tells_its_content().then(|| o.mb(1, HOT, ""));
    let columns: [Shown<'_, ContenderOutcome>; 14] = [
        ("engine", &|o| o.of.subject.clone()),
        ("start", &|o| o.of.start.name().to_owned()),
        ("TPS alone", &|o| or_dash(o.of.tps_alone, human)),
        ("TPS beside", &|o| or_dash(median(&o.of.tps_beside), human)),
        ("ceiling", &|o| or_dash(median(&o.of.ceiling_tps), human)),
        ("of ceiling", &|o| or_dash(median(&o.of.oltp_ratios()), percent)),
        ("p95 ms", &|o| or_dash(o.of.p95_ms, human)),
        ("dump s alone", &|o| or_dash(o.of.dump_s_alone, human)),
        ("beside", &|o| or_dash(median(&o.of.dump_s_beside), human)),
        ("ceiling", &|o| or_dash(median(&o.of.ceiling_dump_s), human)),
        ("of ceiling", &|o| or_dash(median(&o.of.dump_ratios()), percent)),
        ("hot reads", &|o| or_dash(o.of.hot_reads, |n| human(n as f64))),
        ("hot MB", &|o| or_dash(hot_mb(&o.of), |mb| format!("{mb:.1}"))),
        ("time to get warm", &|o| o.of.warm_text()),
    ];
    let (header, rows) = cells(outcomes, &columns);
    let mut text = table(&header, &rows, 2);
    text.push_str("\nMB of the cache before, beside and after the dump:\n\n");
    let mut rows = Vec::new();
    for o in outcomes.iter().map(|o| &o.of).filter(|o| o.tells_its_content()) {
        for Segment { table, index } in SEGMENTS {
            let mb: Vec<String> = (0..3).map(|moment| format!("{:.2}", o.mb(moment, table, index))).collect();
            let names = [&o.subject, o.start.name(), table, index].map(str::to_owned);
            rows.push(names.into_iter().chain(mb).collect());
        }
    }
    text.push_str(&table(&["engine", "start", "table", "index", "before", "beside", "after"], &rows, 4));
    text.push_str("\nHot reads and MB are the servers' own figures.\n");
    let mut said = Vec::new();
    for o in outcomes {
        let how = o.contender.how_it_is_counted();
        if !said.contains(&how) {
            said.push(how);
            text.push_str(&format!("  {how}.\n"));
        }
    }
    text
}
