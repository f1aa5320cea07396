//! Circles of imports among the files of a crate.
//!
//! A file *uses* another one of its crate if a path in it (of a `use`, a type, a call) names an
//! item of the other. A name that a module re-exports counts as the file that defines it, and a
//! re-export is no use: a `mod.rs` may name its parts. Tests are left out. Files that use each
//! other, directly or through others, are a circle (a strongly connected component, by Tarjan's
//! algorithm).

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::check::Finding;
use crate::source::{Tree, is_test};

/// A finding for each file that is in a circle.
pub fn circles(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for (file, syntax) in tree.rust() {
        // A program beside a library uses it from outside.
        let is_beside =
            file.path.strip_suffix("main.rs").is_some_and(|src| !tree.text(&format!("{src}lib.rs")).is_empty());
        if let Some((folder, module)) = module_of(&file.path).filter(|_| !is_beside) {
            crates.entry(folder).or_default().add(&file.path, module, syntax);
        }
    }
    crates.values().flat_map(Modules::circles).collect()
}

/// A path of names from the root of a crate.
type Names = Vec<String>;

/// The folder of the crate, and the module that a file below `src` is: the file of a library or of
/// a program is the root of all others. `None` for tests and for the programs in `bin`.
fn module_of(path: &str) -> Option<(&str, Names)> {
    let (folder, inner) = path.split_once("/src/")?;
    let stem = inner.strip_suffix(".rs")?;
    let mut names: Names = stem.split('/').map(str::to_owned).collect();
    match names.last().map(String::as_str) {
        Some("mod") => drop(names.pop()),
        Some("lib" | "main") if names.len() == 1 => names.clear(),
        _ if names[0] == "bin" => return None,
        _ => {}
    }
    Some((folder, names))
}

/// The modules of a crate.
#[derive(Default)]
struct Modules {
    files: BTreeMap<Names, File>,
}

/// A file with what its paths name.
#[derive(Default)]
struct File {
    path: String,
    /// Paths from the root that occur outside of re-exports.
    used: BTreeSet<Names>,
    /// Names that the module re-exports, and what they stand for. A `*` stands for all of a module.
    exports: Vec<(String, Names)>,
}

impl Modules {
    fn add(&mut self, path: &str, module: Names, syntax: &syn::File) {
        let children = syntax.items.iter().filter_map(|item| match item {
            syn::Item::Mod(child) => Some(child.ident.to_string()),
            _ => None,
        });
        let file = File { path: path.to_owned(), ..File::default() };
        let mut reader = Reader { module: module.clone(), children: children.collect(), file };
        reader.visit_file(syntax);
        self.files.insert(module, reader.file);
    }

    /// The file that defines what a path names, through re-exports.
    fn definer(&self, path: &[String], depth: usize) -> Option<&Names> {
        let (module, file) = (0..=path.len()).rev().find_map(|n| self.files.get_key_value(&path[..n]))?;
        let Some(name) = path.get(module.len()).filter(|_| depth < 8) else { return Some(module) };
        for (exported, target) in &file.exports {
            if exported == name {
                return self.definer(target, depth + 1);
            }
        }
        Some(module)
    }

    /// The files that each file uses.
    fn uses(&self) -> BTreeMap<&Names, BTreeSet<&Names>> {
        let of = |(module, file): (_, &'_ File)| {
            let used = file.used.iter().filter_map(|path| self.definer(path, 0)).filter(|used| *used != module);
            (module, used.filter_map(|used| self.files.get_key_value(used).map(|(key, _)| key)).collect())
        };
        self.files.iter().map(of).collect()
    }

    fn circles(&self) -> Vec<Finding> {
        let uses = self.uses();
        let mut found = Vec::new();
        for circle in components(&uses).into_iter().filter(|circle| circle.len() > 1) {
            for module in &circle {
                let into = uses[module].iter().filter(|used| circle.contains(**used));
                let into: Vec<_> = into.map(|used| self.files[*used].path.as_str()).collect();
                let file = &self.files[*module].path;
                let what = format!("in a circle of {} files by {}", circle.len(), into.join(", "));
                found.push(Finding::new(file, 0, what));
            }
        }
        found
    }
}

/// Collects the paths of a file.
struct Reader {
    module: Names,
    /// The modules that the file declares: a path may begin with their names.
    children: BTreeSet<String>,
    file: File,
}

impl Reader {
    /// The path from the root that these names mean here, if they begin in the crate.
    fn absolute(&self, names: &[String]) -> Option<Names> {
        let mut names = names.iter();
        let mut path = match names.next()?.as_str() {
            "crate" => Names::new(),
            "self" => self.module.clone(),
            "super" => self.module.split_last().map(|(_, up)| up.to_vec())?,
            child if self.children.contains(child) => self.module.iter().cloned().chain([child.to_owned()]).collect(),
            _ => return None,
        };
        for name in names {
            match name.as_str() {
                "super" => drop(path.pop()),
                "self" => {}
                _ => path.push(name.clone()),
            }
        }
        Some(path)
    }

