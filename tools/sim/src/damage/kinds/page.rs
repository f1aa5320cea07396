//! Whole pages.

use holdfast_base::page::seal;
use rand::Rng;

use super::scene::{Done, Leeway, Scene, Target};
use crate::damage::layout::{Kind, Page, Role, field};

/// A page that is not free.
fn used(scene: &mut Scene<'_>) -> Option<Page> {
    scene.pick(|page| page.kind != Kind::Free)
}

/// The position of the log up to which the page has all changes.
pub fn lsn(scene: &mut Scene<'_>) -> Option<Done> {
    let page = used(scene)?;
    let done = scene.change_one(&page, &[field("LSN", 16, 8, Role::Id)])?;
    // What recovery does to the page then is what it would do to a page of that age.
    Some(if scene.sealed { done.excused(Leeway::Any) } else { done })
}

/// Where the page says that it belongs.
pub fn address(scene: &mut Scene<'_>) -> Option<Done> {
    let page = used(scene)?;
    scene.change_one(&page, &[field("space", 4, 4, Role::Id), field("page", 8, 4, Role::Page)])
}

/// Puts `bytes` in the place of a page, with its address.
fn put(scene: &mut Scene<'_>, page: &Page, bytes: &[u8]) -> Option<()> {
    let address: [u8; 8] = scene.bytes(page)?.get(4..12)?.try_into().ok()?;
    scene.edit(page, |own| {
        own.copy_from_slice(bytes);
        own[4..12].copy_from_slice(&address);
    })
}

/// Two pages of a file in each other's place.
pub fn swapped(scene: &mut Scene<'_>) -> Option<Done> {
    let one = used(scene)?;
    let other = scene.pick(|page| page.file == one.file && page.kind == one.kind && page.no != one.no)?;
    let (a, b) = (scene.bytes(&one)?.to_vec(), scene.bytes(&other)?.to_vec());
    put(scene, &one, &b)?;
    put(scene, &other, &a)?;
    let done = scene.done(&one, &format!("has changed places with page {}", other.no))?;
    Some(match one.kind {
        Kind::Overflow => done.of_a_value(),
        _ => scene.changed_by_redo(done),
    })
}

/// The page as it was at an earlier time.
pub fn older(scene: &mut Scene<'_>) -> Option<Done> {
    let page = used(scene)?;
    let size = scene.page_size();
    let at = page.no as usize * size;
    let old = scene.base.older.get(&page.file)?.get(at..at + size)?.to_vec();
    if old == scene.bytes(&page)? {
        return None;
    }
    scene.edit(&page, |bytes| bytes.copy_from_slice(&old))?;
    scene.edit(&page, seal)?;
    let done = scene.done(&page, "as it was at an earlier time")?;
    let leeway = if page.file == "system.hf" { Leeway::Any } else { Leeway::Existed };
    Some(match page.kind {
        Kind::Overflow => done.of_a_value(),
        _ => scene.changed_by_redo(done.excused(leeway)),
    })
}

/// A page of another file in the place of a page.
pub fn foreign(scene: &mut Scene<'_>) -> Option<Done> {
    let page = used(scene)?;
    let other = scene.pick(|other| other.kind != Kind::Free && other.file != page.file)?;
    let bytes = scene.bytes(&other)?.to_vec();
    put(scene, &page, &bytes)?;
    scene.done(&page, &format!("holds page {} of {}", other.no, other.file))
}

/// Zeros, as if the page had never been written.
pub fn zeros(scene: &mut Scene<'_>) -> Option<Done> {
    let page = used(scene)?;
    scene.edit(&page, |bytes| bytes.fill(0))?;
    // A page of zeros has no checksum.
    let size = scene.page_size();
    let at = page.no as usize * size;
    scene.files.get_mut(&page.file)?.get_mut(at..at + size)?.fill(0);
    scene.done(&page, "zeros")
}

/// A page whose body is noise.
pub fn garbage(scene: &mut Scene<'_>) -> Option<Done> {
    let page = used(scene)?;
    let mut noise = vec![0; scene.page_size() - 64];
    scene.rng.fill(&mut noise[..]);
    scene.edit(&page, |bytes| bytes[64..].copy_from_slice(&noise))?;
    let done = scene.done(&page, "noise behind its header")?;
    // Noise in a part of a value is a value.
    let is_value = scene.sealed && page.kind == Kind::Overflow && matches!(done.target, Target::Table(_));
    Some(if is_value { done.of_a_value() } else { done })
}

/// A bit, with the checksum as it was.
pub fn bit(scene: &mut Scene<'_>) -> Option<Done> {
    let page = used(scene)?;
    scene.sealed = false;
    let at = scene.rng.random_range(0..scene.page_size());
    let bit = scene.rng.random_range(0..8);
    scene.edit(&page, |bytes| bytes[at] ^= 1 << bit)?;
    scene.done(&page, &format!("bit {bit} of byte {at}"))
}
