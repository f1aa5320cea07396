//! Lengths: of files, functions, lists of parameters, lines of comments and of documents.

use std::collections::BTreeSet;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::check::Finding;
use crate::source::{Kind, Source, Tree, is_test};
use crate::{comments, cpp, header};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const PARAMETERS: usize = 6;
/// Of a function of the C interface: its list is a part of the ABI, which stays as it is.
const C_PARAMETERS: usize = 8;
const COMMENT_COLUMNS: usize = 100;
const PROSE_COLUMNS: usize = 110;
/// Documents that a program adds to, and the lines that they may have.
const PAGES: [(&str, usize); 1] = [("docs/performance/README.md", 150)];

/// Files of code that are too long; one that is made of others is not meant.
pub fn files(tree: &Tree) -> Vec<Finding> {
    let is_written = |file: &&Source| file.path != header::HEADER;
    let code = tree.files.iter().filter(|file| matches!(file.kind, Kind::Rust | Kind::Cpp)).filter(is_written);
    let length = |file: &Source| {
        let lines = file.text.lines().count();
        (lines > FILE_LINES).then(|| Finding::new(&file.path, 0, format!("{lines} lines")))
    };
    code.filter_map(length).collect()
}

/// Functions that are too long, those of tests included.
pub fn functions(tree: &Tree) -> Vec<Finding> {
    let too_long = |function: &Function| function.lines > FUNCTION_LINES;
    of_all(tree, too_long, |f| format!("{} has {} lines", f.name, f.lines))
}

/// Functions with too many parameters; `self` is not counted.
pub fn parameters(tree: &Tree) -> Vec<Finding> {
    let too_many = |function: &Function| !function.is_test && function.parameters > function.most_parameters;
    of_all(tree, too_many, |f| format!("{} has {} parameters", f.name, f.parameters))
}

/// Lines of comment that are too long, in all languages.
pub fn comments(tree: &Tree) -> Vec<Finding> {
    let of = |file: &Source| {
        let long = |(number, line): (usize, &str)| {
            let columns = line.chars().count();
            (columns > COMMENT_COLUMNS).then(|| Finding::new(&file.path, number, format!("{columns} columns")))
        };
        comments::lines(file).into_iter().filter_map(long).collect::<Vec<_>>()
    };
    tree.files.iter().flat_map(of).collect()
}

/// Lines of documents that are too long, and pages that are. Of lines, tables, blocks of code,
/// pictures and what cannot be broken are left out.
pub fn prose(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.of(Kind::Markdown) {
        let lines = file.text.lines().count();
        if PAGES.iter().any(|(path, most)| file.path == *path && lines > *most) {
            found.push(Finding::new(&file.path, 0, format!("{lines} lines")));
        }
        let mut is_code = false;
        for (number, line) in file.lines() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            let columns = line.chars().count();
            let text = line.trim_start();
            let is_table_or_picture = text.starts_with('|') || text.starts_with("![");
            if columns > PROSE_COLUMNS && !is_code && !is_table_or_picture && text.contains(' ') {
                found.push(Finding::new(&file.path, number, format!("{columns} columns")));
            }
        }
    }
    found
}

/// A function, as far as lengths go.
struct Function {
    name: String,
    line: usize,
    lines: usize,
    parameters: usize,
    most_parameters: usize,
    is_test: bool,
}

/// A finding for each function that `is` chooses.
fn of_all(tree: &Tree, is: impl Fn(&Function) -> bool, say: impl Fn(&Function) -> String) -> Vec<Finding> {
    let overrides = tree.of(Kind::Cpp).flat_map(|file| cpp::overrides(&file.text)).collect();
    let mut found = Vec::new();
    for file in &tree.files {
        let functions = match (&file.syntax, file.kind) {
            (Some(syntax), _) => of_rust(syntax),
            (None, Kind::Cpp) => of_cpp(&file.text, &overrides),
            _ => continue,
        };
        let chosen = functions.iter().filter(|function| is(function));
        found.extend(chosen.map(|function| Finding::new(&file.path, function.line, say(function))));
    }
    found
}

/// The functions of a file of C++. One of `overrides` has the list of the class that it is from.
fn of_cpp(text: &str, overrides: &BTreeSet<String>) -> Vec<Function> {
    let function = |function: cpp::Function| {
        let cpp::Function { name, line, lines, parameters } = function;
        let most_parameters = if overrides.contains(&name) { usize::MAX } else { PARAMETERS };
        Function { name, line, lines, parameters, most_parameters, is_test: false }
    };
    cpp::functions(text).into_iter().map(function).collect()
}

fn of_rust(syntax: &syn::File) -> Vec<Function> {
    let mut functions = Functions { all: Vec::new(), within_test: false };
    functions.visit_file(syntax);
    functions.all
}

