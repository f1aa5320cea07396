//! Places that say the same as another one, line by line.
//!
//! Blank lines, comments and imports do not count, and neither does what a line is indented by. A
//! hash of each so many lines is kept with where they are first, and the lines are compared where
//! a hash comes again.

use std::collections::{BTreeSet, HashMap};

use crate::check::Finding;
use crate::comments;
use crate::source::{Source, Tree};

/// Lines that two places may not have in common.
const LINES: usize = 15;

/// The endings of files that are code.
const CODE: [&str; 8] = ["rs", "cc", "h", "c", "test", "inc", "sql", "lua"];

/// A finding for each place whose lines are those of an earlier one.
pub fn repeats(tree: &Tree) -> Vec<Finding> {
    let is_code = |file: &&Source| file.path.rsplit_once('.').is_some_and(|(_, end)| CODE.contains(&end));
    let files: Vec<_> = tree.files.iter().filter(is_code).map(|file| (file, lines(file))).collect();
    let mut first: HashMap<u64, (usize, usize)> = HashMap::new();
    let mut found = Vec::new();
    for (no, (file, lines)) in files.iter().enumerate() {
        // Lines before it are in a finding.
        let mut free = 0;
        for (at, hash) in hashes(lines).into_iter().enumerate() {
            let (other_no, other_at) = *first.entry(hash).or_insert((no, at));
            let is_apart = other_no != no || other_at + LINES <= at;
            if at < free || !is_apart {
                continue;
            }
            let (other, others) = &files[other_no];
            let pairs = lines[at..].iter().zip(&others[other_at..]);
            let same = pairs.take_while(|(line, other)| line.1 == other.1).count();
            if same >= LINES {
                let what = format!("{same} lines are those of {}:{}", other.path, others[other_at].0);
                found.push(Finding::new(&file.path, lines[at].0, what));
                free = at + same;
            }
        }
    }
    found
}

/// The lines of code with their numbers, not indented.
fn lines(file: &Source) -> Vec<(usize, &str)> {
    let comments: BTreeSet<usize> = comments::lines(file).into_iter().map(|(number, _)| number).collect();
    let mut in_import = false;
    let mut code = Vec::new();
    for (number, line) in file.lines().map(|(number, line)| (number, line.trim())) {
        if line.is_empty() || comments.contains(&number) {
            continue;
        }
        let is_import = in_import || begins_import(line);
        in_import = is_import && !line.ends_with(';') && !line.starts_with('#');
        if !is_import {
            code.push((number, line));
        }
    }
    code
}

fn begins_import(line: &str) -> bool {
    let is_use = line.strip_prefix("pub").is_some_and(|rest| rest.trim_start_matches("(crate)").starts_with(" use "));
    line.starts_with("use ") || line.starts_with("#include") || is_use
}

/// A hash of the lines from each line on, as many as two places may not have in common.
fn hashes(lines: &[(usize, &str)]) -> Vec<u64> {
    let of_line = |line: &str| line.bytes().fold(0, |hash, byte| step(hash, u64::from(byte) + 1, 257));
    let of_lines: Vec<u64> = lines.iter().map(|(_, line)| of_line(line)).collect();
    of_lines.windows(LINES).map(|lines| lines.iter().fold(0, |hash, line| step(hash, *line, FACTOR))).collect()
}

/// An odd factor that spreads bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

fn step(hash: u64, value: u64, factor: u64) -> u64 {
    hash.wrapping_mul(factor).wrapping_add(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(from: usize, count: usize) -> String {
        (from..from + count).map(|n| format!("  f({n});\n")).collect()
    }

    fn places(texts: &[(&str, String)]) -> Vec<(String, usize)> {
        let texts: Vec<_> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
        repeats(&Tree::of_texts(&texts)).into_iter().map(|finding| (finding.file, finding.line)).collect()
    }

    #[test]
    fn fifteen_lines_are_not_said_twice() {
        let a = ("a.cc", format!("int a;\n{}", series(0, 20)));
        let b =
            ("b.h", format!("/* 1\n   2 */\n#include \"a.h\"\n{}\n// between\n{}g();\n", series(3, 8), series(11, 7)));
        assert_eq!(places(&[a.clone(), b]), [("b.h".to_owned(), 4)]);
        assert!(places(&[a.clone(), ("b.cc", series(3, 14))]).is_empty());
        assert!(places(&[a, ("b.toml", series(3, 15))]).is_empty());
    }

    #[test]
    fn a_place_in_the_same_file_is_found_once_and_apart_only() {
        let twice = ("a.test", format!("{}g();\n{}", series(0, 30), series(0, 30)));
        assert_eq!(places(&[twice]), [("a.test".to_owned(), 32)]);
        assert!(places(&[("a.inc", "f();\n".repeat(29))]).is_empty());
    }

    #[test]
    fn imports_are_not_code() {
        let import = |end: &str| format!("pub(crate) use a::{{\n{}}};\nmod {end};\n", "    b,\n".repeat(20));
        assert!(places(&[("a.rs", import("c")), ("b.rs", import("d"))]).is_empty());
    }
}
