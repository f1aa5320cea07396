//! The floors of ARCHITECTURE.md: each crate has one, and uses lower ones, or its own, only.

use std::collections::BTreeMap;

use crate::Finding;
use crate::source::Tree;

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
    for (name, used) in &dependencies {
        let manifest = format!("crates/{name}/Cargo.toml");
        let Some((floor, _)) = floors.get(name) else {
            found.push(Finding::new(DOCUMENT, 0, format!("the crate `{name}` has no floor")));
            continue;
        };
        for other in used {
            if floors.get(other).is_some_and(|(other, _)| other > floor) {
                found.push(Finding::new(&manifest, 0, format!("`{other}` is on a higher floor")));
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

/// The crates below `crates/`, by folder, with those that they depend on outside of tests.
fn dependencies(tree: &Tree) -> BTreeMap<String, Vec<String>> {
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
        all.insert(name.to_owned(), used);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_points_up_is_found() {
        let document = (DOCUMENT, "| 0 | `base` | x |\n| 1 | `wal`, and `mariadb/` | y |\n| 2 | `gone` | z |\n");
        let base = ("crates/base/Cargo.toml", "[dependencies]\nholdfast-wal.workspace = true\n");
        let wal = ("crates/wal/Cargo.toml", "[dependencies]\nholdfast-base.workspace = true\n");
        let new = ("crates/new/Cargo.toml", "[dev-dependencies]\nholdfast-wal.workspace = true\n");
        let found: Vec<_> =
            floors(&Tree::of_texts(&[document, base, wal, new])).iter().map(Finding::to_string).collect();
        assert_eq!(
            found,
            [
                "ARCHITECTURE.md:3: there is no crate `gone`",
                "crates/base/Cargo.toml: `wal` is on a higher floor",
                "ARCHITECTURE.md: the crate `new` has no floor",
            ]
        );
    }
}
