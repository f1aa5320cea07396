//! The C header and the functions that the C interface exports.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::Finding;
use crate::source::{Kind, Tree};

const HEADER: &str = "crates/capi/include/holdfast.h";

static DECLARATION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(hf_[a-z0-9_]+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;").expect("valid"));
static DEFINITION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bfn (hf_[a-z0-9_]+)\s*\(((?:[^()]|\([^()]*\))*)\)").expect("valid"));
static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?s)/\*.*?\*/|//[^\n]*").expect("valid"));

/// Functions that only one side has, or that have other numbers of parameters there.
pub fn header(tree: &Tree) -> Vec<Finding> {
    let declared = declared(tree.text(HEADER));
    let defined = defined(tree);
    let mut found = Vec::new();
    for (name, parameters) in &declared {
        match defined.get(name) {
            None => found.push(Finding::new(HEADER, 0, format!("{name} is not defined"))),
            Some((file, line, count)) if count != parameters => {
                let what = format!("{name} has {count} parameters, in the header {parameters}");
                found.push(Finding::new(file, *line, what));
            }
            Some(_) => {}
        }
    }
    for (name, (file, line, _)) in defined.iter().filter(|(name, _)| !declared.contains_key(*name)) {
        found.push(Finding::new(file, *line, format!("{name} is not declared in the header")));
    }
    found
}

/// The functions of the header with their numbers of parameters.
fn declared(text: &str) -> BTreeMap<String, usize> {
    let text = COMMENT.replace_all(text, "");
    let function = |captures: regex::Captures<'_>| (captures[1].to_owned(), parameters(&captures[2]));
    DECLARATION.captures_iter(&text).map(function).collect()
}

/// The exported functions with file, line and number of parameters. A macro defines most of them,
/// so the text is searched.
fn defined(tree: &Tree) -> BTreeMap<String, (String, usize, usize)> {
    let mut functions = BTreeMap::new();
    for file in tree.of(Kind::Rust).filter(|file| file.path.starts_with("crates/capi/src/")) {
        for captures in DEFINITION.captures_iter(&file.text) {
            let line = file.text[..captures.get(0).expect("a match").start()].lines().count() + 1;
            functions.insert(captures[1].to_owned(), (file.path.clone(), line, parameters(&captures[2])));
        }
    }
    functions
}

/// The number of parameters in a list. A comma within brackets separates nothing, nor does one at
/// the end.
fn parameters(list: &str) -> usize {
    let list = list.trim().trim_end_matches(',');
    let mut depth = 0_usize;
    let mut commas = 0;
    for letter in list.chars() {
        match letter {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => commas += 1,
            _ => {}
        }
    }
    if matches!(list, "" | "void") { 0 } else { commas + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_to_agree() {
        let text = "/* hf_old(); */ int hf_a(int x, void (*f)(int, int));\nvoid hf_b(void);\nvoid hf_c(int x);\n";
        let rust = "#[unsafe(no_mangle)] pub extern \"C\" fn hf_a(x: u32, f: F) {}
            pub extern \"C\" fn hf_c() {} pub extern \"C\" fn hf_d() {}";
        let found = header(&Tree::of_texts(&[(HEADER, text), ("crates/capi/src/a.rs", rust)]));
        let words: Vec<_> = found.iter().map(|f| f.what.split(' ').next().unwrap()).collect();
        assert_eq!(words, ["hf_b", "hf_c", "hf_d"]);
    }
}
