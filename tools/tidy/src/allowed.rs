//! The findings that checks may still have, `tidy.allowed`: a line `check number` for each check
//! that is not clean yet.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use crate::check::{Check, Finding};

const FILE: &str = "tidy.allowed";

/// Findings that are printed of a check that fails; more are counted.
const SHOWN: usize = 40;

/// Prints the findings, and fails if their numbers are not the allowed ones. With `all` prints
/// every finding. With `lower` writes the numbers that fell.
///
/// # Errors
/// If a check finds more or fewer than it may, or the file cannot be read or written.
pub fn judge(found: &[(&Check, Vec<Finding>)], all: bool, lower: bool) -> anyhow::Result<()> {
    let mut allowed = parse(&std::fs::read_to_string(FILE).unwrap_or_default())?;
    let mut wrong = Vec::new();
    for (check, findings) in found {
        let may = allowed.get(check.name).copied().unwrap_or(0);
        let count = findings.len();
        println!("{:<11} {count:>5} of {may:>5}  {}", check.name, check.rule);
        if all || count > may {
            for finding in findings.iter().take(if all { usize::MAX } else { SHOWN }) {
                println!("  {finding}");
            }
        }
        if count > may {
            wrong.push(format!("{} finds {count}, {may} are allowed", check.name));
        } else if count < may && lower {
            allowed.insert(check.name.to_owned(), count);
        } else if count < may {
            wrong.push(format!(
                "{} finds {count}, fewer than the {may} allowed: run `cargo xtask tidy --lower`",
                check.name
            ));
        }
    }
    if lower {
        let lines = allowed.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name} {count}\n"));
        std::fs::write(FILE, lines.collect::<String>()).context("tidy.allowed cannot be written")?;
    }
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("; ")) }
}

fn parse(text: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let line = |line: &str| {
        let (name, count) = line.split_once(' ').with_context(|| format!("{FILE}: `{line}` is not `check number`"))?;
        let count = count.parse().with_context(|| format!("{FILE}: `{count}` is not a number"))?;
        Ok((name.to_owned(), count))
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_line_is_a_check_and_a_number() {
        assert_eq!(parse("words 7\n").unwrap().get("words"), Some(&7));
        assert!(parse("words").is_err());
        assert!(parse("words many").is_err());
    }
}
