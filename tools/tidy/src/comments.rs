//! Which lines of a file are comment, in each language that the project has files of.

use crate::source::Source;

/// How a language writes comments.
struct Language {
    /// What a line begins with that is a comment.
    marks: &'static [&'static str],
    /// True if `/*` begins a comment that ends with `*/`.
    has_blocks: bool,
}

/// The language of a file; `None` if it has no comments, as a document.
fn language(file: &Source) -> Option<Language> {
    let name = file.path.rsplit_once('/').map_or(file.path.as_str(), |(_, name)| name);
    let (marks, has_blocks): (&[_], _) = match name.rsplit_once('.').map(|(_, end)| end) {
        Some("rs" | "cc" | "h" | "c" | "js") => (&["//"], true),
        Some("css") => (&[], true),
        // What a test prints for its reader stands for a comment.
        Some("test" | "inc") => (&["#", "--echo #"], false),
        Some("sql" | "lua") => (&["--"], false),
        Some("toml" | "sh" | "cnf") => (&["#"], false),
        // A program of the shell, or a list.
        None if file.text.starts_with('#') => (&["#"], false),
        _ => return None,
    };
    Some(Language { marks, has_blocks })
}

/// The lines that are comment alone, with their numbers from 1. A comment behind code on the same
/// line is not meant.
pub fn lines(file: &Source) -> Vec<(usize, &str)> {
    let Some(Language { marks, has_blocks }) = language(file) else { return Vec::new() };
    let mut found = Vec::new();
    let mut in_block = false;
    for (number, line) in file.lines() {
        let text = line.trim_start();
        if in_block {
            in_block = !text.contains("*/");
            found.push((number, line));
        } else if marks.iter().any(|mark| text.starts_with(mark)) {
            found.push((number, line));
        } else if has_blocks && text.contains("/*") {
            in_block = opens_block(text);
            let is_whole =
                text.starts_with("/*") && text.split_once("*/").is_none_or(|(_, rest)| rest.trim().is_empty());
            found.extend(is_whole.then_some((number, line)));
        }
    }
    found
}

/// True if a block begins in a line, outside of a string and of a comment, that does not end there.
fn opens_block(line: &str) -> bool {
    line.rsplit_once("/*").is_some_and(|(before, comment)| {
        !comment.contains("*/") && !before.contains("//") && before.matches('"').count() % 2 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(path: &str, text: &str) -> Vec<usize> {
        let file = Source::new(path, text.to_owned()).expect("valid Rust");
        lines(&file).into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn a_block_is_comment_to_its_end() {
        let text =
            "/* One\n\n   two. */\nint a; /* behind\n  code */\n/* before */ int b;\nchar *c= \"/*\";\n/* d */\n";
        assert_eq!(numbers("a.cc", text), [1, 2, 3, 5, 8]);
        assert_eq!(numbers("a.rs", "// engine/*/src\nfn f() {} // a/*\nfn g() {}\n"), [1]);
    }

    #[test]
    fn each_language_has_its_mark() {
        assert_eq!(numbers("a.test", "# a\n--echo # b\n--error 1\nSELECT 1; # c\n"), [1, 2]);
        assert_eq!(numbers("a.sql", "-- a\nSELECT 1; -- b\n"), [1]);
        assert_eq!(numbers("a.lua", "#a\n  -- a\n"), [2]);
        assert_eq!(numbers("a.toml", "# a\n[b]\n"), [1]);
        assert_eq!(numbers(".ci/run", "#!/bin/sh\na\n# b\n"), [1, 3]);
        assert_eq!(numbers("LICENSE", "The\n# license\n"), []);
        assert_eq!(numbers("a.md", "# Title\n"), []);
    }
}
