//! What the images in the double-write file are good for when a database is opened.
//!
//! [`restore_torn_pages`] replaces pages that are damaged at home by their newest good image, if
//! that image cannot be stale. Images stay in the file until their slot is used again, so the
//! newest one that is found may be older than what was at home before a bit rotted there. Two
//! things tell:
//! - Its page LSN lies beyond the checkpoint: whatever changed the page later is in the log, and
//!   redo does it again. A write that a power cut tore is always such a case, because it held the
//!   checkpoint, be the image its own or an older one.
//! - The damaged page carries the image's LSN and checksum: it was that very image.
//!
//! Otherwise the page stays damaged, and its readers get an error: an old image would be a silent
//! step back in time.
//!
//! A sound page whose image lies beyond the checkpoint is written once more, as it is. It may be in
//! the system's cache only, since the process that wrote it has ended, or its sync has failed, and
//! on the disk torn. Its image is what repairs it there, and the slot may be used again as soon as
//! the database is open. If the file takes no writes, redo makes the page dirty from what is there,
//! and the page holds the checkpoint until it has been written; its image is kept until then.
//!
//! A page is written after its log. So an image that is newer than the end of the log proves that
//! the log had more: it is damage, not a write that was cut off.
//!
//! What the device does not return does not keep the database shut. A page at home that cannot be
//! read is one that is damaged: an image beyond the checkpoint replaces it, and otherwise it is
//! left to its readers, with its file. A file that cannot be opened, does not take an image, or
//! cannot be synced, is reported with its images beyond the checkpoint and those that it has got:
//! the caller uses neither the file nor their slots. (A later sync would prove nothing: it may
//! succeed without what the failed one was to write. The next open writes images beyond the
//! checkpoint again. A page that one at or before it has replaced is taken as it is read then.) A
//! slot that cannot be read is passed over if the log has nothing for redo, so that no page can be
//! torn. Else it may hold the only good copy of a page, and the device may return it the next time:
//! that is an error.
//!
//! The time that this takes is bounded: the file is read once, from its beginning to its end; of
//! the pages whose images lie beyond the checkpoint, which redo is about to read anyway, each is
//! looked at, and of the others those of the newest [`RECENT`] images.

use std::ops::Range;
use std::sync::Arc;

use holdfast_base::HashMap;
use holdfast_base::{Error, Lsn, PageId, Result, SpaceId, page};
use holdfast_io::{AlignedBuf, Disk, File, FileKind, OpenOptions};

use crate::write::doublewrite::NAME;

/// Images that lie behind the checkpoint and may still repair the page that was that very image.
const RECENT: usize = 512;
/// Slots that are read at a time.
const SLOTS: usize = 64;

/// Where an image is, and its page LSN.
struct Found {
    id: PageId,
    lsn: Lsn,
    offset: u64,
}

/// A page as its file has it.
#[derive(PartialEq, Eq)]
enum Home {
    Sound,
    Damaged,
    /// The device does not return it.
    Unreadable,
}

/// True if the damaged page `home` says that it was `image`.
fn was_image(home: &[u8], image: &[u8]) -> bool {
    [page::OFF_CHECKSUM..page::OFF_SPACE, page::OFF_LSN..page::OFF_INDEX]
        .into_iter()
        .all(|part| home[part.clone()] == image[part])
}

/// What [`restore_torn_pages`] did.
#[derive(Clone, Debug, Default)]
pub struct RestoreReport {
    /// Good page images found in the double-write file.
    pub images: usize,
    /// Pages that were damaged at home and have been replaced by their images.
    pub restored: Vec<PageId>,
    /// Pages that are damaged at home and whose newest image may be older than what was there: left
    /// as they are.
    pub stale: Vec<PageId>,
    /// Spaces whose files could not be opened, did not take an image beyond the checkpoint, or
    /// could not be synced, and why. Their pages may be torn.
    pub failed: Vec<(SpaceId, Error)>,
    /// Their images beyond the checkpoint and those that have replaced pages, with their slots: the
    /// next open needs them. So it does those of sound pages that their files did not take again,
    /// until these have been written.
    pub kept: Vec<(PageId, u32)>,
}

/// To be called when a database is opened, before redo and before its pool is made: replaces every
/// page that is damaged in its file, and has a good image in the double-write file that is not
/// stale, by that image, and makes the sound ones durable whose images lie beyond the checkpoint.
/// `log`: from where redo will begin to where the log ends. `resolve` gives the file of a space, or
/// `None` if the space does not exist any more.
///
/// # Errors
/// [`Error::DamagedFile`] if an image is newer than the end of the log, before anything is changed;
/// the errors of reads that redo depends on. Those of opening, writing and syncing files of pages
/// are in the report.
pub fn restore_torn_pages(
    disk: &dyn Disk,
    page_size: usize,
    log: Range<Lsn>,
    resolve: &mut dyn FnMut(SpaceId) -> Result<Option<Arc<dyn File>>>,
) -> Result<RestoreReport> {
    let mut report = RestoreReport::default();
    if !disk.exists(NAME)? {
        return Ok(report);
    }
    let file = disk.open(NAME, OpenOptions::new(FileKind::Data))?;
    let (images, newest) = find_images(&*file, page_size, log.is_empty())?;
    report.images = images;
    if let Some(newest) = newest.values().map(|image| image.lsn).max().filter(|lsn| *lsn > log.end) {
        let what = format!("it ends at LSN {}, and a page was written at LSN {}: its end is lost", log.end.0, newest.0);
        return Err(Error::damaged_file("the log", what));
    }
    let checkpoint = log.start;
    let mut pages = Pages { images: &*file, image: AlignedBuf::zeroed(page_size), home: AlignedBuf::zeroed(page_size) };
    for found in worth_a_look(newest, checkpoint).chunk_by(|a, b| a.id.space == b.id.space) {
        let space = found[0].id.space;
        let failed = match resolve(space) {
            Ok(None) => None,
            Ok(Some(target)) => pages.restore(&*target, found, checkpoint, &mut report),
            Err(error) => Some(error),
        };
        // Of the others redo asks for no page, and none was replaced.
        let needed = || found.iter().filter(|image| image.lsn > checkpoint || report.restored.contains(&image.id));
        if let Some(error) = failed.filter(|_| needed().next().is_some()) {
            report.kept.extend(needed().map(|image| (image.id, (image.offset / page_size as u64) as u32)));
            report.failed.push((space, error));
        }
    }
    Ok(report)
}

