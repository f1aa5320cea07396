//! Starting commands, with what is run printed first.

use std::process::Command;

pub use holdfast_server::run::{ROOT, cargo, check, root, works};

/// `cargo` of the nightly toolchain.
pub fn cargo_nightly(args: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(args.split_whitespace());
    // Set by the cargo that runs us; they would send the inner one back to its toolchain.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}
