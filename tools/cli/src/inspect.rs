//! `dump-page` and `dump-log`: show files without opening the database.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use holdfast::Error;
use holdfast_base::codec::Reader;
use holdfast_base::limits::{PAGE_SIZE_MAX, is_page_size};
use holdfast_base::page::{self, PageHeader, PageType};
use holdfast_base::{PageId, PageNo, SpaceId};
use holdfast_io::{DirLockMode, Disk, File, FileDisk, FileKind, FlushMethod, OpenOptions};
use holdfast_tree::node::NodeRef;
use holdfast_tree::op::PageOp;
use holdfast_tree::space::SpaceHeader;
use holdfast_wal::{EndReason, LogReader};

use crate::outcome::Outcome;
use crate::output::{Stdout, say};

/// `holdfast dump-page`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  holdfast dump-page data.hf t16.hf 3
  holdfast dump-page data.hf system.hf 0 --hex

Files are listed by `holdfast stat`. Exit code 3 if the page is damaged. A program that has the database open may be
writing it: it is read again, for a fifth of a second, before it is called damaged.")]
pub(crate) struct PageArgs {
    /// Directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// File of the table
    #[arg(value_name = "FILE")]
    file: String,
    /// Number of the page
    #[arg(value_name = "PAGE")]
    page: u32,
    /// All bytes
    #[arg(long)]
    hex: bool,
}

/// `holdfast dump-log`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  holdfast dump-log data.hf --limit 20
  holdfast dump-log data.hf --from 1048576

Exit code 3 if the log is damaged. A program that has the database open may use a part of the log again before it is
read: the command says so then, with exit code 1.")]
pub(crate) struct LogArgs {
    /// Directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Show groups that begin at this LSN or later
    #[arg(long, value_name = "LSN", default_value_t = 0)]
    from: u64,
    /// The most groups to show
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

fn disk(dir: &Path) -> Result<FileDisk> {
    FileDisk::open(dir, FlushMethod::Fsync).with_context(|| format!("open {}", dir.display()))
}

/// Reads page size and space id of a file of pages from its header page.
fn space_header(file: &dyn File) -> Result<SpaceHeader> {
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX).min(PAGE_SIZE_MAX);
    let mut head = vec![0; len];
    file.read_at(0, &mut head)?;
    match SpaceHeader::decode(&head) {
        Some(header) if is_page_size(header.page_size as usize) => Ok(header),
        _ if is_of_pages(file.name()) => {
            Err(Error::damaged_file(file.name(), "page 0 is no header of a file of pages").into())
        }
        _ => bail!("{} is no file of pages", file.name()),
    }
}

/// True if `name` is that of a file of pages in a database.
fn is_of_pages(name: &str) -> bool {
    let number = name.strip_prefix('t').and_then(|rest| rest.strip_suffix(".hf")?.parse().ok());
    let spaces = [Some(0), Some(1), number].into_iter().flatten();
    spaces.map(|space| SpaceId(space).file_name()).any(|known| known == name)
}

/// Shows one page.
pub(crate) fn page(args: &PageArgs) -> Result<Outcome> {
    let disk = disk(&args.dir)?;
    let file = disk.open(&args.file, OpenOptions::new(FileKind::Meta).read_only(true))?;
    let header = space_header(&*file)?;
    let page_size = header.page_size as usize;
    let pages = file.len()? / page_size as u64;
    if u64::from(args.page) >= pages {
        bail!("{} has pages 0 to {}", args.file, pages.saturating_sub(1));
    }
    let mut bytes = vec![0; page_size];
    let (decoded, outcome) = match read_page(&*file, PageId::new(header.id, PageNo(args.page)), &mut bytes)? {
        Ok(decoded) => (Some(decoded), Outcome::Good),
        Err(damage) => {
            say!("{damage}")?;
            (PageHeader::decode(&bytes), Outcome::Bad)
        }
    };
    let mut out = Stdout::lock();
    if let Some(decoded) = decoded {
        show_header(&mut out, &decoded, page_size)?;
        show_body(&mut out, &decoded, &bytes)?;
    }
    if args.hex || decoded.is_none() {
        hex(&mut out, &bytes)?;
    }
    Ok(outcome)
}

/// Reads of a page before it is taken for damaged.
const READS: usize = 11;
/// The time between two of them: longer than a write takes.
const PAUSE: Duration = Duration::from_millis(20);

/// Reads page `id` of `file` into `bytes`, and says whether it is what was written there. Another
/// program may be writing it, and a read then gives a part of the old page and a part of the new
/// one.
///
/// # Errors
/// The errors of reading; the inner one if the page is damaged.
fn read_page(file: &dyn File, id: PageId, bytes: &mut [u8]) -> Result<Result<PageHeader, Error>, Error> {
    let mut reads = 0;
    loop {
        file.read_at(u64::from(id.no.0) * bytes.len() as u64, bytes)?;
        reads += 1;
        match page::check(bytes, id) {
            Err(_) if reads < READS => thread::sleep(PAUSE),
            checked => return Ok(checked),
        }
    }
}