/// Room for a page and its image.
struct Pages<'f> {
    images: &'f dyn File,
    image: AlignedBuf,
    home: AlignedBuf,
}

impl Pages<'_> {
    /// Restores the pages of one space, whose images are `found`, in its file. Returns why one did
    /// not get an image beyond the checkpoint, or why what was written may not be durable.
    fn restore(
        &mut self,
        target: &dyn File,
        found: &[Found],
        checkpoint: Lsn,
        report: &mut RestoreReport,
    ) -> Option<Error> {
        let (mut written, mut failed) = (false, None);
        for &Found { id, lsn, offset } in found {
            let at = u64::from(id.no.0) * self.home.len() as u64;
            let state = read_home(target, at, id, &mut self.home);
            if state == Home::Sound {
                if lsn > checkpoint {
                    match target.write_at(at, &self.home) {
                        Ok(()) => written = true,
                        // A file that takes no writes keeps no other table shut. On the disk the
                        // page may be torn, until it has been written after redo.
                        Err(_) => report.kept.push((id, (offset / self.home.len() as u64) as u32)),
                    }
                }
                continue;
            }
            if lsn <= checkpoint && state == Home::Unreadable {
                continue;
            }
            let image = self.images.read_at(offset, &mut self.image);
            if image.is_ok() && lsn <= checkpoint && !was_image(&self.home, &self.image) {
                report.stale.push(id);
                continue;
            }
            match image.and_then(|()| target.write_at(at, &self.image)) {
                Ok(()) => {
                    report.restored.push(id);
                    written = true;
                }
                Err(error) => failed = failed.or((lsn > checkpoint).then_some(error)),
            }
        }
        let synced = if written { target.sync() } else { Ok(()) };
        failed.or(synced.err())
    }
}

/// Reads the page at `at` into `page`, and says whether it is what was written there.
fn read_home(file: &dyn File, at: u64, id: PageId, page: &mut [u8]) -> Home {
    match file.read_at(at, page) {
        Ok(()) if page::check(page, id).is_ok() => Home::Sound,
        Ok(()) => Home::Damaged,
        // The file ends before or within the page.
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::UnexpectedEof => {
            page.fill(0);
            Home::Damaged
        }
        Err(_) => Home::Unreadable,
    }
}

/// How many good images there are, and the newest one of each page. `pass_over`: without those that
/// the device does not return.
fn find_images(file: &dyn File, page_size: usize, pass_over: bool) -> Result<(usize, HashMap<PageId, Found>)> {
    let mut newest: HashMap<PageId, Found> = HashMap::default();
    let mut count = 0;
    let slots = file.len()? / page_size as u64;
    let mut buffer = AlignedBuf::zeroed(SLOTS * page_size);
    for first in (0..slots).step_by(SLOTS) {
        let some = &mut buffer[..(slots - first).min(SLOTS as u64) as usize * page_size];
        if let Err(error) = file.read_at(first * page_size as u64, some) {
            if !pass_over {
                return Err(error);
            }
            for (slot, image) in (first..).zip(some.chunks_exact_mut(page_size)) {
                file.read_at(slot * page_size as u64, image).unwrap_or_else(|_| image.fill(0));
            }
        }
        for (slot, image) in (first..).zip(some.chunks_exact(page_size)) {
            let Some(page::PageHeader { id, lsn, .. }) = page::PageHeader::decode(image) else { continue };
            if page::is_blank(image) || page::check(image, id).is_err() {
                continue;
            }
            count += 1;
            if newest.get(&id).is_none_or(|known| known.lsn < lsn) {
                newest.insert(id, Found { id, lsn, offset: slot * page_size as u64 });
            }
        }
    }
    Ok((count, newest))
}

/// Those whose pages are looked at, in the order of these.
fn worth_a_look(newest: HashMap<PageId, Found>, checkpoint: Lsn) -> Vec<Found> {
    let (mut images, mut older): (Vec<Found>, Vec<Found>) =
        newest.into_values().partition(|image| image.lsn > checkpoint);
    older.sort_unstable_by_key(|image| std::cmp::Reverse((image.lsn, image.id)));
    images.extend(older.into_iter().take(RECENT));
    images.sort_unstable_by_key(|image| image.id);
    images
}
