//! Undo logs, their directory, the version tree.

use holdfast_base::codec::{get_u16, get_u32};
use rand::Rng;

use super::scene::{Done, Leeway, Scene};
use crate::damage::layout::{Field, Kind, Page, Role, VERSIONS, field, records, undo_record_fields, version_fields};

const HEADER: &[Field] = &[
    field("owner of an undo page", 64, 8, Role::Id),
    field("records of an undo page", 72, 2, Role::Count),
    field("end of an undo page's records", 74, 2, Role::Offset),
    field("kind of an undo page", 76, 1, Role::Code),
];
/// Where the state of a log is on its first page, and what it says.
const OFF_STATE: usize = 77;
const FREE: u8 = 0;
const ACTIVE: u8 = 1;
const COMMITTED: u8 = 3;
const STATE: &[Field] = &[
    field("state of an undo log", OFF_STATE, 1, Role::Code),
    field("length of an xid", 78, 2, Role::Count),
    field("commit number", 80, 8, Role::Id),
    field("a byte of an xid", 96, 1, Role::Code),
];
const LINKS: &[Field] =
    &[field("last page of an undo log", 88, 4, Role::Page), field("page before in an undo log", 92, 4, Role::Page)];
/// Where the entries of a directory begin.
const ENTRIES: usize = 72;

/// An undo page, one of an unfinished or prepared transaction as often as any other.
fn undo_page(scene: &mut Scene<'_>) -> Option<Page> {
    if scene.rng.random_bool(0.5) {
        let pages: Vec<Page> = scene.pages.iter().filter(|page| page.kind == Kind::Undo).cloned().collect();
        let open =
            pages.into_iter().filter(|page| scene.bytes(page).is_some_and(|b| matches!(b[77], 1 | 2) || b[76] == 2));
        let open: Vec<Page> = open.collect();
        if let Some(page) = scene.one(&open) {
            return Some(page);
        }
    }
    scene.pick(|page| page.kind == Kind::Undo)
}

/// Whose records there are, and how many.
pub fn page_header(scene: &mut Scene<'_>) -> Option<Done> {
    let page = undo_page(scene)?;
    scene.change_one(&page, HEADER)
}

/// How a transaction has ended. One that had committed, also one whose log purge has freed since,
/// and is active then is rolled back: the page is what that of an unfinished transaction can be.
pub fn state(scene: &mut Scene<'_>) -> Option<Done> {
    let page = undo_page(scene)?;
    let before = scene.bytes(&page)?[OFF_STATE];
    let done = scene.change_one(&page, STATE)?;
    let is_rolled_back = matches!((before, scene.bytes(&page)?[OFF_STATE]), (COMMITTED | FREE, ACTIVE));
    Some(if is_rolled_back { done.excused(Leeway::Existed) } else { done })
}

/// The pages of a log.
pub fn links(scene: &mut Scene<'_>) -> Option<Done> {
    let page = undo_page(scene)?;
    scene.change_one(&page, LINKS)
}

/// An undo record, or where it is.
pub fn record(scene: &mut Scene<'_>) -> Option<Done> {
    let page = undo_page(scene)?;
    let bytes = scene.bytes(&page)?;
    let count = usize::from(get_u16(bytes, 72)?);
    let size = bytes.len();
    if count == 0 || 2 * count > size {
        return None;
    }
    let slot = size - 2 * (scene.rng.random_range(0..count) + 1);
    if scene.rng.random_ratio(1, 4) {
        return scene.change_one(&page, &[field("offset of an undo record", slot, 2, Role::Offset)]);
    }
    let bytes = scene.bytes(&page)?;
    let fields = undo_record_fields(bytes, usize::from(get_u16(bytes, slot)?));
    scene.change_one(&page, &fields)
}

/// The directory of undo logs: its numbers, one of its entries, or an entry in the place of another
/// one, whose log nothing leads to then.
pub fn directory(scene: &mut Scene<'_>) -> Option<Done> {
    let page = scene.pick(|page| page.kind == Kind::Directory)?;
    let bytes = scene.bytes(&page)?;
    // Damage before this one may have changed the count.
    let count = (get_u32(bytes, 64)? as usize).clamp(1, (bytes.len() - ENTRIES) / 4);
    let first = bytes[ENTRIES..ENTRIES + 4].to_vec();
    let at = ENTRIES + 4 * scene.rng.random_range(0..count);
    if at > ENTRIES && scene.rng.random_ratio(1, 3) {
        scene.edit(&page, |bytes| bytes[at..at + 4].copy_from_slice(&first))?;
        return scene.done(&page, &format!("the entry of a directory at {at} is that at {ENTRIES}"));
    }
    let fields = [
        field("entries of a directory", 64, 4, Role::Count),
        field("next page of a directory", 68, 4, Role::Page),
        field("an entry of a directory", at, 4, Role::Page),
    ];
    scene.change_one(&page, &fields)
}

/// An entry of the version tree.
pub fn version(scene: &mut Scene<'_>) -> Option<Done> {
    let page = scene.pick(|page| page.index == VERSIONS && page.kind == Kind::Leaf)?;
    let all = records(scene.bytes(&page)?);
    let record = scene.one(&all)?;
    let fields = version_fields(scene.bytes(&page)?, &record);
    let changed = scene.one(&fields)?;
    let done = scene.change_one(&page, &[changed])?;
    // A chain that goes with the version may be another row's.
    Some(if changed.role == Role::Page { done.forged() } else { done })
}