struct Functions {
    all: Vec<Function>,
    within_test: bool,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, whole: Span, is_test: bool) {
        let typed = |input: &&syn::FnArg| matches!(input, syn::FnArg::Typed(_));
        self.all.push(Function {
            name: signature.ident.to_string(),
            line: signature.span().start().line,
            lines: whole.end().line - signature.span().start().line + 1,
            parameters: signature.inputs.iter().filter(typed).count(),
            most_parameters: if signature.abi.is_some() { C_PARAMETERS } else { PARAMETERS },
            is_test: is_test || self.within_test,
        });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let outside = self.within_test;
        self.within_test |= is_test(&item.attrs);
        visit::visit_item_mod(self, item);
        self.within_test = outside;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, item.span(), is_test(&item.attrs));
        visit::visit_item_fn(self, item);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        self.all.extend(header::entry_points(item).into_iter().map(|entry| Function {
            name: entry.name.to_string(),
            line: entry.name.span().start().line,
            lines: entry.end.end().line - entry.name.span().start().line + 1,
            parameters: entry.parameters.len(),
            most_parameters: C_PARAMETERS,
            is_test: self.within_test,
        }));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, item.span(), is_test(&item.attrs));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.add(&item.sig, item.span(), false);
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_without_self() {
        let text = "impl S { fn f(&self, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {} }
            fn g(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) {}";
        let found = parameters(&Tree::of_texts(&[("a.rs", text)]));
        assert_eq!(found, [Finding::new("a.rs", 2, "g has 7 parameters")]);
    }

    #[test]
    fn a_function_is_measured_from_its_name_to_its_end() {
        let text = format!("/// Says.\nfn f() {{\n{}}}\n", "    g();\n".repeat(69));
        let found = functions(&Tree::of_texts(&[("a.rs", &text)]));
        assert_eq!(found, [Finding::new("a.rs", 2, "f has 71 lines")]);
    }

    #[test]
    fn the_functions_of_cpp_are_measured() {
        let text = format!(
            "int f(int a, int b, int c, int d, int e, int f, int g)\n{{\n}}\n\
             class A\n{{\n  void g()\n  {{\n{}  }}\n  int i(int) override;\n}};\n\
             int A::i(int a, int b, int c, int d, int e, int f, int g)\n{{\n}}\n",
            "    h();\n".repeat(68)
        );
        let tree = Tree::of_texts(&[("a.cc", &text)]);
        assert_eq!(parameters(&tree), [Finding::new("a.cc", 1, "f has 7 parameters")]);
        assert_eq!(functions(&tree), [Finding::new("a.cc", 6, "g has 71 lines")]);
    }

    #[test]
    fn an_entry_point_is_a_function_with_the_limit_of_the_c_interface() {
        let text = format!(
            "entry_points! {{\n/// Eight.\nfn hf_a({}) {{ Ok(()) }}\n/// Nine.\nfn hf_b({}) {{\n{}}}\n}}\n\
             pub extern \"C\" fn hf_c({}) {{}}\n",
            "a: u8, ".repeat(8),
            "a: u8, ".repeat(9),
            "f();\n".repeat(69),
            "a: u8, ".repeat(8),
        );
        let tree = Tree::of_texts(&[("engine/capi/src/a.rs", &text)]);
        assert_eq!(parameters(&tree), [Finding::new("engine/capi/src/a.rs", 5, "hf_b has 9 parameters")]);
        assert_eq!(functions(&tree), [Finding::new("engine/capi/src/a.rs", 5, "hf_b has 71 lines")]);
    }

    #[test]
    fn a_comment_ends_at_column_100_in_every_language() {
        let wide = "word ".repeat(20);
        let texts = [
            ("a.rs", format!("/// {wide}\nfn f() {{}}\n")),
            ("b.cc", format!("/* Short,\n   {wide} */\nint a; /* {wide} */\n")),
            ("c.test", format!("# {wide}\n--echo # {wide}\nSELECT '{wide}{wide}';\n")),
            ("d.sql", format!("-- {wide}\n")),
            ("e.lua", format!("-- {wide}\n")),
            ("f.sh", format!("# {wide}\n")),
        ];
        let texts: Vec<_> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let found: Vec<_> = comments(&Tree::of_texts(&texts)).into_iter().map(|f| (f.file, f.line)).collect();
        let wanted = [("a.rs", 1), ("b.cc", 2), ("c.test", 1), ("c.test", 2), ("d.sql", 1), ("e.lua", 1), ("f.sh", 1)];
        assert_eq!(found, wanted.map(|(file, line)| (file.to_owned(), line)));
    }

    #[test]
    fn a_table_a_picture_and_a_block_of_code_may_be_wide() {
        let wide = "word ".repeat(30);
        let text = format!("| {wide} |\n```\n{wide}\n```\n![{wide}](a.png)\n{wide}\n");
        let found = prose(&Tree::of_texts(&[("a.md", &text)]));
        assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn the_page_of_performance_has_150_lines() {
        let (full, over) = ("figure\n".repeat(150), "figure\n".repeat(151));
        let (path, _) = PAGES[0];
        assert!(prose(&Tree::of_texts(&[(path, &full), ("b.md", &over)])).is_empty());
        assert_eq!(prose(&Tree::of_texts(&[(path, &over)])), [Finding::new(path, 0, "151 lines")]);
    }
}
