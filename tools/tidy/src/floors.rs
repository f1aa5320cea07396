//! The floors of ARCHITECTURE.md: each crate has one, and uses lower ones, or its own, only. No
//! crate of the engine uses an instrument.

use std::collections::BTreeMap;

use crate::check::Finding;
use crate::source::{ENGINE, Tree};

const DOCUMENT: &str = "ARCHITECTURE.md";

/// Crates that the table lacks, names in it that are no crate, and dependencies that point up.
pub fn floors(tree: &Tree) -> Vec<Finding> {
    let floors = table(tree.text(DOCUMENT));
    let dependencies = dependencies(tree);
    let mut found = Vec::new();
    for (name, line) in floors.iter().map(|(name, (_, line))| (name, *line)) {
        if !dependencies.contains_key(name) {
            found.push(Finding::new(DOCUMENT, line, format!("there is no crate `{name}`")));
        }
    }
    let is_of_the_engine = |name: &str| dependencies.get(name).is_some_and(|krate| krate.manifest.starts_with(ENGINE));
    for (name, Crate { manifest, used }) in &dependencies {
        let Some((floor, _)) = floors.get(name) else {
            found.push(Finding::new(DOCUMENT, 0, format!("the crate `{name}` has no floor")));
            continue;
        };
        for other in used {
            if floors.get(other).is_some_and(|(other, _)| other > floor) {
                found.push(Finding::new(manifest, 0, format!("`{other}` is on a higher floor")));
            }
            if is_of_the_engine(name) && !is_of_the_engine(other) {
                found.push(Finding::new(manifest, 0, format!("`{other}` is an instrument, not a part of the engine")));
            }
        }
    }
    found
}

/// The crates of the table with their floors and lines.
fn table(text: &str) -> BTreeMap<String, (u32, usize)> {
    let mut floors = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, floor, crates, ..] = cells[..] else { continue };
        let Ok(floor) = floor.parse() else { continue };
        // What follows in parentheses is another name of the crate.
        let crates = crates.split(" (").next().unwrap_or_default();
        let names = crates.split('`').skip(1).step_by(2).filter(|name| !name.ends_with('/'));
        floors.extend(names.map(|name| (name.to_owned(), (floor, number + 1))));
    }
    floors
}

/// A crate of the engine, or an instrument.
struct Crate {
    /// The path of its manifest.
    manifest: String,
    /// The crates that it depends on outside of tests.
    used: Vec<String>,
}

/// All crates, by folder.
fn dependencies(tree: &Tree) -> BTreeMap<String, Crate> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let mut all = BTreeMap::new();
    for (file, name) in manifests.filter_map(|file| file.krate().map(|name| (file, name))) {
        let mut is_dependency = false;
        let mut used = Vec::new();
        for line in file.text.lines() {
            if line.starts_with('[') {
                is_dependency = line.ends_with("dependencies]") && !line.contains("dev-");
            } else if let Some(rest) = line.strip_prefix("holdfast-").filter(|_| is_dependency) {
                used.extend(rest.split(['.', ' ', '=']).next().map(str::to_owned));
            }
        }
        all.insert(name.to_owned(), Crate { manifest: file.path.clone(), used });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_points_up_is_found() {
        let document =
            (DOCUMENT, "| 0 | `base` | x |\n| 1 | `wal`, `pool`, and `mariadb/` | y |\n| 2 | `gone` | z |\n");
        let base = ("engine/base/Cargo.toml", "[dependencies]\nholdfast-wal.workspace = true\n");
        let wal = ("engine/wal/Cargo.toml", "[dependencies]\nholdfast-base.workspace = true\n");
        let pool = ("engine/pool/Cargo.toml", "[dependencies]\nholdfast-new.workspace = true\n");
        let new = ("tools/new/Cargo.toml", "[dev-dependencies]\nholdfast-wal.workspace = true\n");
        let found: Vec<_> =
            floors(&Tree::of_texts(&[document, base, wal, pool, new])).iter().map(Finding::to_string).collect();
        assert_eq!(
            found,
            [
                "ARCHITECTURE.md:3: there is no crate `gone`",
                "engine/base/Cargo.toml: `wal` is on a higher floor",
                "ARCHITECTURE.md: the crate `new` has no floor",
                "engine/pool/Cargo.toml: `new` is an instrument, not a part of the engine",
            ]
        );
    }
}
