//! The list of pages worth having that a close leaves: each page is listed once, is there, and is
//! sound. A database that is not to warm up has no list.
//!
//! A power cut leaves the list of the last close, or none; the list names what was on the disk when
//! it was written, so it is looked at after a close only.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use holdfast::io::{Disk, FileKind, OpenOptions};
use holdfast_base::codec::{get_u32, get_u64};
use holdfast_base::{PageId, SpaceId, checksum, page};
use holdfast_testkit::CrashDisk;

use super::history::Coverage;
use super::plan::Plan;

const NAME: &str = "warmup";
/// Bytes before the pages: magic, version, count.
const HEADER: usize = 16;

/// Looks at the list of a database that was closed.
///
/// # Errors
/// An error that says what is wrong with it.
pub(super) fn check(disk: &CrashDisk, plan: &Plan, coverage: &Coverage) -> anyhow::Result<()> {
    if !plan.warm_up {
        ensure!(!disk.exists(NAME)?, "there is a list of pages to warm up with");
        return Ok(());
    }
    let pages = pages(&read(disk, NAME)?)?;
    coverage.count("warm-up: list of a close");
    coverage.add("warm-up: pages listed", pages.len() as u64);
    let mut seen = BTreeSet::new();
    for id in pages {
        ensure!(seen.insert(id.to_u64()), "page {id:?} is listed twice");
        let file = file_of(id.space);
        let bytes = page_of(disk, &file, id, plan.page_size).with_context(|| format!("{id:?} is listed"))?;
        let is_sound = page::is_blank(&bytes) || page::check(&bytes, id).is_ok();
        ensure!(is_sound, "page {id:?}, which is listed, is not sound on the disk");
    }
    Ok(())
}

/// The pages in the bytes of a list.
fn pages(bytes: &[u8]) -> anyhow::Result<Vec<PageId>> {
    ensure!(bytes.starts_with(b"HFWARMUP"), "the list of pages begins with {:?}", bytes.get(..8));
    let count = get_u32(bytes, 12).context("the list of pages has no count")? as usize;
    let end = HEADER + count * 8;
    ensure!(bytes.len() == end + 4, "a list of {count} pages has {} bytes", bytes.len());
    ensure!(get_u32(bytes, end) == Some(checksum(&bytes[..end])), "the list of pages has a wrong checksum");
    Ok((HEADER..end).step_by(8).filter_map(|at| get_u64(bytes, at)).map(PageId::from_u64).collect())
}

fn file_of(space: SpaceId) -> String {
    match space.0 {
        0 => "system.hf".into(),
        1 => "undo.hf".into(),
        no => format!("t{no}.hf"),
    }
}

fn read(disk: &CrashDisk, name: &str) -> anyhow::Result<Vec<u8>> {
    let file = disk.open(name, OpenOptions::new(FileKind::Meta).read_only(true))?;
    let mut bytes = vec![0; usize::try_from(file.len()?)?];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

fn page_of(disk: &CrashDisk, file: &str, id: PageId, size: usize) -> anyhow::Result<Vec<u8>> {
    let file = disk.open(file, OpenOptions::new(FileKind::Data).read_only(true))?;
    let mut bytes = vec![0; size];
    file.read_at(u64::from(id.no.0) * size as u64, &mut bytes)?;
    Ok(bytes)
}
