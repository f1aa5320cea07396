//! The user documentation lists the system variables that exist, and says correctly which of them
//! change at run time.

use std::collections::BTreeMap;
use std::fs;

use holdfast_server::run::root;

/// Name of each variable, and when it changes, as the source declares it.
fn declared() -> BTreeMap<String, &'static str> {
    let source = fs::read_to_string(root().join("mariadb/src/plugin/variables.cc")).unwrap();
    let mut found = BTreeMap::new();
    for declaration in source.split("static MYSQL_").skip(1) {
        let (kind, rest) = declaration.split_once('(').unwrap();
        let (name, rest) = rest.split_once(',').unwrap();
        let declaration = rest.split(");").next().unwrap();
        let when = match () {
            () if kind.starts_with("THDVAR") => "per session",
            () if declaration.contains("PLUGIN_VAR_READONLY") => "no",
            () => "yes",
        };
        found.insert(format!("holdfast_{name}"), when);
    }
    found
}

#[test]
fn the_documentation_has_every_variable() {
    let page = fs::read_to_string(root().join("docs/user/mariadb-variables.md")).unwrap();
    let mut documented = BTreeMap::new();
    for line in page.lines().filter(|l| l.starts_with("| `holdfast_")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        documented.insert(cells[1].trim_matches('`').to_string(), cells[3]);
    }
    let declared = declared();
    assert!(declared.len() > 10, "the declarations were not found");
    assert_eq!(documented, declared.iter().map(|(name, when)| (name.clone(), *when)).collect());
}