    fn tree(&mut self, prefix: &mut Names, tree: &syn::UseTree, is_export: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.tree(prefix, &path.tree, is_export);
                prefix.pop();
            }
            syn::UseTree::Name(name) => self.leaf(prefix, &name.ident.to_string(), None, is_export),
            syn::UseTree::Rename(rename) => {
                let alias = rename.rename.to_string();
                self.leaf(prefix, &rename.ident.to_string(), Some(alias), is_export);
            }
            syn::UseTree::Glob(_) => self.leaf(prefix, "self", Some("*".into()), is_export),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(prefix, tree, is_export);
                }
            }
        }
    }

    fn leaf(&mut self, prefix: &Names, name: &str, alias: Option<String>, is_export: bool) {
        let mut names = prefix.clone();
        names.push(name.to_owned());
        let Some(path) = self.absolute(&names) else { return };
        if is_export {
            let exported = alias.unwrap_or_else(|| path.last().cloned().unwrap_or_default());
            self.file.exports.push((exported, path));
        } else {
            self.file.used.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) && item.content.is_none() {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            let is_export = !matches!(item.vis, syn::Visibility::Inherited);
            self.tree(&mut Names::new(), &item.tree, is_export);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let Some(path) = self.absolute(&names).filter(|_| names.len() > 1) {
            self.file.used.insert(path);
        }
        visit::visit_path(self, path);
    }
}

/// Strongly connected components of a graph, by Tarjan (SIAM J. Comput. 1, 1972).
fn components<'a, N: Ord>(graph: &BTreeMap<&'a N, BTreeSet<&'a N>>) -> Vec<BTreeSet<&'a N>> {
    let mut search = Search { graph, seen: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for node in graph.keys() {
        if !search.seen.contains_key(node) {
            search.visit(node);
        }
    }
    search.found
}

struct Search<'g, 'a, N> {
    graph: &'g BTreeMap<&'a N, BTreeSet<&'a N>>,
    /// The order of the visit, and the earliest node that is reached and still on the stack.
    seen: BTreeMap<&'a N, (usize, usize)>,
    stack: Vec<&'a N>,
    found: Vec<BTreeSet<&'a N>>,
}

impl<'a, N: Ord> Search<'_, 'a, N> {
    fn visit(&mut self, node: &'a N) -> usize {
        let order = self.seen.len();
        self.seen.insert(node, (order, order));
        self.stack.push(node);
        let mut low = order;
        for next in &self.graph[node] {
            match self.seen.get(next) {
                None => low = low.min(self.visit(next)),
                Some(&(order, _)) if self.stack.contains(next) => low = low.min(order),
                Some(_) => {}
            }
        }
        if low == order {
            let at = self.stack.iter().position(|other| *other == node).expect("it is on the stack");
            self.found.push(self.stack.split_off(at).into_iter().collect());
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_circles(texts: &[(&str, &str)]) -> Vec<String> {
        circles(&Tree::of_texts(texts)).into_iter().map(|finding| finding.file).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let a = ("engine/x/src/a.rs", "use crate::b::B; pub struct A;");
        let b = ("engine/x/src/b.rs", "pub struct B(crate::a::A);");
        let c = ("engine/x/src/c.rs", "use crate::{a::A, b::B};");
        assert_eq!(in_circles(&[a, b, c]), [a.0, b.0]);
    }

    #[test]
    fn a_name_that_is_re_exported_leads_to_its_file() {
        let lib = ("engine/x/src/lib.rs", "mod a; mod b; pub use a::A; pub use crate::b::B;");
        let a = ("engine/x/src/a.rs", "use crate::B; pub struct A;");
        let b = ("engine/x/src/b.rs", "use super::A; pub struct B;");
        assert_eq!(in_circles(&[lib, a, b]), [a.0, b.0]);
        let b = ("engine/x/src/b.rs", "pub struct B;");
        assert!(in_circles(&[lib, a, b]).is_empty());
    }

    #[test]
    fn a_path_may_begin_with_the_name_of_a_child() {
        let parent = ("engine/x/src/a/mod.rs", "mod b; use b::B; pub struct A;");
        let child = ("engine/x/src/a/b.rs", "use super::A; pub struct B;");
        assert_eq!(in_circles(&[parent, child]), [parent.0, child.0]);
    }

    #[test]
    fn the_file_of_a_program_closes_a_circle() {
        let main = ("tools/x/src/main.rs", "mod a; pub struct Outcome; fn main() { a::run(); }");
        let a = ("tools/x/src/a.rs", "use crate::Outcome; pub fn run() -> Outcome { Outcome }");
        assert_eq!(in_circles(&[main, a]), [main.0, a.0]);
        let main = ("xtask/src/main.rs", "mod a; mod outcome; fn main() { a::run(); }");
        let outcome = ("xtask/src/outcome.rs", "pub struct Outcome;");
        let a = ("xtask/src/a.rs", "use crate::outcome::Outcome; pub fn run() -> Outcome { Outcome }");
        assert!(in_circles(&[main, outcome, a]).is_empty());
        let lib = ("tools/x/src/lib.rs", "mod a; mod b;");
        let (a, b) = (("tools/x/src/a.rs", "use crate::b::B;"), ("tools/x/src/b.rs", "pub struct B;"));
        assert!(in_circles(&[lib, ("tools/x/src/main.rs", "use x::a; pub struct B;"), a, b]).is_empty());
    }

    #[test]
    fn a_test_closes_no_circle() {
        let a = ("engine/x/src/a.rs", "use crate::b::B;");
        let b = ("engine/x/src/b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a; }");
        assert!(in_circles(&[a, b]).is_empty());
    }
}
