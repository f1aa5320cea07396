//! Tables and verdicts as plain text.

use std::fmt::Write as _;

use crate::claims::{Answer, Verdict};
use crate::document::Document;

/// Rows of cells as aligned columns: the first `left` columns to the left, the others to the right.
#[must_use]
pub fn table(header: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|c| c.chars().count()).chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut out = String::new();
        for (column, cell) in cells.enumerate() {
            let width = widths[column];
            let padded = if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            out.push_str(if column == 0 { "" } else { "  " });
            out.push_str(&padded);
        }
        format!("{}\n", out.trim_end())
    };
    let mut out = line(&mut header.iter().copied());
    out.push_str(&line(&mut widths.iter().map(|&w| "-".repeat(w)).collect::<Vec<_>>().iter().map(String::as_str)));
    for row in rows {
        out.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    out
}

/// One line per experiment: how many of its claims hold, and the claims that do not.
#[must_use]
pub fn summary(documents: &[Document]) -> String {
    let row = |d: &Document| {
        let named = |v: &Verdict| format!("{}: {}", v.answer.name(), v.claim);
        let others: Vec<String> =
            [Answer::Fails, Answer::CannotTell].iter().flat_map(|a| d.with(*a)).map(named).collect();
        let holds = d.with(Answer::Holds).count();
        vec![d.experiment.clone(), format!("{holds} of {}", d.verdicts.len()), others.join("; ")]
    };
    table(&["experiment", "claims that hold", "the others"], &documents.iter().map(row).collect::<Vec<_>>(), 3)
}

/// The verdicts, one per line, with the reason where there is one.
#[must_use]
pub fn verdicts(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    for v in verdicts {
        let mark = if v.answer == Answer::Fails { "FAILS" } else { v.answer.name() };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{mark:<11}  {}: {} ({})", v.claim, v.measured(), v.bar);
        if !v.reason.is_empty() {
            let _ = writeln!(out, "{:<11}    {}", "", v.reason);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".into(), "10".into()], vec!["long".into(), "9".into()]];
        assert_eq!(table(&["name", "n"], &rows, 1), "name   n\n----  --\na     10\nlong   9\n");
    }
}
