//! Public names of the engine's crates: each is defined once.

use std::collections::BTreeMap;

use crate::check::Finding;
use crate::source::{Tree, is_test};

/// The crates whose names are one vocabulary.
const KERNEL: [&str; 11] = ["base", "metrics", "latch", "lock", "policy", "io", "wal", "pool", "tree", "txn", "engine"];

/// A finding for each definition of a public type, trait or constant beyond its first.
pub fn names(tree: &Tree) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    for (file, syntax) in tree.rust() {
        let is_kernel = file.krate().is_some_and(|name| KERNEL.contains(&name)) && file.path.contains("/src/");
        for item in syntax.items.iter().filter(|_| is_kernel) {
            if let Some((name, line)) = public_name(item) {
                places.entry(name).or_default().push((file.path.clone(), line));
            }
        }
    }
    let mut found = Vec::new();
    for (name, places) in places {
        let (first, others) = places.split_first().expect("a name has a place");
        let again = |(file, line): &(String, usize)| {
            Finding::new(file, *line, format!("`{name}` is also defined in {}:{}", first.0, first.1))
        };
        // Of one file, they are for different builds.
        found.extend(others.iter().filter(|(file, _)| *file != first.0).map(again));
    }
    found
}

fn public_name(item: &syn::Item) -> Option<(String, usize)> {
    let (vis, ident, attrs) = match item {
        syn::Item::Struct(item) => (&item.vis, &item.ident, &item.attrs),
        syn::Item::Enum(item) => (&item.vis, &item.ident, &item.attrs),
        syn::Item::Trait(item) => (&item.vis, &item.ident, &item.attrs),
        syn::Item::Type(item) => (&item.vis, &item.ident, &item.attrs),
        syn::Item::Const(item) => (&item.vis, &item.ident, &item.attrs),
        _ => return None,
    };
    let is_public = matches!(vis, syn::Visibility::Public(_)) && !is_test(attrs);
    is_public.then(|| (ident.to_string(), ident.span().start().line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_definition_is_found() {
        let a = ("engine/wal/src/a.rs", "pub enum Durability {} struct Own;");
        let b = ("engine/txn/src/a.rs", "pub enum Durability {} struct Own;");
        let lab = ("tools/lab/src/a.rs", "pub enum Durability {}");
        let found = names(&Tree::of_texts(&[a, b, lab]));
        assert_eq!(found.iter().map(|f| f.file.as_str()).collect::<Vec<_>>(), [b.0]);
    }
}
