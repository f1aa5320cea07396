//! Programs of tests that are a folder: each file is a module of its `main.rs`, since the tests of
//! a file that is none do not run.

use crate::check::Finding;
use crate::source::{Kind, Source, Tree};

/// A finding for each file of such a folder that is no module.
pub fn modules(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (main, syntax) in tree.rust() {
        let Some(folder) = main.path.strip_suffix("/main.rs") else { continue };
        if folder.rsplit('/').nth(1) != Some("tests") {
            continue;
        }
        let is_module =
            |name: &str| syntax.items.iter().any(|item| matches!(item, syn::Item::Mod(m) if m.ident == name));
        let is_left_out = |file: &&Source| {
            let name = file.path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')?.strip_suffix(".rs"));
            name.is_some_and(|name| name != "main" && !name.contains('/') && !is_module(name))
        };
        let what = "is no module of `main.rs`: its tests do not run";
        found.extend(tree.of(Kind::Rust).filter(is_left_out).map(|file| Finding::new(&file.path, 0, what)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_left_out_is_found() {
        let main = ("engine/wal/tests/all/main.rs", "mod there; mod shared;");
        let files =
            ["there", "gone", "shared/mod", "shared/part"].map(|name| format!("engine/wal/tests/all/{name}.rs"));
        let mut texts = vec![main, ("engine/wal/tests/own.rs", ""), ("engine/wal/src/all/gone.rs", "")];
        texts.extend(files.iter().map(|path| (path.as_str(), "")));
        let found = modules(&Tree::of_texts(&texts));
        assert_eq!(found.iter().map(|finding| &finding.file).collect::<Vec<_>>(), [&files[1]]);
    }
}
