//! Checks of the source itself, which a compiler does not make: `cargo xtask tidy`.
//!
//! A check reads the files that git lists and returns findings ([`check`]). The file `tidy.allowed`
//! at the root of the project has, for each check, the number of findings that it may still have
//! ([`allowed`]). A run fails if there are more, and also if there are fewer, so that the number
//! only falls.
//!
//! The module [`source`] is the only one that reads files; a check is a function of
//! [`source::Tree`].

#![forbid(unsafe_code)]

mod allowed;
mod check;
mod circles;
mod comments;
mod cpp;
mod documents;
mod floors;
mod header;
mod lengths;
mod modules;
mod names;
mod repeats;
mod source;
mod words;

use clap::Parser;

use crate::check::Check;
use crate::source::Tree;

const CHECKS: &[Check] = &[
    Check { name: "files", rule: "a file of code has at most 600 lines", look: lengths::files },
    Check { name: "functions", rule: "a function has at most 70 lines", look: lengths::functions },
    Check {
        name: "parameters",
        rule: "a function has at most 6 parameters, 8 if it is of the C interface (it is an ABI); overrides are left out",
        look: lengths::parameters,
    },
    Check { name: "comments", rule: "a line of comment ends at column 100", look: lengths::comments },
    Check {
        name: "prose",
        rule: "a line of a document ends at column 110, and the page of performance at line 150",
        look: lengths::prose,
    },
    Check { name: "words", rule: "the subject of a sentence is the thing that acts", look: words::words },
    Check { name: "circles", rule: "no file imports itself through others of its crate", look: circles::circles },
    Check { name: "repeats", rule: "no two places have 15 lines of code in common", look: repeats::repeats },
    Check { name: "names", rule: "a public name of the engine means one thing", look: names::names },
    Check { name: "paths", rule: "a path in a document exists", look: documents::paths },
    Check { name: "commands", rule: "a command in a document exists", look: documents::commands },
    Check { name: "modules", rule: "a file beside the `main.rs` of tests is a module of it", look: modules::modules },
    Check {
        name: "floors",
        rule: "ARCHITECTURE.md lists the crates, and a crate uses lower floors only",
        look: floors::floors,
    },
    Check { name: "header", rule: "holdfast.h is what the C interface says", look: header::header },
];

/// Checks of the source itself
#[derive(Parser)]
struct Cli {
    /// Write what is found now into `tidy.allowed`; refused for a check that finds more than it may
    #[arg(long)]
    lower: bool,
    /// Write `holdfast.h` as the C interface says, and check nothing
    #[arg(long)]
    header: bool,
    /// Only these checks, with everything that they find
    only: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let known = |name: &String| CHECKS.iter().any(|check| check.name == name);
    if let Some(unknown) = cli.only.iter().find(|name| !known(name)) {
        let names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
        anyhow::bail!("there is no check `{unknown}`; there are: {}", names.join(", "));
    }
    let tree = Tree::read()?;
    if cli.header {
        return header::write(&tree);
    }
    let mut found = Vec::new();
    for check in CHECKS.iter().filter(|check| cli.only.is_empty() || cli.only.iter().any(|name| name == check.name)) {
        let mut findings = (check.look)(&tree);
        findings.sort();
        found.push((check, findings));
    }
    allowed::judge(&found, !cli.only.is_empty(), cli.lower)
}
