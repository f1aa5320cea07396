//! The log: groups, the records in them, segments, the checkpoint file.
//!
//! A group whose checksum is right says what a sound one could say, so nothing is said of the rows
//! then. A bit that is lost in what was written last, before a kill, cannot be told from a write
//! that did not come to its end.

use holdfast_base::codec::{get_u16, get_u32, get_u64};
use holdfast_base::{checksum, checksum_append};
use rand::Rng;

use super::scene::{Done, Leeway, Scene, Target};
use crate::damage::layout::{Field, Page, Role, field};

/// Bytes before the groups of a segment.
const SEGMENT_HEADER: usize = 4096;
/// Bytes of a group's header, and the alignment of groups.
const GROUP_HEADER: usize = 32;

/// A segment and where one of its groups begins, one of the last ones as often as any.
fn group_of(scene: &mut Scene<'_>) -> Option<(String, usize, usize)> {
    let mut groups = Vec::new();
    for (name, bytes) in scene.files.iter().filter(|(name, _)| name.starts_with("wal.")) {
        let start = get_u64(bytes, 40)?;
        let mut at = SEGMENT_HEADER;
        while let Some(lsn) = get_u64(bytes, at + 8) {
            let (magic, len) = (get_u16(bytes, at)?, get_u32(bytes, at + 4)? as usize);
            let is_group = magic == 0x4C48 && lsn == start + (at - SEGMENT_HEADER) as u64;
            if is_group && at + GROUP_HEADER + len <= bytes.len() {
                groups.push((lsn, name.clone(), at, len));
                at += (GROUP_HEADER + len).next_multiple_of(GROUP_HEADER);
            } else {
                at += GROUP_HEADER;
            }
        }
    }
    groups.sort();
    let from = if scene.rng.random_bool(0.5) { groups.len().saturating_sub(40) } else { 0 };
    let (_, name, at, len) = scene.one(&groups[from..])?;
    Some((name, at, len))
}

fn log(what: String, leeway: Leeway) -> Option<Done> {
    Some(Done { what, target: Target::Log, leeway, forged: leeway == Leeway::Any })
}

/// What a change of a group without a right checksum may cost.
fn undecidable(scene: &Scene<'_>) -> Leeway {
    if scene.files.get("checkpoint").is_some_and(|c| c.get(72) == Some(&1) || c.get(4096 + 72) == Some(&1)) {
        Leeway::Exact
    } else {
        Leeway::Existed
    }
}

/// A bit of a group.
pub fn bit(scene: &mut Scene<'_>) -> Option<Done> {
    let (name, at, len) = group_of(scene)?;
    let at = at + scene.rng.random_range(0..GROUP_HEADER + len);
    let bit = scene.rng.random_range(0..8);
    scene.files.get_mut(&name)?[at] ^= 1 << bit;
    let leeway = undecidable(scene);
    log(format!("{name}: bit {bit} of byte {at}"), leeway)
}

/// Makes the checksum of a group right.
fn seal_group(scene: &mut Scene<'_>, name: &str, at: usize, len: usize) -> Option<()> {
    let uuid: [u8; 16] = scene.base.files.get("holdfast.meta")?.get(16..32)?.try_into().ok()?;
    let group = scene.files.get_mut(name)?.get_mut(at..at + GROUP_HEADER + len)?;
    group[24..28].fill(0);
    let sum = checksum_append(checksum_append(checksum(&uuid), &group[GROUP_HEADER..]), &group[..GROUP_HEADER]);
    group[24..28].copy_from_slice(&sum.to_le_bytes());
    Some(())
}

const GROUP: &[Field] = &[
    field("magic", 0, 2, Role::Code),
    field("flags", 2, 2, Role::Code),
    field("payload length", 4, 4, Role::Count),
    field("LSN", 8, 8, Role::Id),
    field("stamp", 16, 8, Role::Id),
    field("epoch", 28, 4, Role::Id),
];

