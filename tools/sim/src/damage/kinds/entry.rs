//! Version headers, and what entries refer to.

use holdfast_base::codec::get_u32;
use rand::Rng;

use super::scene::{Done, Leeway, Scene};
use super::space::leading_to_a_value;
use crate::damage::layout::{CHAIN_BYTES, Field, Kind, Page, Role, VERSION_HEADER, VERSIONS, field, records};

/// A leaf of a table, and where the payload of one of its entries for which `fits` holds begins.
fn entry(scene: &mut Scene<'_>, fits: impl Fn(&[u8]) -> bool) -> Option<(Page, usize)> {
    for _ in 0..20 {
        let page = scene.pick_node(|page| page.kind == Kind::Leaf && page.index != VERSIONS)?;
        let bytes = scene.bytes(&page)?;
        let places = records(bytes).into_iter().filter(|record| {
            let (at, len) = record.payload;
            len >= VERSION_HEADER && fits(&bytes[at..at + len])
        });
        let places: Vec<usize> = places.map(|record| record.payload.0).collect();
        if let Some(at) = scene.one(&places) {
            return Some((page, at));
        }
    }
    None
}

/// Which entries lead to no row that lacks them, and the other way round, only the user of a raw
/// table knows.
fn excused(scene: &Scene<'_>, page: &Page, done: Done) -> Done {
    let done = done.forged();
    if scene.is_raw(&page.file) { done.excused(Leeway::Any) } else { done }
}

fn change(scene: &mut Scene<'_>, fits: impl Fn(&[u8]) -> bool, field: impl Fn(usize) -> Field) -> Option<Done> {
    let (page, at) = entry(scene, fits)?;
    let done = scene.change_one(&page, &[field(at)])?;
    Some(excused(scene, &page, done))
}

/// Delete mark, reference to a chain, or bits that mean nothing.
pub fn flags(scene: &mut Scene<'_>) -> Option<Done> {
    change(scene, |_| true, |at| field("flags of a version", at, 1, Role::Code))
}

/// The writer.
pub fn writer(scene: &mut Scene<'_>) -> Option<Done> {
    change(scene, |_| true, |at| field("writer of a version", at + 1, 8, Role::Id))
}

/// Page or number of the record before.
pub fn roll_pointer(scene: &mut Scene<'_>) -> Option<Done> {
    if scene.rng.random_bool(0.5) {
        return change(scene, |_| true, |at| field("page of a roll pointer", at + 13, 4, Role::Page));
    }
    change(scene, |_| true, |at| field("record of a roll pointer", at + 9, 4, Role::Count))
}

/// First page or length of a large value.
pub fn chain_reference(scene: &mut Scene<'_>) -> Option<Done> {
    let is_large = |payload: &[u8]| payload[0] & 2 != 0 && payload.len() >= VERSION_HEADER + 8;
    if scene.rng.random_bool(0.5) {
        let (page, at) = entry(scene, is_large)?;
        let at = at + VERSION_HEADER;
        let done = scene.change_one(&page, &[field("first page of a value", at, 4, Role::Page)])?;
        let done = leading_to_a_value(scene, &page, at, done);
        return Some(excused(scene, &page, done));
    }
    if scene.rng.random_bool(0.5) {
        return change(scene, is_large, |at| field("length of a value", at + VERSION_HEADER + 4, 4, Role::Count));
    }
    whole_pages(scene, is_large)
}

/// The length of a large value, which is that of some of its pages then.
fn whole_pages(scene: &mut Scene<'_>, is_large: impl Fn(&[u8]) -> bool) -> Option<Done> {
    let (page, at) = entry(scene, is_large)?;
    let (at, of_a_page) = (at + VERSION_HEADER + 4, (scene.page_size() - CHAIN_BYTES) as u32);
    let old = get_u32(scene.bytes(&page)?, at)?;
    let fewer = old.checked_sub(1)? / of_a_page;
    let new = of_a_page * scene.rng.random_range(0..=fewer);
    scene.edit(&page, |bytes| bytes[at..at + 4].copy_from_slice(&new.to_le_bytes()))?;
    let done = scene.done(&page, &format!("length of a value at {at}: {old} -> {new}"))?;
    Some(excused(scene, &page, done))
}

/// The length of the index key in the value of an entry.
pub fn entry_value(scene: &mut Scene<'_>) -> Option<Done> {
    let is_entry = |payload: &[u8]| (VERSION_HEADER + 1..VERSION_HEADER + 3).contains(&payload.len());
    change(scene, is_entry, |at| field("length of an index key", at + VERSION_HEADER, 1, Role::Count))
}
