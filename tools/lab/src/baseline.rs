//! Two documents of the lab compared: what changed beyond noise.
//!
//! A claim is known by its experiment and its words. Its figure has changed if
//!
//! - both have a 95 % interval, and these do not meet: of two runs of the same thing, fewer than
//!   one in a hundred claims shows that;
//! - neither has one (a count, or the only figure of its kind), and they differ by more than
//!   [`SINGLE`];
//! - one has an interval and the other is the only figure of its kind, as of a table that did not
//!   become warm; it lies outside of the interval, and they differ by more than [`SINGLE`].
//!
//! An answer can change without its figure, where the figure is near the bar; it is named, and
//! that the figure has not changed. So is a claim that one of the two has not, as where an
//! experiment was not run to its end. What machine and settings differ in is said first.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::claims::{Verdict, measured};
use crate::document::Document;

/// The share by which figures without an interval have to differ.
const SINGLE: f64 = 0.1;

/// The document of an earlier run: of one experiment, or of several.
#[derive(Clone, Debug)]
pub struct Baseline {
    name: String,
    documents: Vec<Value>,
}

impl Baseline {
    /// Reads what `--json` wrote.
    pub fn read(path: &Path) -> Result<Baseline> {
        let name = path.display().to_string();
        let text = std::fs::read(path).with_context(|| format!("read the baseline {name}"))?;
        let whole = serde_json::from_slice(&text).with_context(|| format!("the baseline {name} is no JSON"))?;
        Baseline::of(name, whole)
    }

    fn of(name: String, whole: Value) -> Result<Baseline> {
        let documents = if let Value::Array(all) = whole { all } else { vec![whole] };
        let is_document = |one: &Value| one["experiment"].is_string() && one["verdicts"].is_array();
        ensure!(!documents.is_empty() && documents.iter().all(is_document), "{name} is no document of the lab");
        Ok(Baseline { name, documents })
    }

    /// What changed, a line each; one line if nothing did.
    pub fn changes(&self, documents: &[Document]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut compared = 0;
        for document in documents {
            let name = &document.experiment;
            let Some(before) = self.documents.iter().find(|one| one["experiment"] == name.as_str()) else {
                lines.push(format!("{name}: not in the baseline"));
                continue;
            };
            lines.extend(differences(before, document).map(|what| format!("{name}: {what} differs from then")));
            for verdict in &document.verdicts {
                let then = before["verdicts"].as_array().into_iter().flatten();
                let then = then.into_iter().find(|one| one["claim"] == verdict.claim.as_str());
                match then {
                    Some(then) => {
                        compared += 1;
                        lines.extend(change(then, verdict).map(|what| format!("{name}: {}: {what}", verdict.claim)));
                    }
                    None => lines.push(format!("{name}: {}: not claimed then", verdict.claim)),
                }
            }
            let is_claimed = |claim: &&str| document.verdicts.iter().any(|verdict| verdict.claim == *claim);
            let then = before["verdicts"].as_array().into_iter().flatten().filter_map(|one| one["claim"].as_str());
            let lost = then.filter(|claim| !is_claimed(claim));
            lines.extend(lost.map(|claim| format!("{name}: {claim}: not claimed now")));
        }
        if lines.is_empty() {
            lines.push(format!("nothing beyond noise, in {compared} claims"));
        }
        lines
    }

    /// [`Baseline::changes`] for the terminal.
    pub fn text(&self, documents: &[Document]) -> String {
        let mut out = format!("\nChanged since {}:\n", self.name);
        for line in self.changes(documents) {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {line}");
        }
        out
    }
}

/// What of the machine or the settings differs.
fn differences<'d>(before: &'d Value, now: &'d Document) -> impl Iterator<Item = String> + 'd {
    let (machine, now) = (as_read(&now.machine), as_read(&now.settings));
    let of_machine = ["cpu", "cores", "memory_mib", "optimised"].into_iter();
    let of_machine = of_machine
        .filter(move |key| before["machine"][key] != machine[key])
        .map(|key| format!("`{key}` of the machine"));
    let then = &before["settings"];
    let keys: BTreeSet<String> = match [then, &now].map(Value::as_object) {
        [Some(then), Some(now)] if !now.is_empty() => then.keys().chain(now.keys()).cloned().collect(),
        // An experiment that was not run has no settings.
        _ => BTreeSet::new(),
    };
    let settings = keys.into_iter().filter(move |key| then[key] != now[key]);
    of_machine.chain(settings.map(|key| format!("setting `{key}`")))
}

