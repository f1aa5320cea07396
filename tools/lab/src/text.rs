//! Tables and sentences as plain text, for a terminal of 100 columns.

/// Columns of the terminal.
pub const WIDTH: usize = 100;
/// What stands between two columns of a table.
const GAP: &str = "  ";

/// Rows of cells as aligned columns: the first `left` columns to the left, the others to the right.
/// A table that is wider than the terminal is broken into several, each with the first columns.
pub fn table(header: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|c| c.chars().count()).chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |columns: &[usize], cell: &dyn Fn(usize) -> String| {
        let padded = |&column: &usize| {
            let (cell, width) = (cell(column), widths[column]);
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        format!("{}\n", columns.iter().map(padded).collect::<Vec<_>>().join(GAP).trim_end())
    };
    let part = |columns: Vec<usize>| {
        let mut out = line(&columns, &|column| header[column].to_owned());
        out.push_str(&line(&columns, &|column| "-".repeat(widths[column])));
        for row in rows {
            out.push_str(&line(&columns, &|column| row.get(column).cloned().unwrap_or_default()));
        }
        out
    };
    parts(&widths, left, WIDTH).into_iter().map(part).collect::<Vec<_>>().join("\n")
}

/// The columns of each part of a table that is `limit` characters wide at most: the first `left`,
/// and as many of the others as there is room for, one at least.
pub fn parts(widths: &[usize], left: usize, limit: usize) -> Vec<Vec<usize>> {
    let first = || (0..left.min(widths.len())).collect::<Vec<_>>();
    let room = |columns: &[usize]| columns.iter().map(|&column| widths[column] + GAP.len()).sum::<usize>();
    let mut parts = vec![first()];
    for (column, width) in widths.iter().enumerate().skip(left) {
        let last = parts.last().map_or(&[][..], Vec::as_slice);
        if last.len() > left && room(last) + width > limit {
            parts.push(first());
        }
        parts.last_mut().into_iter().for_each(|part| part.push(column));
    }
    parts
}

/// A sentence in lines of the terminal's width. Those behind the first begin with `indent` spaces.
pub fn wrapped(sentence: &str, indent: usize) -> String {
    let indent = " ".repeat(indent);
    textwrap::fill(sentence, textwrap::Options::new(WIDTH).subsequent_indent(&indent)) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".into(), "10".into()], vec!["long".into(), "9".into()]];
        assert_eq!(table(&["name", "n"], &rows, 1), "name   n\n----  --\na     10\nlong   9\n");
    }

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        let wide = "w".repeat(40);
        let text = table(&["name", "a", "b", "c"], &[vec!["x".into(), wide.clone(), wide.clone(), wide.clone()]], 1);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.matches("name").count(), 2, "each part says whose the cells are");
        assert_eq!(text.matches(&wide).count(), 3);
        let sentence = wrapped(&"word ".repeat(50), 4);
        assert!(sentence.lines().all(|line| line.chars().count() <= WIDTH), "{sentence}");
        assert_eq!(sentence.lines().filter(|line| line.starts_with("    word")).count(), sentence.lines().count() - 1);
    }
}
