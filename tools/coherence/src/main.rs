//! `holdfast-coherence`: which lines of memory threads share, measured in a trace, and how many
//! operations a second the lines allow on machines that are not at hand, by a model.

#![forbid(unsafe_code)]

mod lines;
mod model;
mod sharing;
mod sites;
mod trace;

use clap::Parser;

#[derive(Parser)]
#[command(about = "Which lines of memory threads share, and how far that scales")]
enum Chore {
    /// Trace a program whose threads do operations in turns, and print the lines that move
    Lines(lines::Options),
    /// Say how throughput grows with cores, from what `lines` found and how far cores are apart
    Model(model::Options),
}

fn main() -> anyhow::Result<()> {
    match Chore::parse() {
        Chore::Lines(options) => lines::run(&options),
        Chore::Model(options) => model::run(&options),
    }
}
