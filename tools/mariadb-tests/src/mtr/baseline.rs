//! The suite storage_engine, whose expected results are out of date: what InnoDB gives today is
//! recorded first and expected of this engine.
//!
//! What is known to be different stands in `mariadb/mtr/storage_engine`, as the difference to
//! InnoDB's result of that test; why, stands in `mariadb/mtr/differences`. So a test passes if
//! exactly the known lines differ.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

use super::runner::{Outcome, Results, Run};
use holdfast_server::Cache;
use holdfast_server::run::root;

/// The suite and its parts, which lie in folders of it.
pub const SUITE: &str = "storage_engine";
pub const PARTS: [&str; 3] = [SUITE, "storage_engine/trx", "storage_engine/parts"];

/// Where the known differences are.
fn known() -> PathBuf {
    root().join("mariadb/mtr")
}

/// Records what InnoDB gives, in place of the results that came with the suite.
pub fn record(cache: &Cache, farm: &Path) -> anyhow::Result<()> {
    let mut tests = Vec::new();
    for part in PARTS {
        let folder = farm.join("mysql-test/suite").join(part);
        let _ = fs::remove_file(folder.join("combinations"));
        for file in files(&folder)? {
            match file.extension().and_then(OsStr::to_str) {
                Some("result" | "rdiff" | "result~" | "reject") => fs::remove_file(&file)?,
                Some("test") => tests.push(format!("{part}.{}", stem(&file))),
                _ => {}
            }
        }
    }
    println!("recording what InnoDB gives");
    let results = Run::of_suites(farm, &PARTS.map(String::from), &tests, Some("InnoDB"), true).start(cache)?;
    let recorded = results.values().filter(|o| **o == Outcome::Pass).count();
    ensure!(recorded > 0, "nothing was recorded");
    println!("{recorded} results recorded");
    Ok(())
}

/// Puts the known differences beside the results; each needs a reason.
pub fn expect_differences(farm: &Path, reasons: &BTreeMap<String, String>) -> anyhow::Result<()> {
    for part in PARTS {
        for file in files(&known().join(part))? {
            if file.extension().is_some_and(|e| e == "rdiff") {
                let test = format!("{part}.{}", stem(&file));
                ensure!(reasons.contains_key(&test), "{} is there without a reason for it", file.display());
                let to = farm.join("mysql-test/suite").join(part).join(format!("{},holdfast.rdiff", stem(&file)));
                fs::copy(&file, to)?;
            }
        }
    }
    Ok(())
}

/// True if the test passes because its differences are known.
pub fn is_known(test: &str) -> bool {
    test.split_once('.').is_some_and(|(part, name)| known().join(part).join(name).with_extension("rdiff").exists())
}

/// Writes down how the results of failed tests differ from InnoDB's.
pub fn show_differences(cache: &Cache, farm: &Path, results: &Results) -> anyhow::Result<()> {
    for (test, _) in results.iter().filter(|(_, outcome)| **outcome == Outcome::Fail) {
        let Some((part, name)) = test.split_once('.') else { continue };
        let folder = farm.join("mysql-test/suite").join(part);
        let (expected, got) = (folder.join(format!("{name}.result")), folder.join(format!("{name}.reject")));
        if !expected.exists() || !got.exists() {
            continue;
        }
        let to = cache.path("mtr-differences").join(part);
        fs::create_dir_all(&to)?;
        let mut diff = Command::new("diff");
        diff.args(["-u", "--label", "InnoDB", "--label", "Holdfast"]).arg(expected).arg(got);
        let to = to.join(format!("{name}.rdiff"));
        fs::write(&to, diff.output()?.stdout)?;
        println!("differs {test}: {}", to.display());
    }
    Ok(())
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    found.retain(|p| !p.is_dir());
    found.sort();
    Ok(found)
}
