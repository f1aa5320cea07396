//! What documents name: paths and commands.

use std::sync::LazyLock;

use regex::Regex;

use crate::check::Finding;
use crate::source::{Kind, Source, Tree};

/// Documents that tell what was; what they name may be gone.
fn is_history(file: &Source) -> bool {
    let past = ["docs/performance/log", "docs/decisions", "CHANGELOG.md"];
    past.iter().any(|path| file.path.starts_with(path))
}

static IN_TICKS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`([^`]+)`").expect("valid"));
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").expect("valid"));
static XTASK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"cargo xtask ([a-z-]+)(?: ([a-z-]+))?").expect("valid"));
static PACKAGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"cargo [a-z]+ [^`\n]*?(?:-p|--package) ([a-z-]+)").expect("valid"));
static TEST: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"--test ([a-z0-9_]+)(?: ([a-z0-9_]+)::)?").expect("valid"));

/// Paths in ticks and links that lead nowhere.
pub fn paths(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.of(Kind::Markdown).filter(|file| !is_history(file)) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in file.lines() {
            for link in LINK.captures_iter(line).map(|captures| captures[1].to_owned()) {
                let target = link.split('#').next().unwrap_or_default();
                if !target.is_empty() && !target.contains(':') && !tree.has(&joined(folder, target)) {
                    found.push(Finding::new(&file.path, number, format!("the link `{link}` leads nowhere")));
                }
            }
            for path in IN_TICKS.captures_iter(line).map(|captures| captures[1].to_owned()) {
                let (own, whole) = (joined(folder, &path), path.trim_end_matches('/'));
                if is_path(&path) && !tree.has(whole) && !tree.has(&own) && !ends_a_path(tree, whole) {
                    found.push(Finding::new(&file.path, number, format!("`{path}` does not exist")));
                }
            }
        }
    }
    found
}

/// True if a text in ticks means a file or folder of the project.
fn is_path(text: &str) -> bool {
    let roots = ["engine/", "docs/", "mariadb/", "xtask/", "fuzz/", "tools/"];
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let is_source = [".rs", ".md", ".cc"].iter().any(|end| text.ends_with(end) && text.len() > end.len());
    plain && (roots.iter().any(|root| text.starts_with(root)) || is_source)
}

/// A path may be cut short at its front, as in `wal/mod.rs`.
fn ends_a_path(tree: &Tree, path: &str) -> bool {
    tree.files.iter().any(|file| file.path.strip_suffix(path).is_some_and(|front| front.ends_with('/')))
}

/// A path as seen from a folder, without `..`.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Commands that cargo or `cargo xtask` would refuse.
pub fn commands(tree: &Tree) -> Vec<Finding> {
    let known = Known::read(tree);
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.kind != Kind::Other && !is_history(file)) {
        // The regular expressions above are not commands.
        if file.krate() == Some("tidy") {
            continue;
        }
        for (number, line) in file.lines() {
            found.extend(known.wrong(line).into_iter().map(|what| Finding::new(&file.path, number, what)));
        }
    }
    found
}

/// The names that commands may use.
struct Known {
    chores: Vec<String>,
    mariadb: Vec<String>,
    packages: Vec<String>,
    tests: Vec<String>,
}

impl Known {
    fn read(tree: &Tree) -> Known {
        let name = |line: &str| Some(line.strip_prefix("name = \"")?.trim_end_matches('"').to_owned());
        let manifests = tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
        // A folder with a `main.rs` is one program, whose modules are tests within it.
        let test = |file: &Source| {
            let name = file.path.split_once("/tests/")?.1.strip_suffix(".rs")?;
            Some(name.strip_suffix("/main").unwrap_or(name).to_owned())
        };
        Known {
            chores: variants(tree, "xtask/src/main.rs", "Command"),
            mariadb: variants(tree, "tools/mariadb-tests/src/lib.rs", "What"),
            packages: manifests.flat_map(|file| file.text.lines().filter_map(name)).collect(),
            tests: tree.of(Kind::Rust).filter_map(test).collect(),
        }
    }

    fn wrong(&self, line: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
        for captures in XTASK.captures_iter(line) {
            let (chore, second) = (&captures[1], captures.get(2).map(|word| word.as_str()));
            if !has(&self.chores, chore) {
                wrong.push(format!("there is no chore `{chore}`"));
            }
            if let Some(what) = second.filter(|what| chore == "mariadb" && !has(&self.mariadb, what)) {
                wrong.push(format!("there is no `cargo xtask mariadb {what}`"));
            }
        }
        if line.contains("cargo ") {
            let packages = PACKAGE.captures_iter(line).filter(|captures| !has(&self.packages, &captures[1]));
            wrong.extend(packages.map(|captures| format!("there is no package `{}`", &captures[1])));
            for captures in TEST.captures_iter(line) {
                let program = captures[1].to_owned();
                let module = captures.get(2).map(|module| format!("{program}/{}", module.as_str()));
                let missing = [Some(program), module].into_iter().flatten().filter(|name| !has(&self.tests, name));
                wrong.extend(missing.map(|name| format!("there is no test `{name}`")));
            }
        }
        wrong
    }
}

/// The variants of an enum as words of a command line.
fn variants(tree: &Tree, path: &str, name: &str) -> Vec<String> {
    let items = tree.rust().filter(|(file, _)| file.path == path).flat_map(|(_, syntax)| &syntax.items);
    let variants = items.filter_map(|item| match item {
        syn::Item::Enum(item) if item.ident == name => Some(item.variants.iter()),
        _ => None,
    });
    variants.flatten().map(|variant| kebab(&variant.ident.to_string())).collect()
}

fn kebab(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_to_exist() {
        let main = ("xtask/src/main.rs", "enum Command { Test, Mariadb }");
        let mariadb = ("tools/mariadb-tests/src/lib.rs", "enum What { Smoke, AddIndex }");
        let manifest = ("tools/sim/Cargo.toml", "name = \"holdfast-sim\"\n");
        let lines = "`cargo xtask test`\n`cargo xtask mariadb add-index`\n`cargo xtask dance`\n\
            `cargo xtask mariadb sing`\n`cargo run -p holdfast-sim`\n`cargo test -p other --test gone`\n\
            `cargo test --test all there::`\n`cargo test --test all gone::`\n";
        let tests = [("tools/sim/tests/all/main.rs", ""), ("tools/sim/tests/all/there.rs", "")];
        let mut texts = vec![main, mariadb, manifest, ("a.md", lines)];
        texts.extend(tests);
        let found = commands(&Tree::of_texts(&texts));
        assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [3, 4, 6, 6, 8]);
    }

    #[test]
    fn a_path_is_seen_from_its_document() {
        assert_eq!(joined("docs/design", "../user/x.md"), "docs/user/x.md");
        assert!(is_path("engine/wal/src") && is_path("log.md") && !is_path("a/b") && !is_path("cargo test"));
    }
}
