//! Writing trace files: one page number per line, or tagged.
//!
//! The tagged format begins with the line [`TAGGED`]; each request is a line `CLASS PAGE TOUCHES
//! STATEMENT` with class `f` (foreground), `b` (background) or `s` (background, a declared scan). A
//! line [`MEASURE`] ends the warm-up.

use std::io::Write;

use crate::trace::{Class, Trace};
use holdfast_policy::ScanHint;

/// First line of a tagged trace.
pub(crate) const TAGGED: &str = "# holdfast trace 1: class page touches statement";
/// The line before the first request that is measured.
pub(crate) const MEASURE: &str = "# measure";

/// Writes `trace` to `out`: tagged, or (`plain`) one page number per touch and line, for other
/// simulators.
///
/// # Errors
/// The errors of `out`.
pub fn write(trace: &Trace, plain: bool, out: &mut dyn Write) -> std::io::Result<()> {
    if !plain {
        writeln!(out, "{TAGGED}")?;
    }
    for (i, r) in trace.requests.iter().enumerate() {
        let key = trace.keys[r.page as usize];
        if plain {
            for _ in 0..r.touches {
                writeln!(out, "{key}")?;
            }
            continue;
        }
        if i == trace.measured_from && i > 0 {
            writeln!(out, "{MEASURE}")?;
        }
        let class = match (r.class, r.scan) {
            (Class::Foreground, _) => 'f',
            (Class::Background, ScanHint::Ring) => 's',
            (Class::Background, _) => 'b',
        };
        writeln!(out, "{class} {key} {} {}", r.touches, r.statement)?;
    }
    out.flush()
}
