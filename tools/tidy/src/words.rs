//! Words that hide the thing that acts: persons where a thread, a transaction or a program is
//! meant, and pictures.

use std::sync::LazyLock;

use regex::Regex;

use crate::check::Finding;
use crate::comments;
use crate::source::{Kind, Tree};

/// The words, and what to write instead. `docs/design/style.md` explains them.
const LIST: &[(&str, &str)] = &[
    (r"who|whoever|whom", "name the thing that acts: a waiter, a reader, the evictor, the caller"),
    (r"nobody|somebody|anybody|everybody|no one|someone|anyone|everyone", "name the thread, transaction or program"),
    (r"he|him|his|she|her", "it, or the noun"),
    (r"lets? go of|letting go of", "release, free, unpin"),
    (r"put off (its|the) core|puts? off", "preempted; delayed"),
    (r"gives? (it )?(its|the) core away", "yields"),
    (r"stands? in line|stood in line", "waits, queues"),
    (r"for ever after", "always"),
];

/// Names in ticks are not words of a sentence.
static TICKS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`[^`]*`").expect("valid"));

static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let pattern = |(words, instead): &(&str, &'static str)| {
        let regex = Regex::new(&format!(r"(?i)\b(?:{words})\b")).expect("the list is valid");
        (regex, *instead)
    };
    LIST.iter().map(pattern).collect()
});

/// Lines with a word of the list, one finding for each word. Of scripts and manifests comments are
/// read only, since statements have names of their own.
pub fn words(tree: &Tree) -> Vec<Finding> {
    let is_read = |path: &str| {
        let diary = path.starts_with("docs/performance/log") || path.starts_with("docs/decisions");
        let list = path == "docs/design/style.md" || path.starts_with("tools/tidy/");
        let license = path.contains("LICENSE");
        !(diary || list || license)
    };
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| is_read(&file.path)) {
        let lines = match file.kind {
            Kind::Other => comments::lines(file),
            _ => file.lines().collect(),
        };
        for (number, line) in lines {
            let sentence = TICKS.replace_all(line, "``");
            for (pattern, instead) in PATTERNS.iter() {
                let finding = |word: regex::Match<'_>| {
                    Finding::new(&file.path, number, format!("`{}`: {instead}", word.as_str()))
                };
                found.extend(pattern.find_iter(&sentence).map(finding));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_whole_and_in_any_case() {
        let tree =
            Tree::of_texts(&[("a.md", "Whoever waits\nthe whole of them\nthe user `nobody`\n"), ("b.txt", "who")]);
        assert_eq!(words(&tree).iter().map(|f| f.line).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_word_is_found_in_the_comments_of_a_script() {
        let texts = [
            ("a.test", "SELECT who;\n# nobody waits\n--echo # his row\n"),
            ("b.sql", "-- whoever waits\nSELECT he;\n"),
            ("c.lua", "-- somebody waits\n"),
            ("d.toml", "# for everyone\nhe = 1\n"),
            ("e.sh", "# she waits\n"),
        ];
        let found: Vec<_> = words(&Tree::of_texts(&texts)).into_iter().map(|f| (f.file, f.line)).collect();
        let wanted = [("a.test", 2), ("a.test", 3), ("b.sql", 1), ("c.lua", 1), ("d.toml", 1), ("e.sh", 1)];
        assert_eq!(found, wanted.map(|(file, line)| (file.to_owned(), line)));
    }
}
