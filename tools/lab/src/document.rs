//! The document of an experiment: what `--json` writes, and from which the report is made.
//!
//! ```text
//! {"experiment", "machine", "settings",
//!  "runs":     [{"target", "policy", "metrics": {...}}],
//!  "conditions",
//!  "verdicts": [{"claim", "value", "interval", "turns", "bar", "answer", "reason"}]}
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use crate::claims::{self, Answer, Claim, Verdict};
use crate::conditions::Conditions;
use crate::figures::Figures;
use crate::machine::Machine;

/// The results of an experiment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Document {
    /// The experiment's name.
    pub experiment: String,
    /// Title of the report.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The command that repeats it, where it was run by one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// The machine that it ran on.
    pub machine: Machine,
    /// Every size, speed and switch, the seed included.
    pub settings: Value,
    /// The runs, in the order in which they were made.
    pub runs: Vec<Run>,
    /// The claims, with what was measured of them.
    #[serde(skip)]
    pub claims: Vec<Claim>,
    /// What else the machine did.
    pub conditions: Conditions,
    /// A verdict per claim ([`Document::judge`]).
    pub verdicts: Vec<Verdict>,
    /// What changed since an earlier run, if it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Tables and charts.
    #[serde(skip_serializing_if = "Figures::is_empty")]
    pub figures: Figures,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The engine: `embedded`, or a server.
    pub target: String,
    /// Its replacement policy, with parameters.
    pub policy: String,
    /// What was measured.
    pub metrics: Value,
}

impl Run {
    /// A run of `policy` on `target`.
    pub fn new(target: &str, policy: &str, metrics: Value) -> Run {
        Run { target: target.to_owned(), policy: policy.to_owned(), metrics }
    }
}

impl Document {
    /// A document without runs.
    pub fn new(experiment: &str, settings: Value, machine: Machine) -> Document {
        Document { experiment: experiment.to_owned(), machine, settings, ..Document::default() }
    }

    /// The same with tables and charts.
    pub fn with_figures(self, figures: Figures) -> Document {
        Document { figures, ..self }
    }

    /// Judges the claims, which were measured under `conditions`.
    pub fn judge(&mut self, conditions: Conditions) {
        self.conditions = conditions;
        self.verdicts = self.claims.iter().map(|claim| claim.judge(&conditions)).collect();
    }

    /// The verdicts with this answer.
    pub fn with(&self, answer: Answer) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(move |v| v.answer == answer)
    }

    /// The worst answer.
    pub fn answer(&self) -> Answer {
        claims::worst(&self.verdicts)
    }
}

/// Writes a document, or several, as JSON to `path`, or to standard output for `-`.
///
/// # Errors
/// If the file cannot be written.
pub fn write_json<T: Serialize + ?Sized>(what: &T, path: &Path) -> Result<()> {
    let mut out: Box<dyn Write> = if path == Path::new("-") {
        Box::new(io::stdout().lock())
    } else {
        Box::new(BufWriter::new(File::create(path).with_context(|| format!("create {}", path.display()))?))
    };
    serde_json::to_writer_pretty(&mut out, what).context("write the JSON document")?;
    writeln!(out)?;
    out.flush().context("write the JSON document")
}

/// The fields of two JSON objects.
pub(crate) fn merged(mut fields: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claims::{Bar, Evidence};

    #[test]
    fn the_document_has_the_published_shape() {
        let mut doc = Document::new("sideload", json!({"seed": 1}), Machine::this(None));
        doc.runs.push(Run::new("t", "p", json!({"tps": 1.5})));
        doc.claims.push(Claim::new("c", Evidence::Counted(2.0), Bar::AtMost(1.0)));
        doc.claims.push(Claim::new("d", Evidence::turns(&[2.0, 0.5, 1.5, 0.25]), Bar::AtMost(1.0)));
        doc.judge(Conditions::busy_machine());
        let json = serde_json::to_value(&doc).unwrap();
        let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&json), ["conditions", "experiment", "machine", "runs", "settings", "verdicts"]);
        assert_eq!(keys(&json["runs"][0]), ["metrics", "policy", "target"]);
        assert_eq!(json["verdicts"][0], json!({"claim": "c", "value": 2.0, "bar": "<= 1", "answer": "fails"}));
        assert_eq!(keys(&json["verdicts"][1]), ["answer", "bar", "claim", "interval", "reason", "turns", "value"]);
        assert_eq!((json["verdicts"][1]["answer"].as_str(), doc.answer()), (Some("cannot tell"), Answer::Fails));
    }
}
