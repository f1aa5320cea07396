//! The files of the project: what git lists, with their texts and, of Rust, their syntax.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// The folder of the crates that an engine is built of.
pub const ENGINE: &str = "engine/";

/// The folder of the instruments: what measures, tests and drives the engine.
const TOOLS: &str = "tools/";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rust,
    Cpp,
    Markdown,
    Other,
}

/// A file.
pub struct Source {
    /// From the root of the project, with `/`.
    pub path: String,
    pub kind: Kind,
    pub text: String,
    /// Of Rust.
    pub syntax: Option<syn::File>,
}

impl Source {
    /// A file with this text.
    ///
    /// # Errors
    /// If it is Rust and cannot be parsed.
    pub fn new(path: &str, text: String) -> anyhow::Result<Source> {
        let kind = match path.rsplit_once('.').map(|(_, end)| end) {
            Some("rs") => Kind::Rust,
            Some("cc" | "h" | "c") => Kind::Cpp,
            Some("md") => Kind::Markdown,
            _ => Kind::Other,
        };
        let parse = || syn::parse_file(&text).with_context(|| format!("{path} cannot be parsed"));
        let syntax = (kind == Kind::Rust).then(parse).transpose()?;
        Ok(Source { path: path.to_owned(), kind, text, syntax })
    }

    /// The crate that the file is in.
    pub fn krate(&self) -> Option<&str> {
        let rest = self.path.strip_prefix(ENGINE).or_else(|| self.path.strip_prefix(TOOLS))?;
        rest.split_once('/').map(|(name, _)| name)
    }

    /// The lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(n, line)| (n + 1, line))
    }
}

/// All files.
pub struct Tree {
    pub files: Vec<Source>,
    root: PathBuf,
}

impl Tree {
    /// Reads the project that the current folder is in.
    ///
    /// # Errors
    /// If git cannot be asked, or a file cannot be read or parsed.
    pub fn read() -> anyhow::Result<Tree> {
        let root = PathBuf::from(git(Path::new("."), &["rev-parse", "--show-toplevel"])?.trim_end());
        let listed = git(&root, &["ls-files", "--cached", "--others", "--exclude-standard"])?;
        let mut files = Vec::new();
        for path in listed.lines() {
            // git lists a file that was removed until the removal is committed; a file that is not
            // text is skipped.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                files.push(Source::new(path, text)?);
            }
        }
        Ok(Tree { files, root })
    }

    /// True if a file or folder is at this path below the root.
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Where a file of the project is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The text of a file; empty if there is none.
    pub fn text(&self, path: &str) -> &str {
        self.files.iter().find(|file| file.path == path).map_or("", |file| &file.text)
    }

    /// The files of a kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(move |file| file.kind == kind)
    }

    /// The files of Rust with their syntax.
    pub fn rust(&self) -> impl Iterator<Item = (&Source, &syn::File)> {
        self.files.iter().filter_map(|file| file.syntax.as_ref().map(|syntax| (file, syntax)))
    }

    #[cfg(test)]
    pub fn of_texts(texts: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| Source::new(path, text.to_owned()).expect("valid Rust");
        Tree { files: texts.iter().map(file).collect(), root: PathBuf::from("/nowhere") }
    }
}

fn git(at: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").arg("-C").arg(at).args(args).output().context("git cannot be started")?;
    anyhow::ensure!(
        output.status.success(),
        "git {} fails: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("git lists a name that is not text")
}

/// True if an item is for tests only.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || (path.is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test"))
    })
}