/// Gives a number in a file another value; returns what was there and is there.
fn change(scene: &mut Scene<'_>, name: &str, at: usize, field: &Field) -> Option<String> {
    let nowhere =
        Page { file: name.into(), no: 0, kind: crate::damage::layout::Kind::Free, index: 0, allocated: false };
    let place = at + field.at;
    let bytes = scene.files.get(name)?.get(place..place + field.width)?.to_vec();
    let (old, new) = scene.vary(field, &bytes, &nowhere);
    scene.files.get_mut(name)?[place..place + field.width].copy_from_slice(&new.to_le_bytes()[..field.width]);
    Some(format!("{name}: {} at {place}: {old} -> {new}, sealed {}", field.name, scene.sealed))
}

/// The header of a group.
pub fn group(scene: &mut Scene<'_>) -> Option<Done> {
    let (name, at, len) = group_of(scene)?;
    let field = scene.one(GROUP)?;
    let what = change(scene, &name, at, &field)?;
    if !scene.sealed {
        let leeway = undecidable(scene);
        return log(what, leeway);
    }
    seal_group(scene, &name, at, len)?;
    log(what, Leeway::Any)
}

/// A byte of the records in a group, of those at its beginning more often.
pub fn record(scene: &mut Scene<'_>) -> Option<Done> {
    let (name, at, len) = group_of(scene)?;
    if len == 0 {
        return None;
    }
    let within = if scene.rng.random_bool(0.7) { len.min(24) } else { len };
    let byte = at + GROUP_HEADER + scene.rng.random_range(0..within);
    let old = scene.files.get(&name)?[byte];
    let choices = [0, 1, 0x7f, 0x80, 0xff, old.wrapping_add(1), old.wrapping_sub(1), scene.rng.random()];
    let new = scene.one(&choices)?;
    scene.files.get_mut(&name)?[byte] = new;
    seal_group(scene, &name, at, len)?;
    log(format!("{name}: a byte of the records of the group at {at}, at {byte}: {old} -> {new}"), Leeway::Any)
}

const SEGMENT: &[Field] = &[
    field("magic", 0, 8, Role::Id),
    field("format version", 8, 4, Role::Code),
    field("page size", 12, 4, Role::Count),
    field("UUID", 16, 8, Role::Id),
    field("segment number", 32, 8, Role::Id),
    field("LSN of a segment", 40, 8, Role::Id),
    field("bytes of a segment", 48, 8, Role::Id),
    field("incompatible features", 56, 8, Role::Code),
    field("epoch", 72, 4, Role::Id),
];

/// The header of a segment.
pub fn segment(scene: &mut Scene<'_>) -> Option<Done> {
    let names: Vec<String> = scene.files.keys().filter(|name| name.starts_with("wal.")).cloned().collect();
    let (name, field) = (scene.one(&names)?, scene.one(SEGMENT)?);
    let what = change(scene, &name, 0, &field)?;
    let leeway = undecidable(scene);
    if scene.sealed {
        let bytes = scene.files.get_mut(&name)?;
        let sum = checksum(bytes.get(..96)?).to_le_bytes();
        bytes[96..100].copy_from_slice(&sum);
    }
    log(what, leeway)
}

const CHECKPOINT: &[Field] = &[
    field("magic", 0, 8, Role::Id),
    field("format version", 8, 4, Role::Code),
    field("payload length", 12, 4, Role::Count),
    field("UUID", 16, 8, Role::Id),
    field("sequence", 32, 8, Role::Id),
    field("LSN of the checkpoint", 40, 8, Role::Id),
    field("epoch", 48, 4, Role::Id),
    field("least epoch", 52, 4, Role::Id),
    field("LSN of the epoch", 56, 8, Role::Id),
    field("durable LSN", 64, 8, Role::Id),
    field("closed", 72, 1, Role::Code),
    field("payload", 80, 1, Role::Code),
    field("payload", 81, 8, Role::Id),
];

/// A slot of the checkpoint file, the one that counts or the other.
pub fn checkpoint(scene: &mut Scene<'_>) -> Option<Done> {
    let slot = 4096 * scene.rng.random_range(0..2);
    let field = scene.one(CHECKPOINT)?;
    let what = change(scene, "checkpoint", slot, &field)?;
    if !scene.sealed {
        let leeway = undecidable(scene);
        return log(what, leeway);
    }
    let bytes = scene.files.get_mut("checkpoint")?;
    let sum = checksum(bytes.get(slot..slot + 4092)?).to_le_bytes();
    bytes[slot + 4092..slot + 4096].copy_from_slice(&sum);
    log(what, Leeway::Any)
}
