//! Reads trace files.
//!
//! There are three formats, recognized by the name and the first line, each optionally compressed
//! (`.gz`, `.zst`):
//!
//! - one page number per line;
//! - the `.lis` format of the ARC paper's traces (first block, number of blocks, ignored, request
//!   number: a line stands for that many consecutive blocks);
//! - the tagged format of [`crate::write`].
//!
//! Empty lines and lines that begin with `*` or `#` are skipped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use holdfast_base::{Error, Result};

use crate::trace::{Builder, Class, Request, Trace};
use crate::write::{MEASURE, TAGGED};
use holdfast_policy::ScanHint;

/// The most blocks that one line of a `.lis` file may stand for. More means that the file has
/// another format.
const BLOCKS_PER_LINE_MAX: u64 = 1 << 20;

/// The most bytes of a line. More means that the file is no trace.
const LINE_MAX: u64 = 4096;

/// Reads the trace in the file at `path`.
///
/// # Errors
/// [`Error::Io`] and [`Error::InvalidArgument`], with file and line.
pub fn read(path: &Path) -> Result<Trace> {
    let shown = path.display();
    let failed = |e| Error::io("read", &shown, e);
    let file = File::open(path).map_err(|e| Error::io("open", &shown, e))?;
    let name = path.file_name().map_or_else(|| shown.to_string(), |n| n.to_string_lossy().into_owned());
    let (input, plain): (Box<dyn Read>, &str) = if let Some(plain) = name.strip_suffix(".gz") {
        (Box::new(flate2::read::MultiGzDecoder::new(file)), plain)
    } else if let Some(plain) = name.strip_suffix(".zst") {
        let decoder = ruzstd::decoding::StreamingDecoder::new(BufReader::new(file));
        let decoder = decoder.map_err(|_| failed(std::io::Error::other("invalid zstd header")))?;
        (Box::new(decoder), plain)
    } else {
        (Box::new(file), &name)
    };
    let lis = plain.ends_with(".lis");
    let mut parser = Parser { builder: Builder::new(plain), format: if lis { Format::Lis } else { Format::Pages } };
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let read = input.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut line);
        if read.map_err(|e| Error::io("read", format_args!("{shown}:{number}"), e))? == 0 {
            break;
        }
        let parsed = text(&line).and_then(|line| parser.line(line.trim()));
        parsed.map_err(|what| Error::invalid(format!("{shown}:{number}: {what}")))?;
    }
    let trace = parser.builder.finish();
    if trace.requests.is_empty() {
        return Err(Error::invalid(format!("{shown}: no requests in it")));
    }
    Ok(trace)
}

fn text(line: &[u8]) -> Result<&str, String> {
    if line.len() as u64 > LINE_MAX {
        return Err(format!("a line of more than {LINE_MAX} bytes: not a trace"));
    }
    std::str::from_utf8(line).map_err(|_| "bytes that are no text: not a trace".to_owned())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Pages,
    Lis,
    Tagged,
}

struct Parser {
    builder: Builder,
    format: Format,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line == TAGGED {
            self.format = Format::Tagged;
        } else if line == MEASURE && self.format == Format::Tagged {
            self.builder.start_measuring();
        }
        if line.is_empty() || line.starts_with(['*', '#']) {
            return Ok(());
        }
        match self.format {
            Format::Pages => self.push(number(Some(line), "a page number")?, Request::PLAIN),
            Format::Lis => self.lis(line),
            Format::Tagged => self.tagged(line),
        }
    }

    fn push(&mut self, key: u64, request: Request) -> Result<(), String> {
        self.builder.push(key, request).map_err(|e| e.to_string())
    }

    fn lis(&mut self, line: &str) -> Result<(), String> {
        let mut fields = line.split_ascii_whitespace();
        let first = number(fields.next(), "the first block")?;
        let blocks = number(fields.next(), "the number of blocks")?;
        if blocks > BLOCKS_PER_LINE_MAX || first.checked_add(blocks).is_none() {
            return Err(format!("{blocks} blocks from block {first}: not a trace of this format"));
        }
        let statement = fields.nth(1).and_then(|f| f.parse::<u64>().ok()).map_or(0, |n| n as u32);
        (first..first + blocks).try_for_each(|key| self.push(key, Request { statement, ..Request::PLAIN }))
    }

    fn tagged(&mut self, line: &str) -> Result<(), String> {
        let mut fields = line.split_ascii_whitespace();
        let (class, scan) = match fields.next() {
            Some("f") => (Class::Foreground, ScanHint::None),
            Some("b") => (Class::Background, ScanHint::None),
            Some("s") => (Class::Background, ScanHint::Ring),
            other => return Err(format!("f, b or s expected, found {:?}", other.unwrap_or(""))),
        };
        let key = number(fields.next(), "a page number")?;
        let touches = number(fields.next(), "the number of touches")?;
        let touches = u16::try_from(touches).ok().filter(|&n| n > 0);
        let touches = touches.ok_or("the number of touches is not between 1 and 65535")?;
        let statement = number(fields.next(), "a statement number")? as u32;
        self.push(key, Request { page: 0, statement, touches, class, scan })
    }
}

fn number(field: Option<&str>, what: &str) -> Result<u64, String> {
    let field = field.ok_or_else(|| format!("{what} is missing"))?;
    field.parse().map_err(|_| format!("{what} expected, found {field:?}"))
}
