//! Values of a run's metrics, and the colour of its policy.

use serde_json::Value;

/// A number of a run's metrics.
pub(super) fn number(metrics: &serde_json::Map<String, Value>, name: &str) -> Option<f64> {
    metrics.get(name).and_then(Value::as_f64)
}

/// A text of a run's metrics.
pub(super) fn text<'a>(metrics: &'a serde_json::Map<String, Value>, name: &str) -> &'a str {
    metrics.get(name).and_then(Value::as_str).unwrap_or("")
}

/// The CSS class of a policy, so that it has the same colour everywhere.
pub(super) fn policy_class(policy: &str) -> &'static str {
    if policy.starts_with("a pool") {
        "ceiling"
    } else if policy.starts_with("holdfast (scan") {
        "holdfast-plain"
    } else if policy.starts_with("holdfast (policy") {
        "holdfast-alone"
    } else if policy.starts_with("holdfast") {
        "holdfast"
    } else if policy == "MyRocks" {
        "myrocks"
    } else if policy.contains("time 0 ") {
        "midpoint-0"
    } else if policy.contains("pct 5,") {
        "midpoint-5"
    } else if policy.contains("time 60000") {
        "midpoint-late"
    } else {
        "midpoint"
    }
}
