//! Private MariaDB servers with the engine in them, for the chores and for the lab: the server's
//! packages by apt, the plugin compiled against them, servers started and stopped, sysbench and
//! fio.
//!
//! Everything lies under the ignored folder `.cache/mariadb`; nothing of the system is changed and
//! no root is needed:
//!
//! ```text
//! apt/    a private apt directory: the machine's own archives, with their sources switched on
//! deb/    packages and source as downloaded
//! root/   the unpacked packages: server, client, test suites, headers, sysbench, perhaps fio
//! src/    headers of the server's source
//! build/  objects, precompiled headers, and ha_holdfast.so of the profiles release and debug
//!         in sanitized/ the same with checks of every memory access
//! releases/  other servers as they were released: the published experiments', and today's
//! run/    the private server of `cargo xtask mariadb up`: data, socket, log
//! ...     those of the tests and of the lab, and the Debian package
//! ```

#![forbid(unsafe_code)]
// Standard output is for the results of the programs that use this.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod apt;
mod cache;
mod compile;
mod headers;
mod hold;
pub mod port;
pub mod process;
pub mod release;
pub mod run;
mod sanitizers;
pub mod server;
pub mod statistics;

use std::path::PathBuf;

pub use cache::Cache;
pub use compile::{Edit, Plant, Profile};
pub use release::{Release, ReleasedServer};
pub use server::Server;

/// Builds the plugin, and fetches what that needs. Returns its path.
///
/// # Errors
/// If packages are not available, or something does not compile.
pub fn build(cache: &Cache) -> anyhow::Result<PathBuf> {
    build_as(cache, Profile::Release)
}

/// As [`build`], with the engine built by `profile`.
///
/// # Errors
/// The errors of [`build`].
pub fn build_as(cache: &Cache, profile: Profile) -> anyhow::Result<PathBuf> {
    let version = apt::fetch(cache)?;
    headers::extract(cache, &version)?;
    compile::plugin(cache, &version, profile)
}

/// As [`build_as`], with a fault planted in the shim. The next build is without it.
///
/// # Errors
/// The errors of [`build_as`], and if the shim does not have what the fault replaces.
pub fn build_planted(cache: &Cache, profile: Profile, plant: Plant) -> anyhow::Result<()> {
    let version = apt::fetch(cache)?;
    headers::extract(cache, &version)?;
    compile::planted_plugin(cache, &version, profile, plant)
}
