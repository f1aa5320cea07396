//! The lab: runs the experiments, shows them live, judges them, and writes a report.
//!
//! | module | what |
//! |---|---|
//! | [`registry`] | the one list of the experiments |
//! | [`cli`], `args` | the command line of `holdfast lab`, and the arguments of the experiments |
//! | [`experiments`] | one file (or folder) per experiment, with its sizes; the driver of turns |
//! | [`target`] | what they run against: the embedded engine |
//! | [`server`] | the same on real servers, with real clients |
//! | `worker`, `bench`, [`clock`], [`pin`] | OLTP sessions and dump, sampled |
//! | `subject` | what is measured in turns: the embedded engine, servers |
//! | [`rig`] | the same for the experiments that drive the embedded engine directly |
//! | [`turns`] | subjects that are compared run in turns, until every claim is decided |
//! | `stats`, [`claims`], [`conditions`] | intervals, three answers, what others did |
//! | `measure`, [`document`], `figures` | medians, document, tables and charts |
//! | [`report`] | the document as a self-contained HTML page |
//! | [`progress`], `forecast`, `picture` | the live line, the time that is left, the live picture |
//! | [`machine`] | provenance |

#![forbid(unsafe_code)]

pub mod answers;
mod args;
mod baseline;
mod bench;
pub mod claims;
pub mod cli;
pub mod clock;
pub mod conditions;
pub mod document;
pub mod experiments;
mod figures;
mod forecast;
pub mod machine;
pub mod measure;
mod picture;
pub mod pin;
pub mod progress;
pub mod registry;
pub mod report;
pub mod rig;
pub mod server;
mod stats;
mod subject;
pub mod target;
pub mod text;
pub mod turns;
mod worker;
