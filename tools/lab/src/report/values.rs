//! Texts of a run's metrics, and the colour of its policy.

use serde_json::Value;

/// A text among the fields of a JSON object; empty if there is none.
pub(super) fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
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
