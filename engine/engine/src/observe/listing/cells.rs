//! Columns and cells: what a listing shows is made of them.

use std::time::SystemTime;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A number, not negative.
    Unsigned,
    /// A number with a fraction.
    Real,
    /// Text of at most so many characters.
    Text(u32),
    /// A moment.
    Time,
}

/// A column of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub column_type: ColumnType,
    /// True if a row may have nothing there.
    pub nullable: bool,
}

impl Column {
    pub(super) const fn new(name: &'static str, column_type: ColumnType) -> Column {
        Column { name, column_type, nullable: false }
    }

    pub(super) const fn number(name: &'static str) -> Column {
        Column::new(name, ColumnType::Unsigned)
    }

    pub(super) const fn real(name: &'static str) -> Column {
        Column::new(name, ColumnType::Real)
    }

    pub(super) const fn text(name: &'static str, chars: u32) -> Column {
        Column::new(name, ColumnType::Text(chars))
    }

    pub(super) const fn time(name: &'static str) -> Column {
        Column::new(name, ColumnType::Time)
    }

    pub(super) const fn or_null(mut self) -> Column {
        self.nullable = true;
        self
    }
}

/// Characters of a name in a listing: a schema's and a table's with what is put around them, each
/// of 64 characters that a server may write as five.
pub(super) const NAME: u32 = 655;

/// What a row has in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Nothing.
    Null,
    /// A number.
    Unsigned(u64),
    /// A number with a fraction.
    Real(f64),
    /// Text.
    Text(&'a str),
    /// A moment.
    Time(SystemTime),
}

impl<'a> Cell<'a> {
    pub(super) fn text(text: Option<&'a str>) -> Cell<'a> {
        text.map_or(Cell::Null, Cell::Text)
    }

    pub(super) fn flag(on: bool) -> Cell<'a> {
        Cell::Unsigned(u64::from(on))
    }
}

/// The receiver of the rows; false stops the listing.
pub(crate) type EachRow<'a> = dyn FnMut(&[Cell<'_>]) -> bool + 'a;
