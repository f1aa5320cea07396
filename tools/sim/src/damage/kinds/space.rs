//! Chains of large values, headers of spaces, allocation bitmaps.

use holdfast_base::codec::get_u32;
use rand::Rng;

use super::scene::{Done, Scene};
use crate::damage::layout::{Field, Kind, Page, Role, field};

/// A page of a chain, of a kind that `field` changes.
fn chain(scene: &mut Scene<'_>, field: Field) -> Option<Done> {
    let page = scene.pick(|page| page.kind == Kind::Overflow)?;
    // What another chain has may be a part of a value of the same length.
    scene.change_one(&page, &[field]).map(Done::forged)
}

/// The page that a chain goes on in.
pub fn chain_next(scene: &mut Scene<'_>) -> Option<Done> {
    let page = scene.pick(|page| page.kind == Kind::Overflow)?;
    let done = scene.change_one(&page, &[field("next page of a chain", 64, 4, Role::Page)])?;
    Some(leading_to_a_value(scene, &page, 64, done))
}

/// Where a number of `page` at `at` leads to a page of chains now, of a value that nothing else
/// refers to, that may be read as this one's.
pub fn leading_to_a_value(scene: &Scene<'_>, page: &Page, at: usize, done: Done) -> Done {
    let no = scene.bytes(page).and_then(|bytes| get_u32(bytes, at));
    let is_one = |other: &Page| other.kind == Kind::Overflow && other.file == page.file && other.index == page.index;
    let leads = scene.pages.iter().any(|other| Some(other.no) == no && is_one(other));
    if leads { done.of_a_value() } else { done.forged() }
}

/// Bytes in a page of a chain.
pub fn chain_length(scene: &mut Scene<'_>) -> Option<Done> {
    chain(scene, field("bytes in a page of a chain", 68, 4, Role::Count))
}

/// References to a chain.
pub fn chain_references(scene: &mut Scene<'_>) -> Option<Done> {
    chain(scene, field("references to a chain", 72, 4, Role::Count))
}

const IDENTITY: &[Field] = &[
    field("magic", 64, 1, Role::Code),
    field("UUID", 72, 4, Role::Id),
    field("space", 88, 4, Role::Id),
    field("page size", 92, 4, Role::Count),
    field("format version", 96, 4, Role::Code),
    field("compatible features", 100, 4, Role::Code),
    field("incompatible features", 104, 4, Role::Code),
];

/// What a space's header says it is.
pub fn identity(scene: &mut Scene<'_>) -> Option<Done> {
    let page = header(scene)?;
    scene.change_one(&page, IDENTITY)
}

fn header(scene: &mut Scene<'_>) -> Option<Page> {
    scene.pick(|page| page.kind == Kind::Header)
}

/// How many pages a file has.
pub fn pages(scene: &mut Scene<'_>) -> Option<Done> {
    let page = header(scene)?;
    scene.change_one(&page, &[field("pages of the file", 108, 4, Role::Page)])
}

/// A number that is kept for the floors above.
pub fn marks(scene: &mut Scene<'_>) -> Option<Done> {
    let page = header(scene)?;
    let at = 128 + 8 * scene.rng.random_range(0..if page.file == "undo.hf" { 5 } else { 2 });
    let role = if scene.rng.random_bool(0.5) { Role::Id } else { Role::Page };
    scene.change_one(&page, &[field("a mark", at, 8, role)])
}

/// The bit of a page that is in use, or of one that is free.
pub fn bit(scene: &mut Scene<'_>) -> Option<Done> {
    let bitmap = scene.pick(|page| page.kind == Kind::Bitmap && page.no == 1)?;
    let of = scene.pick(|page| page.file == bitmap.file)?;
    scene.edit(&bitmap, |bytes| bytes[80 + of.no as usize / 8] ^= 1 << (of.no % 8))?;
    scene.done(&bitmap, &format!("the bit of page {}", of.no))
}

/// Many bits, or the page's type.
pub fn words(scene: &mut Scene<'_>) -> Option<Done> {
    let page = scene.pick(|page| page.kind == Kind::Bitmap)?;
    let (what, from, len, byte) = match scene.rng.random_range(0..4) {
        0 => ("all bits are clear", 80, scene.page_size() - 80, 0),
        1 => ("all bits are set", 80, scene.page_size() - 80, 255),
        2 => ("the first extent is free", 80, 8, 0),
        _ => ("its type is a tree's", 12, 1, 3),
    };
    scene.edit(&page, |bytes| bytes[from..from + len].fill(byte))?;
    scene.done(&page, what)
}
