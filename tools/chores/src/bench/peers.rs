//! The workspace of the peers, and what RocksDB needs.

use std::path::Path;
use std::process::Command;

use crate::packages::{self, Need};
use crate::run::cargo;

/// What generates bindings.
pub const BINDGEN: Need = Need {
    package: "libclang-dev",
    reason: "RocksDB's bindings are generated with it",
    is_there: packages::has_libclang,
};

/// The library.
pub const ROCKSDB: Need = Need {
    package: "librocksdb-dev",
    reason: "RocksDB itself",
    is_there: || Path::new(&rocksdb().0).join("rocksdb/c.h").exists(),
};

/// `cargo` in the workspace of the peers.
pub fn peers(command: &str, rest: &str) -> Command {
    let (include, lib) = rocksdb();
    let mut cargo = cargo(&format!("{command} --manifest-path tools/bench-compare/Cargo.toml {rest}"));
    cargo.env(ROCKSDB_INCLUDE, include).env(ROCKSDB_LIB, lib);
    cargo
}

const ROCKSDB_INCLUDE: &str = "ROCKSDB_INCLUDE_DIR";
const ROCKSDB_LIB: &str = "ROCKSDB_LIB_DIR";

/// Where RocksDB's headers and library lie: where these variables say, or where Debian puts them.
fn rocksdb() -> (String, String) {
    let set = |name: &str| std::env::var(name).ok();
    let lib = || format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    (set(ROCKSDB_INCLUDE).unwrap_or_else(|| "/usr/include".into()), set(ROCKSDB_LIB).unwrap_or_else(lib))
}
