//! Nodes of trees.

use holdfast_base::codec::{get_u16, get_u32};
use rand::Rng;

use super::scene::{Done, Leeway, Scene};
use crate::damage::layout::{Field, Kind, Page, Record, Role, VERSIONS, field, records};

const HEADER: &[Field] = &[
    field("page type", 12, 1, Role::Code),
    field("level", 13, 1, Role::Code),
    field("flags", 14, 2, Role::Code),
    field("index", 24, 4, Role::Id),
    field("key version", 28, 4, Role::Id),
];

const COUNTS: &[Field] = &[
    field("slots", 64, 2, Role::Count),
    field("length of the prefix", 66, 2, Role::Count),
    field("heap start", 68, 4, Role::Offset),
    field("garbage", 72, 4, Role::Count),
];

const HINTS: &[Field] =
    &[field("slot of the last insert", 76, 2, Role::Count), field("run of inserts", 78, 2, Role::Count)];

/// The page's header.
pub fn header(scene: &mut Scene<'_>) -> Option<Done> {
    let page = scene.pick(|page| !matches!(page.kind, Kind::Free | Kind::Header))?;
    change_header(scene, &page)
}

/// A number in the header of `page`.
pub fn change_header(scene: &mut Scene<'_>, page: &Page) -> Option<Done> {
    scene.change_one(page, HEADER)
}

/// A number in the node's header of `page`.
pub fn change_counts(scene: &mut Scene<'_>, page: &Page) -> Option<Done> {
    scene.change_one(page, COUNTS)
}

/// The node's header.
pub fn counts(scene: &mut Scene<'_>) -> Option<Done> {
    let page = scene.pick_node(|_| true)?;
    change_counts(scene, &page)
}

/// What chooses the point of a split.
pub fn hints(scene: &mut Scene<'_>) -> Option<Done> {
    let page = scene.pick_node(|_| true)?;
    scene.change_one(&page, HINTS)
}

/// A node and one of its records.
fn record_of(scene: &mut Scene<'_>, fits: impl Fn(&Page) -> bool) -> Option<(Page, Record)> {
    let page = scene.pick_node(fits)?;
    let all = records(scene.bytes(&page)?);
    Some((page, scene.one(&all)?))
}

/// A key was changed, which is another row's or another entry's then. Only the user of a raw table
/// knows which entries there should be.
fn of_a_key(scene: &Scene<'_>, page: &Page, done: Done) -> Done {
    let leaves = scene.pages.iter().filter(|other| other.file == page.file && other.kind == Kind::Leaf);
    // That of the rows is the first that a table gets.
    let of_rows = leaves.map(|leaf| leaf.index).min() == Some(page.index);
    let done = done.forged();
    if scene.is_raw(&page.file) && !of_rows { done.excused(Leeway::Any) } else { done }
}

/// Changes the byte at `changed` of a record's suffix, and the head in its slot with it.
fn change_suffix(scene: &mut Scene<'_>, page: &Page, record: &Record, changed: usize) -> Option<()> {
    let ((at, len), slot, new) = (record.suffix, record.slot, scene.rng.random());
    scene.edit(page, |bytes| {
        bytes[changed] = new;
        let mut head = [0; 4];
        let n = len.min(4);
        head[..n].copy_from_slice(&bytes[at..at + n]);
        bytes[slot + 4..slot + 8].copy_from_slice(&u32::from_be_bytes(head).to_le_bytes());
    })
}

/// A slot.
pub fn slot(scene: &mut Scene<'_>) -> Option<Done> {
    let (page, record) = record_of(scene, |_| true)?;
    let fields = [
        field("offset of a record", record.slot, 2, Role::Offset),
        field("length of a suffix", record.slot + 2, 2, Role::Count),
        field("head of a suffix", record.slot + 4, 4, Role::Id),
    ];
    scene.change_one(&page, &fields)
}

/// Two slots in each other's place, or one in the place of both.
pub fn slots_swapped(scene: &mut Scene<'_>) -> Option<Done> {
    let page = scene.pick_node(|_| true)?;
    let all = records(scene.bytes(&page)?);
    let (a, b, twice) = (scene.one(&all)?.slot, scene.one(&all)?.slot, scene.rng.random_bool(0.5));
    if a == b {
        return None;
    }
    scene.edit(&page, |bytes| {
        let (one, other): (Vec<u8>, Vec<u8>) = (bytes[a..a + 8].to_vec(), bytes[b..b + 8].to_vec());
        bytes[b..b + 8].copy_from_slice(&one);
        if !twice {
            bytes[a..a + 8].copy_from_slice(&other);
        }
    })?;
    scene.done(&page, &format!("slots at {a} and {b} {}", if twice { "are the same" } else { "have changed places" }))
}

/// The length of a payload.
pub fn record_length(scene: &mut Scene<'_>) -> Option<Done> {
    let page = scene.pick_node(|_| true)?;
    change_record_length(scene, &page)
}

/// The length of a payload in `page`.
pub fn change_record_length(scene: &mut Scene<'_>, page: &Page) -> Option<Done> {
    let all = records(scene.bytes(page)?);
    let record = scene.one(&all)?;
    scene.change_one(page, &[field("length of a payload", record.at, 2, Role::Count)])
}

/// A byte of a key, with the head of its slot made to fit.
pub fn key_byte(scene: &mut Scene<'_>) -> Option<Done> {
    let (page, record) = record_of(scene, |page| page.index != VERSIONS && page.kind == Kind::Leaf)?;
    let bytes = scene.bytes(&page)?;
    let (len, prefix) = (bytes.len(), usize::from(get_u16(bytes, 66)?));
    let (at, suffix) = record.suffix;
    if prefix > 0 && scene.rng.random_ratio(1, 4) {
        let at = len - 1 - scene.rng.random_range(0..prefix);
        scene.edit(&page, |bytes| bytes[at] = bytes[at].wrapping_add(1))?;
        let done = scene.done(&page, &format!("a byte of the prefix at {at}"))?;
        return Some(of_a_key(scene, &page, done));
    }
    if suffix == 0 {
        return None;
    }
    let changed = at + scene.rng.random_range(0..suffix);
    change_suffix(scene, &page, &record, changed)?;
    let done = scene.done(&page, &format!("a byte of a key at {changed}"))?;
    Some(of_a_key(scene, &page, done))
}

/// The number of a child.
pub fn child(scene: &mut Scene<'_>) -> Option<Done> {
    let (page, record) = record_of(scene, |page| page.kind == Kind::Inner)?;
    scene.change_one(&page, &[field("child", record.payload.0, 4, Role::Page)])
}

/// A byte of a separator.
pub fn separator(scene: &mut Scene<'_>) -> Option<Done> {
    let (page, record) = record_of(scene, |page| page.kind == Kind::Inner)?;
    let (at, len) = record.suffix;
    if len == 0 {
        return None;
    }
    let changed = at + scene.rng.random_range(0..len);
    let old = get_u32(scene.bytes(&page)?, record.slot + 4)?;
    change_suffix(scene, &page, &record, changed)?;
    scene.done(&page, &format!("a byte of a separator at {changed}, its head was {old:08x}"))
}
