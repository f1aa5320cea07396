//! Tables and verdicts as plain text.

use std::fmt::Write as _;

use crate::document::{Document, Verdict};

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
        let fails: Vec<&str> = d.verdicts.iter().filter(|v| !v.holds).map(|v| v.claim.as_str()).collect();
        let holds = d.verdicts.len() - fails.len();
        vec![d.experiment.clone(), format!("{holds} of {}", d.verdicts.len()), fails.join("; ")]
    };
    table(&["experiment", "claims that hold", "those that do not"], &documents.iter().map(row).collect::<Vec<_>>(), 3)
}

/// The verdicts, one per line.
#[must_use]
pub fn verdicts(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    for v in verdicts {
        let mark = if v.holds { "holds" } else { "FAILS" };
        let value = v.value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.3}"));
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{mark}  {}: {value} ({})", v.claim, v.bar);
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
