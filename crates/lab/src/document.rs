//! The document of an experiment: what `--json` writes, from which the report is made, and the
//! verdicts in it.
//!
//! ```text
//! {"experiment", "machine", "settings",
//!  "runs":     [{"target", "policy", "metrics": {...}}],
//!  "verdicts": [{"claim", "value", "bar", "holds"}]}
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::figures::Figures;
use crate::machine::Machine;

/// The results of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// The experiment's name.
    pub experiment: String,
    /// Title of the report, where the experiment gives it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The machine that it ran on.
    pub machine: Machine,
    /// Every size, speed and switch, the seed included.
    pub settings: Map<String, Value>,
    /// The runs, in the order in which they were made.
    pub runs: Vec<Run>,
    /// A verdict per claim.
    pub verdicts: Vec<Verdict>,
    /// Tables and charts, where the experiment makes them itself.
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
    pub metrics: Map<String, Value>,
}

/// The verdict on a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim, in words.
    pub claim: String,
    /// The measured value; null if the run did not get that far.
    pub value: Option<f64>,
    /// The value that it is compared with.
    pub bar: Bar,
    /// True if it holds.
    pub holds: bool,
}

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
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Bar::AtLeast(bar) => value >= bar,
            Bar::AtMost(bar) => value <= bar,
            Bar::Exactly(bar) => value == bar,
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

impl Verdict {
    /// Returns the verdict on `claim`. A value that could not be measured fails.
    #[must_use]
    pub fn new(claim: impl Into<String>, value: Option<f64>, bar: Bar) -> Verdict {
        let value = value.filter(|v| v.is_finite());
        Verdict { claim: claim.into(), value, bar, holds: value.is_some_and(|v| bar.holds(v)) }
    }
}

impl Document {
    /// A document without runs.
    #[must_use]
    pub fn new(experiment: &str, settings: Value, machine: Machine) -> Document {
        let settings = match settings {
            Value::Object(map) => map,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Document {
            experiment: experiment.to_owned(),
            title: String::new(),
            machine,
            settings,
            runs: Vec::new(),
            verdicts: Vec::new(),
            figures: Figures::default(),
        }
    }

    /// True if every claim holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verdicts.iter().all(|v| v.holds)
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

/// The fields of a JSON object, for [`Run::metrics`].
#[must_use]
pub fn metrics(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("value".to_owned(), json!(other))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_compares_with_its_bar() {
        assert!(Verdict::new("a", Some(0.95), Bar::AtLeast(0.95)).holds);
        assert!(!Verdict::new("a", Some(0.94), Bar::AtLeast(0.95)).holds);
        assert!(Verdict::new("a", Some(1.0), Bar::AtMost(1.05)).holds);
        assert!(!Verdict::new("a", Some(1.0), Bar::Exactly(0.0)).holds);
        assert!(!Verdict::new("not measured", None, Bar::AtMost(9.0)).holds);
        assert!(!Verdict::new("no number", Some(f64::NAN), Bar::AtMost(9.0)).holds);
    }

    #[test]
    fn the_document_has_the_published_shape() {
        let mut doc = Document::new("sideload", json!({"seed": 1}), Machine::this(None));
        doc.runs.push(Run { target: "t".into(), policy: "p".into(), metrics: metrics(json!({"tps": 1.5})) });
        doc.verdicts.push(Verdict::new("c", Some(2.0), Bar::AtMost(1.0)));
        let json = serde_json::to_value(&doc).unwrap();
        let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&json), ["experiment", "machine", "runs", "settings", "verdicts"]);
        assert_eq!(keys(&json["runs"][0]), ["metrics", "policy", "target"]);
        assert_eq!(json["verdicts"][0], json!({"claim": "c", "value": 2.0, "bar": "<= 1", "holds": false}));
        assert!(!doc.holds());
    }
}
