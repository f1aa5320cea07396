//! Listings of what the database is doing: rows of named columns, and waits by class.

use std::ffi::c_void;
use std::time::UNIX_EPOCH;

use holdfast::{Cell as EngineCell, ColumnType, Error, Listing, metrics};

use crate::handle::{Slice, entry_points, put, shared, take};
use crate::{Code, Database};

/// What a column or a cell holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: of a cell only.
    Null = 0,
    /// A number, not negative.
    Number = 1,
    /// A number with a fraction.
    Real = 2,
    /// Text.
    Text = 3,
    /// A moment: a number of seconds since 1970.
    Time = 4,
}

/// A column of a listing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name; valid for ever.
    pub name: Slice,
    /// What it holds.
    pub kind: Kind,
    /// Of text: characters at most.
    pub chars: u32,
    /// True if a row may have nothing there.
    pub nullable: bool,
}

/// What a row has in a column.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// What it holds, and so in which of the following fields.
    pub kind: Kind,
    /// See `kind`.
    pub number: u64,
    /// See `kind`.
    pub real: f64,
    /// See `kind`; valid during the call that shows it.
    pub text: Slice,
}

impl Cell {
    fn of(cell: &EngineCell<'_>) -> Cell {
        let empty = Cell { kind: Kind::Null, number: 0, real: 0.0, text: Slice::of(&[]) };
        match cell {
            EngineCell::Null => empty,
            EngineCell::Unsigned(number) => Cell { kind: Kind::Number, number: *number, ..empty },
            EngineCell::Real(real) => Cell { kind: Kind::Real, real: *real, ..empty },
            EngineCell::Text(text) => Cell { kind: Kind::Text, text: Slice::of(text.as_bytes()), ..empty },
            EngineCell::Time(time) => {
                let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
                Cell { kind: Kind::Time, number: seconds, ..empty }
            }
        }
    }
}

/// The waits of one class.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WaitClass {
    /// What is waited for.
    pub name: Slice,
    /// How often.
    pub count: u64,
    /// For how long in all, in microseconds.
    pub total_us: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
}

fn listing(number: u32) -> Result<Listing, Error> {
    let known = usize::try_from(number).ok().and_then(|n| Listing::ALL.get(n));
    known.copied().ok_or_else(|| Error::InvalidArgument(format!("there is no listing {number}")))
}

entry_points! {
    /// The name of a listing, counted from 0, without any prefix; [`Code::Invalid`] behind the
    /// last.
    fn hf_listing_name(number: u32, out: *mut Slice) {
        take!(put(out, Slice::of(listing(number)?.name().as_bytes())));
        Ok(Code::Ok)
    }

    /// Calls `each` with every column of a listing.
    fn hf_listing_columns(
        number: u32,
        each: Option<extern "C" fn(context: *mut c_void, column: *const Column)>,
        context: *mut c_void,
    ) {
        let columns = listing(number)?.columns();
        let Some(each) = each else { return Ok(Code::Ok) };
        for column in columns {
            let (kind, chars) = match column.column_type {
                ColumnType::Unsigned => (Kind::Number, 0),
                ColumnType::Real => (Kind::Real, 0),
                ColumnType::Text(chars) => (Kind::Text, chars),
                ColumnType::Time => (Kind::Time, 0),
            };
            each(context, &Column { name: Slice::of(column.name.as_bytes()), kind, chars, nullable: column.nullable });
        }
        Ok(Code::Ok)
    }

    /// Calls `each` with every row of a listing, a cell for each column, until it returns false.
    fn hf_listing_rows(
        database: *const Database,
        number: u32,
        each: Option<extern "C" fn(context: *mut c_void, cells: *const Cell, count: usize) -> bool>,
        context: *mut c_void,
    ) {
        let (database, listing) = (take!(shared(database))?, listing(number)?);
        if let Some(each) = each {
            let mut cells = Vec::new();
            database.0.database().list(listing, &mut |row| {
                cells.clear();
                cells.extend(row.iter().map(Cell::of));
                each(context, cells.as_ptr(), cells.len())
            });
        }
        Ok(Code::Ok)
    }

    /// Calls `each` with the waits of every class.
    fn hf_waits(
        database: *const Database,
        each: Option<extern "C" fn(context: *mut c_void, waits: *const WaitClass)>,
        context: *mut c_void,
    ) {
        if let Some(each) = each {
            let snapshot = take!(shared(database))?.0.database().metrics_snapshot();
            for class in metrics::WaitClass::ALL {
                let waits = snapshot.wait(*class);
                let micros = |d: std::time::Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
                let (total_us, max_us) = (micros(waits.total), micros(waits.max));
                each(context, &WaitClass { name: Slice::of(class.name().as_bytes()), count: waits.count, total_us, max_us });
            }
        }
        Ok(Code::Ok)
    }
}
