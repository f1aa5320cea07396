//! The tables of dbSTRESS: columns, keys, initial rows.

use crate::Result as WorkloadResult;
use crate::rng::Rng;
use crate::row::{Schema, Type, Value};
use crate::{Failure, TableNo};

use super::{HISTORY_PER_OBJECT, Options, SECTIONS, STATS, ZONES};

/// A table of the workload; its number follows from the first one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// ZONE.
    Zone,
    /// SECTION.
    Section,
    /// STAT.
    Stat,
    /// OBJECT.
    Object,
    /// HISTORY.
    History,
    /// The index of HISTORY on (REF_OBJECT, HORDER), where that is not its clustered key.
    HistoryIndex,
}

impl Table {
    /// All of them, in the order of their numbers.
    pub const ALL: [Table; 6] =
        [Table::Zone, Table::Section, Table::Stat, Table::Object, Table::History, Table::HistoryIndex];

    /// Its number in the store.
    #[must_use]
    pub fn number(self) -> TableNo {
        TableNo(self as usize)
    }
}

/// The names of the tables of a run, in the order of their numbers.
#[must_use]
pub fn table_names(hpk: bool) -> &'static [&'static str] {
    const NAMES: [&str; 6] = ["zone", "section", "stat", "object", "history", "history_ref"];
    if hpk { &NAMES[..5] } else { &NAMES }
}

/// The columns of each table that are not in its key.
#[derive(Clone, Debug)]
pub(super) struct Schemas {
    pub zone: Schema,
    pub section: Schema,
    pub stat: Schema,
    pub object: Schema,
    pub history: Schema,
}

impl Schemas {
    pub(super) fn new(hpk: bool) -> Schemas {
        let history = [
            ("ref_stat", Type::Char(3)),
            ("begin_date", Type::Char(12)),
            ("end_date", Type::Char(12)),
            ("note", Type::Char(100)),
            ("ref_object", Type::Char(10)),
            ("horder", Type::Int),
        ];
        Schemas {
            zone: Schema::new(&[("name", Type::Char(40))]),
            section: Schema::new(&[("ref_zone", Type::Char(2)), ("name", Type::Char(40))]),
            stat: Schema::new(&[("name", Type::Char(40)), ("numb", Type::Int)]),
            object: Schema::new(&[
                ("ref_section", Type::Char(2)),
                ("name", Type::Char(30)),
                ("create_date", Type::Char(12)),
                ("note", Type::Char(100)),
            ]),
            history: Schema::new(if hpk { &history[..4] } else { &history }),
        }
    }
}

/// A REF of `width` decimal digits.
pub(super) fn reference(n: u32, width: usize) -> Vec<u8> {
    format!("{n:0width$}").into_bytes()
}

/// The key of a HISTORY row, or of its index entry up to the row id.
pub(super) fn history_key(object: u32, horder: u32) -> Vec<u8> {
    let mut key = reference(object, 10);
    key.extend_from_slice(&horder.to_be_bytes());
    key
}

/// A date of dbSTRESS: DD/MM/19YY.
pub(super) fn date(n: u32) -> String {
    format!("{:02}/{:02}/19{:02}", n % 28 + 1, n % 12 + 1, n % 100)
}

/// The contents of a HISTORY row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HistoryRow {
    pub object: u32,
    pub horder: u32,
    pub stat: u32,
    pub date: u32,
}

impl HistoryRow {
    /// Encodes the row. All rows are equally long, so that a change of one happens in place.
    pub(super) fn encode(&self, schemas: &Schemas, hpk: bool, out: &mut Vec<u8>) {
        let (stat, reference) = (reference(self.stat, 3), reference(self.object, 10));
        let date = date(self.date);
        let note = format!("{:X<100}", format!("note {:02} of {:010}, {:03} ", self.horder, self.object, self.stat));
        let text = |text| Value::Text(text);
        let values = [
            text(&stat[..]),
            text(date.as_bytes()),
            text(date.as_bytes()),
            text(note.as_bytes()),
            text(&reference),
            Value::Int(self.horder),
        ];
        schemas.history.encode(if hpk { &values[..4] } else { &values }, out);
    }
}

/// Calls `each` with key and row of every row of `table` of the initial content, in key order.
///
/// # Errors
/// What `each` returns.
pub fn generate<E>(
    options: &Options,
    table: Table,
    seed: u64,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let schemas = Schemas::new(options.hpk);
    let mut row = Vec::with_capacity(200);
    let named = |what: &str, i: u32| format!("{what} {i:06}");
    match table {
        Table::Zone => (0..ZONES).try_for_each(|i| {
            schemas.zone.encode(&[Value::Text(named("zone", i).as_bytes())], &mut row);
            each(&reference(i, 2), &row)
        }),
        Table::Section => (0..SECTIONS).try_for_each(|i| {
            let zone = reference(i % ZONES, 2);
            schemas.section.encode(&[Value::Text(&zone), Value::Text(named("section", i).as_bytes())], &mut row);
            each(&reference(i, 2), &row)
        }),
        Table::Stat => (0..STATS).try_for_each(|i| {
            schemas.stat.encode(&[Value::Text(named("stat", i).as_bytes()), Value::Int(i)], &mut row);
            each(&reference(i, 3), &row)
        }),
        Table::Object => (0..options.objects).try_for_each(|i| {
            let (section, note) = (reference(i % SECTIONS, 2), format!("{:X<100}", named("object", i)));
            let (name, date) = (named("object", i), date(i));
            let texts = [&section[..], name.as_bytes(), date.as_bytes(), note.as_bytes()];
            schemas.object.encode(&texts.map(Value::Text), &mut row);
            each(&reference(i, 10), &row)
        }),
        Table::History => (0..options.objects * HISTORY_PER_OBJECT).try_for_each(|i| {
            let first = initial(seed, i);
            first.encode(&schemas, options.hpk, &mut row);
            match options.hpk {
                true => each(&history_key(first.object, first.horder), &row),
                false => each(&u64::from(i).to_be_bytes(), &row),
            }
        }),
        Table::HistoryIndex if options.hpk => Ok(()),
        Table::HistoryIndex => (0..options.objects * HISTORY_PER_OBJECT).try_for_each(|i| {
            let mut key = history_key(i / HISTORY_PER_OBJECT, i % HISTORY_PER_OBJECT);
            key.extend_from_slice(&u64::from(i).to_be_bytes());
            each(&key, &[])
        }),
    }
}

/// Row `i` of HISTORY as loaded.
fn initial(seed: u64, i: u32) -> HistoryRow {
    let (object, horder) = (i / HISTORY_PER_OBJECT, i % HISTORY_PER_OBJECT);
    let date = Rng::for_part(seed, u64::from(i)).below(100) as u32;
    HistoryRow { object, horder, stat: (object + 10 * horder) % STATS, date }
}

/// The row id at the end of an entry of the index.
pub(super) fn row_id(entry: &[u8]) -> WorkloadResult<[u8; 8]> {
    let id = entry.last_chunk::<8>().copied();
    id.ok_or_else(|| Failure::fatal(format_args!("an entry of the index of HISTORY with {} bytes", entry.len())))
}
