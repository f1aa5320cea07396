//! The table of metrics in the user documentation is the catalogue. After a change of the catalogue
//! `UPDATE_DOCS=1 cargo test -p holdfast-metrics --test user_docs` writes it.

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/user/mariadb-status.md");

#[test]
fn the_documentation_lists_the_catalogue() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once("<!-- metrics -->\n").unwrap();
    let (found, after) = rest.split_once("<!-- /metrics -->").unwrap();
    let expected = format!("{}\n", holdfast_metrics::markdown_table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{before}<!-- metrics -->\n{expected}<!-- /metrics -->{after}")).unwrap();
    } else {
        assert_eq!(found, expected, "write it anew with UPDATE_DOCS=1");
    }
}
