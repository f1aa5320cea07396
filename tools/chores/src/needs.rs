//! What suites need from the system. What one cannot be run without is asked for when a run begins,
//! not hours later.

use std::collections::BTreeSet;
use std::process::Command;

use crate::packages::{self, Need};
use crate::run::works;
use crate::{bench, fuzz};

/// The compiler of the handler, which is C++.
const COMPILER: Need = Need {
    package: "g++",
    reason: "the engine's part of the server is compiled with it",
    is_there: || works(Command::new("g++").arg("--version")),
};

/// The browser that looks at the lab's reports.
pub const CHROMIUM: Need = Need {
    package: "chromium",
    reason: "the lab's report is looked at in a browser",
    is_there: || works(Command::new("chromium").arg("--version")),
};

/// What downloads servers of the past.
pub const DOWNLOADER: [Need; 2] = [
    Need {
        package: "default-jre-headless",
        reason: "Maven runs on it",
        is_there: || works(Command::new("java").arg("-version")),
    },
    Need {
        package: "maven",
        reason: "it downloads the servers of the past",
        is_there: || works(Command::new("mvn").arg("--version")),
    },
];

/// The suites that compile the handler, on a machine that has packages of the server at all.
const WITH_SERVER: [&str; 8] =
    ["mariadb", "sanitizers-c", "random-sql", "rewritten", "guide", "lab-server", "lab-historic", "lab-released"];

/// What other suites fail without. What a suite is skipped without is not here.
const OTHERS: [(&str, &[Need]); 4] =
    [("lab-server", &[CHROMIUM]), ("fuzz", &fuzz::NEEDS), ("fuzz-long", &fuzz::NEEDS), ("compare", &bench::NEEDS)];

/// The suites that need something.
pub fn suites() -> impl Iterator<Item = &'static str> {
    WITH_SERVER.into_iter().chain(OTHERS.iter().map(|(suite, _)| *suite))
}

/// Installs what these suites lack, if this process may; else names all of it.
///
/// # Errors
/// If something is missing and is not installed.
pub fn provide<'a>(suites: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let has_packages = works(Command::new("apt-get").arg("--version"));
    packages::provide(&needs(suites, has_packages))
}

/// What these suites need, each package once.
fn needs<'a>(suites: impl Iterator<Item = &'a str>, has_packages: bool) -> Vec<Need> {
    let of_suite = |suite: &'a str| {
        let compiler = (has_packages && WITH_SERVER.contains(&suite)).then_some(COMPILER);
        let others = OTHERS.iter().filter(move |(name, _)| *name == suite);
        compiler.into_iter().chain(others.flat_map(|(_, needs)| needs.iter().copied()))
    };
    let mut named = BTreeSet::new();
    suites.flat_map(of_suite).filter(|need| named.insert(need.package)).collect()
}

#[cfg(test)]
mod tests {
    use super::needs;

    fn packages(suites: &[&str], has_packages: bool) -> Vec<&'static str> {
        needs(suites.iter().copied(), has_packages).iter().map(|need| need.package).collect()
    }

    #[test]
    fn a_long_run_asks_for_all_of_it_when_it_begins() {
        let suites = ["format", "mariadb", "fuzz", "lab-server", "lab-released", "compare"];
        let all = ["g++", "chromium", "libclang-dev", "librocksdb-dev", "fio"];
        assert_eq!(packages(&suites, true), all);
        assert_eq!(packages(&["compare"], true), all[2..]);
        assert_eq!(packages(&["tests", "browser"], true), [""; 0]);
    }

    #[test]
    fn where_the_server_cannot_be_had_its_compiler_is_not_asked_for() {
        assert_eq!(packages(&["mariadb", "lab-server"], false), ["chromium"]);
        assert_eq!(packages(&["fuzz-long"], false), ["g++"]);
    }
}
