//! Runs the commands of README.md and of the guide, so that they stay true.
//!
//! A block of code whose language is `sh` is run, in the order of the pages, each as one script of
//! the shell that ends at the first failure. One that needs a server of the reader's, or takes
//! hours, begins with `sh no-run`.

use std::process::Command;

use anyhow::Context;

use crate::run::check;

/// Runs every block.
///
/// # Errors
/// If a page cannot be read, or a command fails.
pub fn run() -> anyhow::Result<()> {
    let mut pages = vec!["README.md".into()];
    for entry in std::fs::read_dir("docs/guide")? {
        pages.push(entry?.path());
    }
    pages.sort();
    for page in pages {
        let text = std::fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        for block in blocks(&text) {
            check(Command::new("sh").args(["-e", "-c", &block])).with_context(|| page.display().to_string())?;
        }
    }
    Ok(())
}

/// The blocks of a page that are run.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut language = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), language) {
            (Some(name), None) => {
                language = Some(name);
                if name == "sh" {
                    blocks.push(String::new());
                }
            }
            (Some(_), Some(_)) => language = None,
            (None, Some("sh")) => {
                if let Some(block) = blocks.last_mut() {
                    *block += line;
                    block.push('\n');
                }
            }
            (None, _) => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_of_the_shell_are_run() {
        let page = "a\n```sh\none\ntwo\n```\nb\n```sh no-run\nthree\n```\n```rust\nfour\n```\n```sh\nfive\n```\n";
        assert_eq!(blocks(page), ["one\ntwo\n", "five\n"]);
    }
}
