//! What the project's chores are made of. The program `xtask` has the list of the suites and the
//! command line; the tests inside MariaDB are a crate of their own (`holdfast-mariadb-tests`).
//!
//! A chore starts other programs, mostly Cargo, and prints what it starts. What a machine lacks is
//! fetched by name ([`packages`]); where that fails, the chore says so.

#![forbid(unsafe_code)]

pub mod bare;
pub mod bench;
pub mod fuzz;
pub mod guide;
pub mod lints;
pub mod needs;
pub mod packages;
pub mod release;
pub mod run;
pub mod sanitizers;
pub mod simulation;
pub mod verdicts;
