//! The C header is what the C interface says.
//!
//! `holdfast.h` is made of the source of `engine/capi`: its documentation, its types
//! (`repr(C)`, or handles), its callbacks and its functions, in the order of [`MODULES`]. The check
//! makes it and compares; `cargo xtask tidy --header` writes it.
//!
//! Names: a type `BackupReport` is `hf_backup_report` in C, a variant `Lock::Shared` is
//! `HF_LOCK_SHARED`, and one of `Code` is `HF_` and its name.

mod c;
mod interface;

use anyhow::Context;

pub use interface::entry_points;

use crate::check::Finding;
use crate::source::Tree;

/// The header's path.
pub const HEADER: &str = "engine/capi/include/holdfast.h";
const SOURCES: &str = "engine/capi/src/";

/// The modules in the order of the header: a type comes before its users.
const MODULES: [&str; 11] =
    ["error", "handle", "database", "table", "transaction", "row", "cursor", "load", "alter", "listing", "session"];

/// The first line of the header that is not what the interface says.
pub fn header(tree: &Tree) -> Vec<Finding> {
    let made = match make(tree) {
        Ok(made) => made,
        Err(error) => return vec![Finding::new(SOURCES, 0, format!("{error:#}"))],
    };
    let there = tree.text(HEADER);
    if made == there {
        return Vec::new();
    }
    let same = made.lines().zip(there.lines()).take_while(|(made, there)| made == there).count();
    let line = made.lines().nth(same).unwrap_or("");
    let what = format!("the interface says `{line}`: run `cargo xtask tidy --header`");
    vec![Finding::new(HEADER, same + 1, what)]
}

/// Writes the header.
///
/// # Errors
/// If the interface has something that cannot be said in C; the errors of writing a file.
pub fn write(tree: &Tree) -> anyhow::Result<()> {
    std::fs::write(tree.path(HEADER), make(tree)?).with_context(|| format!("{HEADER} cannot be written"))
}

fn make(tree: &Tree) -> anyhow::Result<String> {
    let sources = tree.rust().filter_map(|(file, syntax)| {
        let name = file.path.strip_prefix(SOURCES)?.strip_suffix(".rs")?;
        Some((name, syntax))
    });
    let (mut root, mut modules) = (None, Vec::new());
    for (name, syntax) in sources {
        let module = interface::Module::read(syntax).with_context(|| format!("{SOURCES}{name}.rs"))?;
        match MODULES.iter().position(|known| *known == name) {
            Some(at) => modules.push((at, module)),
            None if name == "lib" => root = Some(module),
            None => anyhow::bail!("module `{name}` has no place in the header"),
        }
    }
    modules.sort_by_key(|(at, _)| *at);
    let modules: Vec<_> = modules.into_iter().map(|(_, module)| module).collect();
    c::header(&root.context("there is no lib.rs")?, &modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "//! The interface.\n\n/// The version.\npub const API_VERSION: u32 = 3;\n";
    const ERROR: &str = "//! Errors.\n\n/// What a call came to.\n#[repr(C)] pub enum Code {\n/// Done.\nOk = 0 }\n";
    const DATABASE: &str = "//! Databases.\n\n/// An open database.\npub struct Database(u8);
        /// Settings.\n#[repr(C)] pub struct Settings {\n/// Bytes.\npub size: u64,
        /// Told.\npub told: Option<extern \"C\" fn(done: u64)> }
        entry_points! {\n/// Opens; [`Code::Ok`].\nfn hf_open(settings: *const Settings, out: *mut *mut Database) { Ok(()) } }";

    fn tree(header: &str) -> Tree {
        let file = |name: &str| format!("{SOURCES}{name}.rs");
        let (lib, error, database) = (file("lib"), file("error"), file("database"));
        Tree::of_texts(&[(HEADER, header), (&lib, LIB), (&error, ERROR), (&database, DATABASE)])
    }

    #[test]
    fn types_callbacks_and_functions_are_said_in_c() {
        let made = make(&tree("")).unwrap();
        for part in [
            "#define HF_API_VERSION 3",
            "typedef struct hf_database hf_database;",
            "typedef enum {\n  /* Done. */\n  HF_OK= 0\n} hf_code;",
            "  void (*told)(uint64_t done);\n} hf_settings;",
            "/* Opens; HF_OK. */\nhf_code hf_open(const hf_settings *settings, hf_database **out);",
        ] {
            assert!(made.contains(part), "{part}\nis not in\n{made}");
        }
    }

    #[test]
    fn each_difference_is_found() {
        let made = make(&tree("")).unwrap();
        assert_eq!(header(&tree(&made)), []);
        for (there, instead) in [
            ("HF_OK= 0", "HF_OK= 1"),
            ("uint64_t size", "uint32_t size"),
            ("uint64_t done", "uint64_t all"),
            ("hf_database **out", "hf_database *out"),
            ("Opens;", "Closes;"),
        ] {
            assert_eq!(header(&tree(&made.replacen(there, instead, 1))).len(), 1, "{instead}");
        }
    }
}
