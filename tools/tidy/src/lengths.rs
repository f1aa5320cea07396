//! Lengths: of files, functions, lists of parameters, lines of comments and of documents.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::source::{Kind, Source, Tree, is_test};
use crate::{Finding, comments};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const PARAMETERS: usize = 6;
const COMMENT_COLUMNS: usize = 100;
const PROSE_COLUMNS: usize = 110;

/// Files of code that are too long; one that is made of others is not meant.
pub fn files(tree: &Tree) -> Vec<Finding> {
    let is_written = |file: &&Source| file.path != crate::header::HEADER;
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
    let mut found = of_rust(tree, too_long, |f| format!("{} has {} lines", f.name, f.lines));
    for file in tree.of(Kind::Cpp) {
        found.extend(
            cpp_functions(&file.text)
                .into_iter()
                .filter(|(_, lines)| *lines > FUNCTION_LINES)
                .map(|(line, lines)| Finding::new(&file.path, line, format!("a function of {lines} lines"))),
        );
    }
    found
}

/// Functions with too many parameters; `self` is not counted.
pub fn parameters(tree: &Tree) -> Vec<Finding> {
    let too_many = |function: &Function| !function.is_test && function.parameters > PARAMETERS;
    of_rust(tree, too_many, |f| format!("{} has {} parameters", f.name, f.parameters))
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

/// Lines of documents that are too long. Tables, blocks of code, pictures and lines that cannot be
/// broken are left out.
pub fn prose(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.of(Kind::Markdown) {
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

/// A function of Rust, as far as lengths go.
struct Function {
    name: String,
    line: usize,
    lines: usize,
    parameters: usize,
    is_test: bool,
}

fn of_rust(tree: &Tree, is: impl Fn(&Function) -> bool, say: impl Fn(&Function) -> String) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, syntax) in tree.rust() {
        let mut functions = Functions { all: Vec::new(), within_test: false };
        functions.visit_file(syntax);
        let chosen = functions.all.iter().filter(|function| is(function));
        found.extend(chosen.map(|function| Finding::new(&file.path, function.line, say(function))));
    }
    found
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

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, item.span(), is_test(&item.attrs));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.add(&item.sig, item.span(), false);
        visit::visit_trait_item_fn(self, item);
    }
}

/// The first line and the number of lines of each function that begins at the first column and ends
/// with a brace there.
fn cpp_functions(text: &str) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    let mut begin: Option<usize> = None;
    for (number, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line)) {
        if line.starts_with('}') {
            if let Some(first) = begin.take() {
                functions.push((first, number - first + 1));
            }
        } else if begins_function(line) {
            begin = Some(number);
        } else if line.ends_with(';') && !line.starts_with(' ') {
            begin = None;
        }
    }
    functions
}

fn begins_function(line: &str) -> bool {
    let is_code = line.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let other = ["namespace", "struct", "class", "enum", "using", "typedef", "extern \"C\" {"];
    is_code && line.contains('(') && !line.ends_with(';') && !other.iter().any(|word| line.starts_with(word))
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
    fn a_function_of_cpp_ends_with_a_brace_at_the_first_column() {
        let text = "int a;\nint f(int x)\n{\n  g();\n}\nstruct s {\n};\n";
        assert_eq!(cpp_functions(text), [(2, 4)]);
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
}