fn show_header(out: &mut impl Write, header: &PageHeader, page_size: usize) -> io::Result<()> {
    writeln!(
        out,
        "page {}: {} bytes, type {}, level {}, flags {:#06x}, lsn {}, index {}",
        header.id,
        page_size,
        header.page_type.name(),
        header.level,
        header.flags,
        header.lsn,
        header.index
    )
}

/// Shows the entries of a node with key and payload. Other pages have no structure to show here.
fn show_body(out: &mut impl Write, header: &PageHeader, bytes: &[u8]) -> io::Result<()> {
    if header.page_type != PageType::Tree {
        return Ok(());
    }
    let Some(node) = NodeRef::new(bytes, header.index) else {
        return writeln!(out, "the node's header is damaged");
    };
    let (count, prefix) = (node.count().unwrap_or(0), node.prefix().unwrap_or(&[]));
    writeln!(out, "{count} entries, common prefix {}", ascii(prefix))?;
    for slot in 0..count {
        match (node.key(slot), node.payload(slot)) {
            (Some(key), Some(payload)) => {
                writeln!(out, "{slot:>5}  {} -> {} bytes {}", ascii(&key), payload.len(), ascii(payload))?;
            }
            _ => writeln!(out, "{slot:>5}  is damaged")?,
        }
    }
    Ok(())
}

/// The most bytes of a field that are shown.
const SHOWN: usize = 48;

/// Bytes with the unprintable ones escaped, cut after [`SHOWN`].
fn ascii(bytes: &[u8]) -> String {
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    format!("\"{}\"{more}", bytes[..bytes.len().min(SHOWN)].escape_ascii())
}

fn hex(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for (n, line) in bytes.chunks(16).enumerate() {
        write!(out, "{:06x} ", n * 16)?;
        for byte in line {
            write!(out, " {byte:02x}")?;
        }
        let text: String = line.iter().map(|&b| if (b' '..=b'~').contains(&b) { b as char } else { '.' }).collect();
        writeln!(out, "  {text}")?;
    }
    Ok(())
}

/// Shows the log. Another program may have the database open, and reuse and extend the log's files
/// while they are read: what looks like damage is damage only if it is still there with no such
/// program.
pub(crate) fn log(args: &LogArgs) -> Result<Outcome> {
    let disk = disk(&args.dir)?;
    let Err(failed) = show_log(&disk, args) else { return Ok(Outcome::Good) };
    let Some(error) = failed.downcast_ref::<Error>().cloned() else { return Err(failed) };
    let unread = || format!("read the log in {}", args.dir.display());
    let moving = "another program has the database open, or had it, and what was to be read is being used again; \
                  run the command again, or once the database is closed";
    let lock = disk.lock(DirLockMode::Shared);
    let is_open = matches!(lock, Err(Error::AlreadyOpen(_)));
    if !error.is_damage() {
        // A file that was renamed or cut meanwhile cannot be read.
        let is_moving = is_open && error.is_unread() && !error.is_refusal();
        let error = anyhow::Error::new(error);
        return Err(if is_moving { error.context(moving) } else { error }).with_context(unread);
    }
    if is_open {
        return Err(anyhow!(moving)).with_context(unread);
    }
    match read_log(&disk, args) {
        Err(error) if error.is_damage() => {
            say!("{error}")?;
            Ok(Outcome::Bad)
        }
        Err(error) => Err(error).with_context(unread),
        Ok(()) => Err(anyhow!(moving)).with_context(unread),
    }
}

fn open_log(disk: &FileDisk, args: &LogArgs) -> Result<LogReader, Error> {
    LogReader::open(disk, None).map_err(|error| match error {
        Error::NotADatabase(_) if args.dir.join("holdfast.meta").exists() => {
            Error::damaged_file("checkpoint", "it is missing")
        }
        error => error,
    })
}

/// Reads the log to its end.
fn read_log(disk: &FileDisk, args: &LogArgs) -> Result<(), Error> {
    let mut reader = open_log(disk, args)?;
    while reader.next()?.is_some() {}
    Ok(())
}

