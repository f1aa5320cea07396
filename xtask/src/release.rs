//! What a release needs beyond passing tests.

use anyhow::Context;

use crate::run::{cargo, check};

/// The file that says which version the file format has.
const META: &str = "crates/engine/src/meta.rs";

/// Writes the databases that later versions have to open. Those of a version of the format that
/// are there stay as they are: then this fails.
///
/// # Errors
/// If the databases cannot be written, or are there.
pub fn fixtures() -> anyhow::Result<()> {
    let test =
        "test --package holdfast-engine --test databases_of_releases_open -- --ignored --exact archives_are_written";
    check(cargo(test).env("HOLDFAST_FORMAT", format_version()?.to_string()))
}

/// The version of the file format that the source writes.
fn format_version() -> anyhow::Result<u32> {
    let source = std::fs::read_to_string(META).context(META)?;
    let number = source.lines().find_map(|line| line.strip_prefix("const FORMAT_VERSION: u32 = "));
    let number = number.with_context(|| format!("{META} has no FORMAT_VERSION"))?;
    Ok(number.trim_end_matches(';').parse()?)
}
