//! The tables of INFORMATION_SCHEMA in the user documentation are the engine's listings. After a
//! change of a listing `UPDATE_DOCS=1 cargo test -p holdfast-engine --test behaviours user_docs::`
//! writes it.

use holdfast::Listing;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/user/mariadb-status.md");

#[test]
fn the_documentation_has_every_column() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once("<!-- listings -->\n").unwrap();
    let (found, after) = rest.split_once("<!-- /listings -->").unwrap();
    let mut expected = String::from("| table | columns |\n|---|---|\n");
    for listing in Listing::ALL {
        let columns: Vec<String> = listing.columns().iter().map(|c| format!("`{}`", c.name)).collect();
        expected += &format!("| `HOLDFAST_{}` | {} |\n", listing.name(), columns.join(", "));
    }
    expected.push('\n');
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{before}<!-- listings -->\n{expected}<!-- /listings -->{after}")).unwrap();
    } else {
        assert_eq!(found, expected, "write it anew with UPDATE_DOCS=1");
    }
}
