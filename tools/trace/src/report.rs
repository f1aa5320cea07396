//! Prints rows: a table, or JSON.

use std::fmt::Write;

use crate::simulate::Row;

/// One table per trace: a line per policy, a column per number of frames.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    for of_trace in rows.chunk_by(|a, b| a.trace == b.trace) {
        let mut sizes: Vec<usize> = of_trace.iter().map(|r| r.frames).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let width = of_trace.iter().map(|r| r.policy.len()).max().unwrap_or(0).max("miss ratio".len());
        if !out.is_empty() {
            out.push('\n');
        }
        let _ = writeln!(out, "{}: {} touches", of_trace[0].trace, of_trace[0].touches);
        let _ = write!(out, "{:width$}", "miss ratio");
        for n in &sizes {
            let _ = write!(out, " {n:>9}");
        }
        out.push('\n');
        for of_policy in of_trace.chunk_by(|a, b| a.policy == b.policy) {
            let _ = write!(out, "{:width$}", of_policy[0].policy);
            for n in &sizes {
                let ratio = of_policy.iter().find(|r| r.frames == *n).map(|r| format!("{:.4}", r.miss_ratio));
                let _ = write!(out, " {:>9}", ratio.as_deref().unwrap_or("-"));
            }
            out.push('\n');
        }
    }
    out
}

/// An array of `{"trace", "policy", "frames", "miss_ratio"}`.
///
/// # Errors
/// None that rows can cause; the serializer's signature has one.
pub fn json(rows: &[Row]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(rows)
}
