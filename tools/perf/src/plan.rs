//! What is measured, by which command.

use std::path::Path;

use holdfast_server::Release;

/// The form of a command's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A document of the lab: claims with intervals.
    Lab,
    /// A document of `sessions` on a server: the rates of both engines by the number of clients.
    Sessions,
    /// Pairs of slices of sysbench.
    Sysbench,
    /// Pairs of loads.
    Load,
    /// Slices of each engine.
    Compare,
    /// A document of `growth`: sizes and steps.
    Growth,
    /// A document of `sideload` on one server: rows of the table of servers, and no table of its
    /// own.
    Server,
}

/// A command that measures something.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// As the page's markers and the command line call it.
    pub name: &'static str,
    /// As a reader types it.
    pub command: &'static str,
    /// What a quick run adds to it.
    quick: &'static str,
    /// How long it takes on two cores, about.
    pub minutes: u32,
    pub form: Form,
}

/// The measurements, in the order of the page.
pub const MEASUREMENTS: [Measurement; 14] = [
    lab("sideload", "holdfast lab sideload --target mariadb", 30),
    server("mariadb118", "holdfast lab sideload --target mariadb118"),
    server("mariadb114", "holdfast lab sideload --target mariadb114"),
    server("mysql97", "holdfast lab sideload --target mysql97"),
    server("mysql80", "holdfast lab sideload --target mysql80"),
    Measurement {
        name: "sysbench",
        command: "cargo xtask mariadb bench --pairs 13 --seconds 1",
        quick: "--pairs 2 --tables 1x1000 oltp_point_select oltp_insert",
        minutes: 12,
        form: Form::Sysbench,
    },
    Measurement {
        name: "load",
        command: "cargo xtask mariadb load --mib 1024 --pool 256M",
        quick: "--mib 16 --pairs 2",
        minutes: 8,
        form: Form::Load,
    },
    lab("overflow", "holdfast lab overflow --target mariadb", 23),
    lab("iobound", "holdfast lab iobound --target mariadb", 15),
    Measurement { form: Form::Sessions, ..lab("sessions", "holdfast lab sessions --target mariadb", 25) },
    lab("purge", "holdfast lab purge --target mariadb", 8),
    Measurement {
        name: "growth",
        command: "holdfast lab growth --mib 1024,10240",
        quick: "--mib 32,128",
        minutes: 15,
        form: Form::Growth,
    },
    Measurement {
        name: "growth-mariadb",
        command: "holdfast lab growth --target mariadb --mib 1024,4096",
        quick: "--mib 32,128",
        minutes: 15,
        form: Form::Growth,
    },
    Measurement {
        name: "compare",
        command: "cargo xtask bench compare --memory-mib 256 --rows 400000 --repeats 5 --slice-ms 400",
        quick: "--smoke",
        minutes: 12,
        form: Form::Compare,
    },
];

const fn lab(name: &'static str, command: &'static str, minutes: u32) -> Measurement {
    Measurement { name, command, quick: "--quick", minutes, form: Form::Lab }
}

const fn server(name: &'static str, command: &'static str) -> Measurement {
    Measurement { name, command, quick: "--quick", minutes: 4, form: Form::Server }
}

impl Measurement {
    /// The server on which `sideload` is measured: as the command line names it, and its name.
    pub fn sideload_server(&self) -> Option<(&'static str, &'static str)> {
        let (_, target) = self.command.split_once("lab sideload --target ")?;
        Some((target, Release::of_target(target).map_or("MariaDB 10.11", Release::name)))
    }

    /// What Cargo is started with, so that the command writes its JSON to `file`.
    pub fn arguments(&self, quick: bool, file: &Path) -> Vec<String> {
        let command = self.command.replacen("holdfast lab", "run --quiet --release --package holdfast-cli -- lab", 1);
        let command = command.trim_start_matches("cargo ");
        let added = if quick { self.quick } else { "" };
        // Values of an option that is given twice: the last one counts.
        let words = command.split(' ').chain(added.split(' ')).filter(|word| !word.is_empty());
        // A run has one of the two.
        let words = words.filter(|word| !(quick && *word == "--full"));
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        if matches!(self.form, Form::Lab | Form::Sessions | Form::Server | Form::Growth) {
            words.push("--no-report".into());
        }
        words.push(format!("--json={}", file.display()));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_become_those_of_cargo() {
        let named = |name: &str| MEASUREMENTS.iter().find(|one| one.name == name).unwrap();
        let sideload = named("sideload").arguments(true, Path::new("/x/y.json")).join(" ");
        assert!(sideload.starts_with("run --quiet --release --package holdfast-cli -- lab sideload"), "{sideload}");
        assert!(sideload.ends_with("--quick --no-report --json=/x/y.json"), "{sideload}");
        let growth = named("growth").arguments(true, Path::new("f")).join(" ");
        assert!(growth.ends_with("lab growth --mib 1024,10240 --mib 32,128 --no-report --json=f"), "{growth}");
        let sysbench = named("sysbench").arguments(false, Path::new("f")).join(" ");
        assert_eq!(sysbench, "xtask mariadb bench --pairs 13 --seconds 1 --json=f");
    }
}
