//! The catalog.

use rand::Rng;

use super::node;
use super::scene::{Done, Scene, Target};
use crate::damage::layout::{Kind, Page, Record, Role, VERSION_HEADER, catalog_fields, field, records};

/// A leaf of the catalog.
fn leaf(scene: &mut Scene<'_>) -> Option<Page> {
    scene.pick(|page| page.file == "system.hf" && page.kind == Kind::Leaf)
}

/// The key of a record: prefix and suffix.
fn key(bytes: &[u8], record: &Record) -> Option<Vec<u8>> {
    let prefix = usize::from(holdfast_base::codec::get_u16(bytes, 66)?);
    let (at, len) = record.suffix;
    Some([bytes.get(bytes.len() - prefix..)?, bytes.get(at..at + len)?].concat())
}

/// A number in the record of a table.
pub fn record(scene: &mut Scene<'_>) -> Option<Done> {
    let page = leaf(scene)?;
    let bytes = scene.bytes(&page)?;
    let names = records(bytes).into_iter().filter_map(|record| {
        let name = String::from_utf8(key(bytes, &record)?.strip_prefix(b"t")?.to_vec()).ok()?;
        Some((name, record))
    });
    let names: Vec<(String, Record)> = names.collect();
    let (name, record) = scene.one(&names)?;
    let (at, len) = record.payload;
    if scene.rng.random_ratio(1, 6) {
        // With this the record is none of the table any more.
        let header = [("flags", 0, 1, Role::Code), ("writer", 1, 8, Role::Id), ("roll pointer", 9, 8, Role::Id)];
        let (name, offset, width, role) = scene.one(&header)?;
        return scene.change_one(&page, &[field(name, at + offset, width, role)]);
    }
    let fields = catalog_fields(scene.bytes(&page)?, at + VERSION_HEADER, len.checked_sub(VERSION_HEADER)?);
    let done = scene.change_one(&page, &fields)?;
    let of_table = scene.base.tables.contains_key(&name) && scene.sealed;
    Some(if of_table { Done { target: Target::Table(name), ..done } } else { done })
}

/// The numbers that the next table gets.
pub fn next_ids(scene: &mut Scene<'_>) -> Option<Done> {
    let page = leaf(scene)?;
    let bytes = scene.bytes(&page)?;
    let record = records(bytes).into_iter().find(|record| key(bytes, record).as_deref() == Some(b"n"))?;
    let at = record.payload.0 + VERSION_HEADER;
    let fields = ["next space", "next index", "next table"];
    let fields: Vec<_> = (0..3).map(|n| field(fields[n], at + 1 + 4 * n, 4, Role::Id)).collect();
    scene.change_one(&page, &fields)
}

/// A node of the catalog, or how long one of its records is.
pub fn page(scene: &mut Scene<'_>) -> Option<Done> {
    let page = leaf(scene)?;
    match scene.rng.random_range(0..3) {
        0 => node::change_header(scene, &page),
        1 => node::change_counts(scene, &page),
        _ => node::change_record_length(scene, &page),
    }
}
