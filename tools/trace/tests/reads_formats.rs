//! Traces are read in all formats, and an error names file and line.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use holdfast_trace::read;

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().expect("a temporary directory"))
    }

    fn with(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).expect("a file written");
        path
    }
}

fn keys(path: &std::path::Path) -> Vec<u64> {
    let trace = read(path).expect("a trace");
    trace.requests.iter().map(|r| trace.keys[r.page as usize]).collect()
}

const PAGES: &[u8] = b"* comment\n7\n\n8\n7\n";

#[test]
fn one_page_per_line() {
    let files = Files::new();
    let trace = read(&files.with("a.trace", PAGES)).expect("a trace");
    assert_eq!((trace.name.as_str(), trace.pages(), trace.touches()), ("a.trace", 2, 3));
    assert_eq!(keys(&files.with("a.trace", PAGES)), [7, 8, 7]);
}

#[test]
fn compressed_files() {
    let files = Files::new();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(PAGES).expect("compressed");
    assert_eq!(keys(&files.with("a.trace.gz", &gz.finish().expect("compressed"))), [7, 8, 7]);
    let zst = ruzstd::encoding::compress_to_vec(PAGES, ruzstd::encoding::CompressionLevel::Fastest);
    assert_eq!(keys(&files.with("a.trace.zst", &zst)), [7, 8, 7]);
}

#[test]
fn a_line_of_a_lis_file_stands_for_its_blocks() {
    let files = Files::new();
    assert_eq!(keys(&files.with("a.lis", b"10 3 0 1\n11 1 0 2\n5 0 0 3\n")), [10, 11, 12, 11]);
}

#[test]
fn errors_name_file_and_line() {
    let files = Files::new();
    let failure = |name: &str, content: &[u8]| read(&files.with(name, content)).expect_err("no trace").to_string();
    assert!(failure("a.trace", b"1\n2\nx3\n").ends_with("a.trace:3: a page number expected, found \"x3\""));
    assert!(failure("a.lis", b"1 1 0 0\n2\n").ends_with("a.lis:2: the number of blocks is missing"));
    assert!(failure("a.lis", b"1 99999999999 0 0\n").contains("a.lis:1: 99999999999 blocks"));
    assert!(failure("a.lis", b"18446744073709551615 2 0 0\n").contains("a.lis:1: 2 blocks"));
    assert!(failure("a.trace", b"").ends_with("a.trace: no requests in it"));
    assert!(failure("a.trace.gz", b"not compressed").contains("a.trace.gz"));
    assert!(failure("a.trace.zst", b"not compressed").contains("a.trace.zst"));
    assert!(failure("a.trace", b"1\n\xff\xfe\n").ends_with("a.trace:2: bytes that are no text: not a trace"));
    // Such a file, of zeros, say, was read into memory as one line.
    assert!(failure("a.trace", &[b'1'; 1 << 20]).ends_with("a.trace:1: a line of more than 4096 bytes: not a trace"));
    let tagged = b"# holdfast trace 1: class page touches statement\nf 1 1 1\nf 1 0 1\n";
    assert!(failure("a.trace", tagged).contains("a.trace:3: the number of touches"));
    let missing = read(&files.0.path().join("missing")).expect_err("no file").to_string();
    assert!(missing.starts_with("open ") && missing.contains("missing"), "{missing}");
}