fn show_log(disk: &FileDisk, args: &LogArgs) -> Result<()> {
    let mut reader = open_log(disk, args)?;
    let mut out = Stdout::lock();
    writeln!(out, "checkpoint at LSN {}, pages of {} bytes", reader.checkpoint_lsn(), reader.page_size())?;
    for (name, error) in reader.unread() {
        writeln!(out, "{name} lies before the checkpoint, and is passed over: {error}")?;
    }
    let mut shown = 0;
    while let Some(group) = reader.next()? {
        if group.start.0 < args.from {
            continue;
        }
        if args.limit.is_some_and(|limit| shown >= limit) {
            return Ok(());
        }
        shown += 1;
        let (start, end, stamp) = (group.start, group.end, group.stamp);
        writeln!(out, "{start}..{end}  epoch {}, durable before it {stamp}", group.epoch)?;
        records(&mut out, group.payload)?;
    }
    if let Some(end) = reader.end() {
        writeln!(out, "the log ends at LSN {}: {}", end.lsn, reason(end.reason))?;
    }
    Ok(())
}

fn reason(end: EndReason) -> &'static str {
    match end {
        EndReason::Blank => "nothing was written behind it",
        EndReason::Stale => "what follows is from an earlier use of the file",
        EndReason::Torn => "the next group was not written completely",
        EndReason::EarlierEpoch => "what follows is from before a recovery that ended the log here",
        EndReason::NoMoreSegments => "the last file of the log is full",
        EndReason::Limit => "the reader stopped",
    }
}

fn records(out: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    let mut reader = Reader::new(payload);
    let mut last = None;
    while !reader.is_empty() {
        let Some((page, op)) = PageOp::decode(&mut reader, last) else {
            return writeln!(out, "    {} bytes that are no page operation", reader.rest().len());
        };
        writeln!(out, "    {page:?}  {}", describe(&op))?;
        last = Some(page);
    }
    Ok(())
}

fn describe(op: &PageOp<'_>) -> String {
    let name = op.name();
    match op {
        PageOp::InsertAt { slot, suffix, payload } => {
            format!("{name} slot {slot}, key suffix {}, {} bytes", ascii(suffix), payload.len())
        }
        PageOp::RemoveAt { slot } => format!("{name} slot {slot}"),
        PageOp::ReplaceAt { slot, payload } => format!("{name} slot {slot}, {} bytes", payload.len()),
        PageOp::Patch { slot, offset, bytes } => format!("{name} slot {slot}+{offset}, {} bytes", bytes.len()),
        PageOp::Rebuild { from, to, prefix_len } => format!("{name} keeps {from}..{to}, prefix {prefix_len} bytes"),
        PageOp::SetContent { prefix, count, .. } => format!("{name} {count} entries, prefix {}", ascii(prefix)),
        PageOp::SetBits { first, count } | PageOp::ClearBits { first, count } => {
            format!("{name} {count} from {first}")
        }
        PageOp::WriteBytes { offset, bytes } => format!("{name} {} at {offset}", bytes.len()),
        PageOp::InitNode { index, level } => format!("{name} index {index}, level {level}"),
        PageOp::InitPage { page_type, index } => format!("{name} {}, index {index}", page_type.name()),
        PageOp::FreePage => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use holdfast_base::{IndexId, Lsn};
    use holdfast_io::Create;
    use holdfast_testkit::HookedDisk;

    use super::*;

    /// Such a page was called damaged.
    #[test]
    fn a_page_that_is_being_written_is_read_again() {
        let id = PageId::new(SpaceId(16), PageNo(0));
        let mut written = vec![7; 4096];
        let (page_type, level, flags, lsn, index) = (PageType::Tree, 0, 0, Lsn(4096), IndexId(1));
        PageHeader { id, page_type, level, flags, lsn, index }.encode(&mut written);
        page::seal(&mut written);
        // (reads that see a part of an older page, whether it is damaged then)
        for (torn, is_damaged) in [(0, false), (3, false), (usize::MAX, true)] {
            let disk = HookedDisk::default();
            let file = disk.open("t16.hf", OpenOptions::new(FileKind::Meta).create(Create::New)).unwrap();
            file.write_at(0, &written).unwrap();
            let reads = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&reads);
            disk.on_read(move |_, bytes| {
                if counted.fetch_add(1, Ordering::Relaxed) < torn {
                    bytes[2048..].fill(3);
                }
            });
            let mut bytes = vec![0; 4096];
            let checked = read_page(&*file, id, &mut bytes).unwrap();
            assert_eq!(checked.is_err(), is_damaged, "{torn}");
            assert_eq!(reads.load(Ordering::Relaxed), torn.saturating_add(1).min(READS));
        }
    }

    #[test]
    fn bytes_are_shown_safely() {
        assert_eq!(ascii(b"a\0\xff'"), "\"a\\x00\\xff\\'\"");
        assert!(ascii(&[b'x'; 100]).ends_with("x\"..."));
        let mut out = Vec::new();
        hex(&mut out, b"Holdfast\0").unwrap();
        assert!(String::from_utf8(out).unwrap().starts_with("000000  48 6f 6c 64"));
    }

    #[test]
    fn a_broken_group_is_no_panic() {
        let mut out = Vec::new();
        records(&mut out, &[0xff; 40]).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("no page operation"));
    }
}