/// What a reader gets of `what`. serde_json reads some numbers as a neighbour of what was written.
fn as_read<T: Serialize>(what: &T) -> Value {
    let text = serde_json::to_string(what);
    text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// How figure and answer differ from those of then, if they do.
fn change(then: &Value, now: &Verdict) -> Option<String> {
    let interval = |end: &str| then["interval"][end].as_f64();
    let (value, interval) = (then["value"].as_f64(), interval("low").zip(interval("high")));
    let apart = |a: f64, b: f64| (a - b).abs() > SINGLE * a.abs().max(b.abs());
    let beside = |single: f64, low: f64, high: f64| single < low || single > high;
    let has_changed = match (value, now.value, interval, now.interval) {
        (_, _, Some((low, high)), Some(now)) => now.low > high || now.high < low,
        (Some(then), Some(now), None, None) => apart(then, now),
        (Some(then), Some(now), Some((low, high)), None) => apart(then, now) && beside(now, low, high),
        (Some(then), Some(now), None, Some(of)) => apart(then, now) && beside(then, of.low, of.high),
        (then, now, _, _) => then.is_some() != now.is_some(),
    };
    let answer = then["answer"].as_str().unwrap_or_default();
    let answers =
        if answer == now.answer.name() { String::new() } else { format!("{answer} then, {} now; ", now.answer.name()) };
    match (has_changed, answers.is_empty()) {
        (true, _) => Some(format!("{answers}{} then, {} now", measured(value, interval), now.measured())),
        (false, false) => Some(format!("{answers}its figure differs by no more than noise: {}", now.measured())),
        (false, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claims::{Bar, Claim, Evidence};
    use crate::conditions::Conditions;
    use crate::machine::Machine;

    const APART: [f64; 7] = [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5];

    fn document(share: f64, reads: f64) -> Document {
        let mut document = Document::new("sideload", json!({"rows": 100}), Machine::this(None));
        let turns = Evidence::turns(&APART.map(|n| share + n * 0.01));
        document.claims = vec![
            Claim::new("OLTP keeps its rate", turns, Bar::AtLeast(0.95)),
            Claim::new("reads of the hot table", Evidence::Counted(reads), Bar::AtMost(1000.0)),
        ];
        document.judge(Conditions::quiet_machine());
        document
    }

    fn baseline(document: &Document) -> Baseline {
        Baseline::of("then.json".into(), serde_json::to_value(document).unwrap()).unwrap()
    }

    #[test]
    fn a_run_is_as_itself() {
        let now = document(0.98, 5.0);
        assert_eq!(baseline(&now).changes(&[now]), ["nothing beyond noise, in 2 claims"]);
    }

    /// Read from its text, as a baseline is, a number was another one.
    #[test]
    fn a_setting_that_is_as_it_was_is_not_told() {
        let mut now = document(0.98, 5.0);
        for n in 1..1_000 {
            now.settings[format!("{n}")] = json!(1_234_567.0 / f64::from(n));
        }
        let text = serde_json::to_string(&now).unwrap();
        let then = Baseline::of("then.json".into(), serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(then.changes(&[now]), ["nothing beyond noise, in 2 claims"]);
    }

    #[test]
    fn intervals_that_meet_are_noise_and_those_that_do_not_are_none() {
        let then = baseline(&document(0.98, 5.0));
        assert_eq!(then.changes(&[document(0.985, 5.2)]), ["nothing beyond noise, in 2 claims"]);
        let changed = then.changes(&[document(0.7, 500.0)]);
        assert_eq!(changed.len(), 2, "{changed:?}");
        assert!(changed[0].starts_with("sideload: OLTP keeps its rate: holds then, fails now; 0.980 ("), "{changed:?}");
        assert!(changed[1].ends_with("reads of the hot table: 5.000 then, 500.000 now"), "{changed:?}");
    }

    #[test]
    fn an_answer_that_noise_has_changed_is_told_as_such() {
        let then = baseline(&document(0.965, 5.0));
        let now = document(0.956, 5.0);
        let changed = then.changes(&[now]);
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert!(
            changed[0].contains("holds then, cannot tell now; its figure differs by no more than noise"),
            "{changed:?}"
        );
    }

    /// A table that did not become warm has one turn: a share of 0.02 after 0.98 was told to differ
    /// by no more than noise.
    #[test]
    fn a_single_figure_is_compared_with_an_interval() {
        let of = |evidence| {
            let mut document = document(0.98, 5.0);
            document.claims = vec![Claim::new("OLTP keeps its rate", evidence, Bar::AtLeast(0.95))];
            document.judge(Conditions::busy_machine());
            document
        };
        let turns = || of(Evidence::turns(&APART.map(|n| 0.98 + n * 0.01)));
        let changed = baseline(&turns()).changes(&[of(Evidence::Once(0.02))]);
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert!(changed[0].contains("holds then, cannot tell now; 0.980 ("), "{changed:?}");
        assert!(changed[0].ends_with("then, 0.020 now"), "{changed:?}");
        let changed = baseline(&of(Evidence::Once(0.02))).changes(&[turns()]);
        assert!(changed.len() == 1 && changed[0].contains("0.020 then, 0.980 ("), "{changed:?}");
        assert_eq!(baseline(&turns()).changes(&[of(Evidence::Once(0.97))]), ["nothing beyond noise, in 1 claims"]);
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let mut before = serde_json::to_value(document(0.98, 5.0)).unwrap();
        before["machine"]["cores"] = json!(1000);
        before["settings"]["rows"] = json!(7);
        before["settings"]["sessions"] = json!(8);
        before["verdicts"].as_array_mut().unwrap().pop();
        let changed = Baseline::of("then.json".into(), json!([before])).unwrap().changes(&[document(0.98, 5.0)]);
        assert_eq!(
            changed,
            [
                "sideload: `cores` of the machine differs from then",
                "sideload: setting `rows` differs from then",
                "sideload: setting `sessions` differs from then",
                "sideload: reads of the hot table: not claimed then",
            ]
        );
        let mut now = document(0.98, 5.0);
        now.verdicts.clear();
        let changed = baseline(&document(0.98, 5.0)).changes(&[now]);
        assert_eq!(
            changed,
            ["sideload: OLTP keeps its rate: not claimed now", "sideload: reads of the hot table: not claimed now"],
            "as of an experiment that was not run to its end"
        );
        assert!(Baseline::of("x".into(), json!({"a": 1})).is_err());
        assert!(Baseline::of("x".into(), json!([])).is_err());
    }
}
