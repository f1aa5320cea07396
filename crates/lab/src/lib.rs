//! The lab: runs the experiments, shows them live, judges them, and writes a report.
//!
//! | module | what |
//! |---|---|
//! | [`cli`] | the arguments of `holdfast lab` |
//! | [`experiments`] | one file (or folder) per experiment |
//! | [`target`] | what they run against: the embedded engine |
//! | [`server`] | the same on real servers, with real clients |
//! | [`worker`], [`mod@bench`], [`clock`], [`pin`] | OLTP sessions and dump, sampled |
//! | [`rig`] | the same for the experiments that drive the embedded engine directly |
//! | [`measure`], [`document`], [`figures`] | medians, verdicts, document, tables and charts |
//! | [`report`] | the document as a self-contained HTML page |
//! | [`progress`], [`machine`] | the live line; provenance |

#![forbid(unsafe_code)]

pub mod bench;
pub mod cli;
pub mod clock;
pub mod document;
pub mod experiments;
pub mod figures;
pub mod machine;
pub mod measure;
pub mod pin;
pub mod progress;
pub mod report;
pub mod rig;
pub mod server;
pub mod target;
pub mod text;
pub mod worker;
