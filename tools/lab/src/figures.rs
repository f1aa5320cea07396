//! Tables and charts as data. An experiment fills them in; the text on the terminal and the report
//! are made of them.

use serde::Serialize;

use crate::text::{table, wrapped};

/// A line of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub name: String,
    /// (x, y), x ascending.
    pub points: Vec<(f64, f64)>,
    /// True if it is a reference rather than a measurement.
    pub dashed: bool,
    /// The class of its colour in the report; empty for that of its place among the others.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub tone: &'static str,
}

impl Line {
    /// A measurement.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
        Line { name: name.to_owned(), points: points.into_iter().collect(), dashed: false, tone: "" }
    }

    /// The same in a colour that its subject has everywhere.
    pub fn toned(self, tone: &'static str) -> Line {
        Line { tone, ..self }
    }
}

/// A stretch of the x axis.
#[derive(Clone, Debug, Serialize)]
pub struct Span {
    pub from: f64,
    pub to: f64,
    pub label: String,
}

/// How a chart is drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub enum Form {
    #[default]
    Lines,
    /// Layers on top of each other, the first line lowest, below a line across at `top`. Spans are
    /// marked where they begin.
    Stack { top: f64, named: &'static str },
    /// A bar for the last point of each line, with the unit that the y axis names.
    Bars,
}

impl Form {
    fn is_usual(&self) -> bool {
        *self == Form::Lines
    }
}

/// Lines on one pair of axes.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    pub title: String,
    /// The quantity on the x axis.
    pub x_label: String,
    /// The quantity on the y axis.
    pub y_label: String,
    pub lines: Vec<Line>,
    pub spans: Vec<Span>,
    #[serde(skip_serializing_if = "Form::is_usual")]
    pub form: Form,
}

impl Chart {
    /// Lines over time.
    pub fn over_time(title: &str, y_label: &str, lines: Vec<Line>, spans: Vec<Span>) -> Chart {
        Chart { spans, ..Chart::over(title, "seconds", y_label, lines) }
    }

    /// Lines over another quantity than time.
    pub fn over(title: &str, x_label: &str, y_label: &str, lines: Vec<Line>) -> Chart {
        let (title, x_label, y_label) = (title.to_owned(), x_label.to_owned(), y_label.to_owned());
        Chart { title, x_label, y_label, lines, spans: Vec::new(), form: Form::Lines }
    }
}

/// A column of a table: its head, and the cell of an item.
pub type Shown<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

/// The heads of `columns`, and the cells of a row for each of `items`.
pub fn cells<'c, T>(items: &[T], columns: &[Shown<'c, T>]) -> (Vec<&'c str>, Vec<Vec<String>>) {
    let row = |item| columns.iter().map(|(_, cell)| cell(item)).collect();
    (columns.iter().map(|(head, _)| *head).collect(), items.iter().map(row).collect())
}

/// A table of results.
#[derive(Clone, Debug, Serialize)]
pub struct Grid {
    pub title: String,
    /// Column heads.
    pub header: Vec<String>,
    /// Rows of cells.
    pub rows: Vec<Vec<String>>,
    /// Columns from the left that hold words; the others hold numbers.
    pub words: usize,
    /// A note for the reader.
    pub note: String,
}

impl Grid {
    /// An empty table.
    pub fn new(title: &str, words: usize, header: &[&str], note: &str) -> Grid {
        let header = header.iter().map(|h| (*h).to_owned()).collect();
        Grid { title: title.to_owned(), header, rows: Vec::new(), words, note: note.to_owned() }
    }

    /// A table with a row for each of `items`.
    pub fn of<T>(title: &str, words: usize, items: &[T], columns: &[Shown<'_, T>], note: &str) -> Grid {
        let (header, rows) = cells(items, columns);
        Grid { rows, ..Grid::new(title, words, &header, note) }
    }

    /// As plain text.
    pub fn text(&self) -> String {
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        let mut out = format!("{}\n\n{}", self.title, table(&header, &self.rows, self.words));
        if !self.note.is_empty() {
            out.push_str(&wrapped(&self.note, 0));
        }
        out
    }
}

/// Plain text that is shown as it is.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    pub title: String,
    /// The parts of the text.
    pub parts: Vec<String>,
    /// So many of them are printed; the report has all.
    #[serde(skip)]
    pub printed: usize,
}

/// What an experiment shows besides its verdicts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// One paragraph: what is run, and what was published about it.
    pub lead: String,
    /// Findings as sentences, from experiments that have some.
    pub words: Vec<String>,
    pub grids: Vec<Grid>,
    /// Groups of charts, each with a title.
    pub charts: Vec<(String, Vec<Chart>)>,
    /// The same, which a reader unfolds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folded: Vec<(String, Vec<Chart>)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listings: Vec<Listing>,
}

impl Figures {
    /// The tables as plain text.
    pub fn text(&self) -> String {
        let mut out = wrapped(&self.lead, 0) + "\n";
        for sentence in &self.words {
            out.push_str(&wrapped(&format!("- {sentence}"), 2));
        }
        if !self.words.is_empty() {
            out.push('\n');
        }
        for grid in &self.grids {
            out.push_str(&grid.text());
            out.push('\n');
        }
        for listing in &self.listings {
            let parts = listing.parts.iter().take(listing.printed).map(String::as_str);
            out.push_str(&format!("{}\n\n{}\n", listing.title, parts.collect::<Vec<_>>().join("\n")));
        }
        out
    }

    /// True if there is nothing.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.grids.is_empty() && self.charts.is_empty()
    }
}
