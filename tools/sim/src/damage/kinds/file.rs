//! Whole files.

use holdfast_base::checksum;
use holdfast_base::page::seal;
use rand::Rng;

use super::scene::{Done, Leeway, Scene, Target};

/// A file: those of tables are taken more often than the others.
fn any(scene: &mut Scene<'_>) -> Option<String> {
    let names: Vec<String> = scene.files.keys().cloned().collect();
    let tables: Vec<String> = names.iter().filter(|name| scene.table_of(name).is_some()).cloned().collect();
    if scene.rng.random_bool(0.6) { scene.one(&tables) } else { scene.one(&names) }
}

fn done(scene: &Scene<'_>, name: &str, what: &str) -> Option<Done> {
    let done = scene.done_to(name, format!("{name}: {what}"));
    Some(match done.target {
        Target::Log => done.excused(Leeway::Existed),
        Target::Undo => done.excused(Leeway::Uncommitted),
        _ => done,
    })
}

/// A file that was cut.
pub fn shorter(scene: &mut Scene<'_>) -> Option<Done> {
    let (name, size) = (any(scene)?, scene.page_size());
    let len = scene.files.get(&name)?.len();
    if len == 0 {
        return None;
    }
    let new = if scene.rng.random_bool(0.5) {
        scene.rng.random_range(0..len)
    } else {
        len.saturating_sub(size * scene.rng.random_range(1..8))
    };
    scene.files.get_mut(&name)?.truncate(new);
    done(scene, &name, &format!("{new} of {len} bytes are left"))
}

/// A file that goes on behind its end.
pub fn longer(scene: &mut Scene<'_>) -> Option<Done> {
    let (name, size) = (any(scene)?, scene.page_size());
    let more = if scene.rng.random_bool(0.5) { size * 3 } else { scene.rng.random_range(1..size) };
    let mut tail = vec![0; more];
    if scene.rng.random_bool(0.5) {
        scene.rng.fill(&mut tail[..]);
    }
    scene.files.get_mut(&name)?.extend(tail);
    done(scene, &name, &format!("{more} bytes more"))
}

/// A file that is not there.
pub fn missing(scene: &mut Scene<'_>) -> Option<Done> {
    let name = any(scene)?;
    scene.files.remove(&name)?;
    done(scene, &name, "missing")
}

/// A file without bytes.
pub fn empty(scene: &mut Scene<'_>) -> Option<Done> {
    let name = any(scene)?;
    scene.files.get_mut(&name)?.clear();
    done(scene, &name, "empty")
}

/// A file as it was at an earlier time.
pub fn older(scene: &mut Scene<'_>) -> Option<Done> {
    let names: Vec<String> = scene.base.older.keys().filter(|name| scene.files.contains_key(*name)).cloned().collect();
    let name = scene.one(&names)?;
    scene.files.insert(name.clone(), scene.base.older.get(&name)?.clone());
    let done = done(scene, &name, "as it was at an earlier time")?;
    let leeway = if done.target == Target::System { Leeway::Any } else { Leeway::Existed };
    Some(scene.changed_by_redo(done.excused(leeway)))
}

/// A table's file in the place of another one.
pub fn swapped(scene: &mut Scene<'_>) -> Option<Done> {
    let tables: Vec<String> = scene.base.tables.values().map(|table| table.file.clone()).collect();
    let (name, other) = (scene.one(&tables)?, scene.one(&tables)?);
    if name == other {
        return None;
    }
    let bytes = scene.files.get(&other)?.clone();
    scene.files.insert(name.clone(), bytes);
    done(scene, &name, &format!("holds what {other} holds"))
}

/// `holdfast.meta`.
pub fn meta(scene: &mut Scene<'_>) -> Option<Done> {
    let (at, new, sealed) = (scene.rng.random_range(0..60), scene.rng.random(), scene.sealed);
    let bytes = scene.files.get_mut("holdfast.meta")?;
    *bytes.get_mut(at)? = new;
    if sealed && bytes.len() >= 64 {
        let sum = checksum(&bytes[..60]).to_le_bytes();
        bytes[60..64].copy_from_slice(&sum);
    }
    Some(scene.done_to("holdfast.meta", format!("holdfast.meta: byte {at} is {new}, sealed {sealed}")))
}

/// An image in the double-write file.
pub fn double_write(scene: &mut Scene<'_>) -> Option<Done> {
    let (size, sealed, noise) = (scene.page_size(), scene.sealed, scene.rng.random());
    let slots = scene.files.get("doublewrite")?.len() / size;
    if slots == 0 {
        return None;
    }
    let slot = scene.rng.random_range(0..slots.min(200)) * size;
    let at = scene.rng.random_range(0..128);
    let bytes = scene.files.get_mut("doublewrite")?.get_mut(slot..slot + size)?;
    bytes[at] = noise;
    if sealed {
        seal(bytes);
    }
    let what = format!("doublewrite: byte {at} of the image at {slot} is {noise}, sealed {sealed}");
    Some(scene.done_to("doublewrite", what))
}
