//! The engine inside MariaDB: build, private servers, tests, the Debian package.
//!
//! Packages, compilation and servers are the business of the crate `holdfast-server`, which the lab
//! uses as well.

#![forbid(unsafe_code)]

mod backup;
mod bench;
mod cluster;
mod compare;
mod crash;
#[cfg(test)]
mod docs;
mod dump;
mod isolation;
mod load;
mod mtr;
mod package;
mod pairs;
mod replication;
mod smoke;
mod spider;

use clap::Subcommand;
use holdfast_server::{Cache, Profile, apt, build_as, server};

use holdfast_server::port::free_port;
use holdfast_server::run::{cargo, check};

/// The usual port of the private server.
const PORT: u16 = 13306;

/// Reads a number of minutes.
fn minutes(text: &str) -> Result<f64, String> {
    let most = 365.0 * 24.0 * 60.0;
    let minutes = text.parse().ok().filter(|minutes: &f64| *minutes > 0.0 && *minutes <= most);
    minutes.ok_or_else(|| format!("give a number above 0, at most {most}"))
}

/// What can be done with it, on the command line.
#[derive(Subcommand)]
pub enum What {
    /// Fetch the server's packages and source by apt, compile the shim, link `ha_holdfast.so`
    Build,
    /// Start a private server with the engine loaded, and say how to connect
    Up {
        /// Loopback port [default: 13306, or a free one if another program has that]
        #[arg(long)]
        port: Option<u16>,
        /// Start with empty data
        #[arg(long)]
        fresh: bool,
        /// Further options of the server
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Stop the private server
    Down,
    /// Connect to the private server
    Client {
        /// Passed on to the client
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run sysbench on the private server, e.g. `oltp_read_only --table-size=100000 prepare`
    Sysbench {
        /// Passed on to sysbench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Make the Debian package, and try it: unpacked, a private server starts with it
    Package,
    /// Back up a server under load, restore the copy into another one, and compare
    Backup,
    /// Random SQL on this engine and on InnoDB, every answer compared
    Compare(compare::Options),
    /// Random transactions at each isolation level on Holdfast, and a judge of what they saw
    Isolation(isolation::Options),
    /// Kill a server under load, round after round, and check that nothing is lost
    Crash {
        /// How often
        #[arg(default_value_t = 20)]
        rounds: u32,
        /// With sysbench's oltp_read_write beside, and a replica that has to have the same after
        /// each kill
        #[arg(long)]
        sysbench: bool,
    },
    /// Holdfast beside InnoDB: sysbench in memory, in turns, in one server
    Bench(bench::Options),
    /// Holdfast beside InnoDB: `ALTER TABLE ... ENGINE` and the import of a dump, in turns, in one
    /// server
    Load(load::Options),
    /// Carry schemas to InnoDB and back by mariadb-dump, at rest and under writers, and compare
    Dump,
    /// A primary under load and a parallel replica, compared at the end
    Replication,
    /// What a node of a Galera cluster refuses, so that no other node lacks rows
    Cluster,
    /// Tables in two parts on two servers, behind the Spider engine, compared with the same tables
    /// in one piece
    Spider,
    /// Run the server's own test suites on this engine
    Mtr {
        /// Which; engines/iuds and engines/funcs if none is named
        suites: Vec<String>,
        /// Only these tests
        #[arg(long = "test")]
        tests: Vec<String>,
        /// The tests of InnoDB, with this engine in its place
        #[command(flatten)]
        rewritten: mtr::Rewritten,
    },
    /// Compile the shim with AddressSanitizer and UndefinedBehaviorSanitizer, and run the scripts
    /// of `mariadb/tests` and random SQL; a finding ends the server, and the run
    Sanitize {
        /// Only the scripts whose name contains one of these words, and nothing else
        only: Vec<String>,
    },
    /// Run the SQL scripts of `mariadb/tests` on a private server, on this engine and on InnoDB,
    /// and compare
    Smoke {
        /// Rewrite the `.result` files of scripts that are not compared with InnoDB
        #[arg(long)]
        record: bool,
        /// Only the scripts whose name contains one of these words
        only: Vec<String>,
    },
}

impl What {
    /// True if the engine is built before the subcommand runs.
    fn needs_engine(&self) -> bool {
        if let What::Bench(options) = self {
            return !options.as_is();
        }
        !matches!(
            self,
            What::Down | What::Client { .. } | What::Sysbench { .. } | What::Package | What::Sanitize { .. }
        )
    }
}

/// Runs a subcommand with the engine built as `profile` says.
pub fn run(what: What, profile: Profile) -> anyhow::Result<()> {
    let cache = Cache::of_the_project();
    if what.needs_engine() {
        println!("{}", build_as(&cache, profile)?.display());
    }
    match what {
        What::Build => Ok(()),
        What::Up { port, fresh, options } => {
            let server = server::Server::new(&cache, "run");
            if fresh && server.answers() {
                server.down()?;
            }
            if !server.answers() {
                let is_new = fresh || !server.data_dir().exists();
                server.up(port.map_or_else(|| free_port(PORT), Ok)?, fresh, &options)?;
                if is_new {
                    // As a server that was installed has it, and the guides expect it.
                    server.query("CREATE DATABASE IF NOT EXISTS test")?;
                }
            }
            println!("{}", server.how_to_connect()?);
            Ok(())
        }
        What::Down => server::Server::new(&cache, "run").down(),
        What::Client { args } => server::Server::new(&cache, "run").client(&args),
        What::Sysbench { args } => server::Server::new(&cache, "run").sysbench(&args),
        What::Package => package::run(&cache, &build_as(&cache, profile)?, &apt::fetch(&cache)?),
        What::Backup => backup::run(&cache),
        What::Compare(options) => compare::run_as(&cache, &options, profile),
        What::Isolation(options) => isolation::run_as(&cache, &options, profile),
        What::Crash { rounds, sysbench } => crash::run(&cache, rounds, sysbench),
        What::Bench(options) => bench::run(&cache, &options),
        What::Load(options) => load::run(&cache, &options),
        What::Dump => dump::run(&cache),
        What::Replication => replication::run(&cache),
        What::Cluster => cluster::run(&cache),
        What::Spider => spider::run(&cache),
        What::Mtr { suites, tests, rewritten } => mtr::run_as(&cache, &suites, &tests, &rewritten),
        What::Sanitize { only } => match sanitize(&only)? {
            Some(why) => anyhow::bail!("{why}"),
            None => Ok(()),
        },
        What::Smoke { record, only } => smoke::run(&cache, &only, record),
    }
}

/// A node of a cluster, random SQL on both engines and random transactions at each level, as long
/// as the long suites take, and the faults that both have to find. Where the server's packages
/// cannot be had, the reason.
pub fn long_suite() -> anyhow::Result<Option<String>> {
    let cache = Cache::of_the_project();
    if let Some(why) = without_packages(&cache) {
        return Ok(Some(why));
    }
    build_as(&cache, Profile::Dev)?;
    cluster::run(&cache)?;
    isolation::long(&cache)?;
    compare::long(&cache)?;
    Ok(None)
}

/// The shim under sanitizers. Where the server's packages cannot be had, the reason.
pub fn sanitize(only: &[String]) -> anyhow::Result<Option<String>> {
    let cache = Cache::of_the_project().with_sanitizers();
    if let Some(why) = without_packages(&cache) {
        return Ok(Some(why));
    }
    build_as(&cache, Profile::Sanitized)?;
    smoke::run(&cache, only, false)?;
    if only.is_empty() {
        compare::short(&cache)?;
    }
    Ok(None)
}

/// Why the server's packages cannot be had, if so.
fn without_packages(cache: &Cache) -> Option<String> {
    let error = apt::fetch(cache).err()?;
    Some(format!("the server's packages cannot be fetched by apt: {error}"))
}

/// Runs a fifth of the server's tests of InnoDB with this engine in its place: another fifth every
/// day. Returns the reason if the server's packages are not available.
pub fn rewritten_suite() -> anyhow::Result<Option<String>> {
    let cache = Cache::of_the_project();
    if let Some(why) = without_packages(&cache) {
        return Ok(Some(why));
    }
    build_as(&cache, Profile::Dev)?;
    let days = std::time::UNIX_EPOCH.elapsed()?.as_secs() / (24 * 60 * 60);
    mtr::run_as(&cache, &[], &[], &mtr::Rewritten { rewritten: true, part: 5, seed: days, parallel: 2 })?;
    Ok(None)
}

/// The part of all this that every run of the tests contains: the smoke scripts, random SQL,
/// random transactions at each level, tables of another format, a dump to InnoDB and back, a few
/// tests of the server's suites, some kills. Where the server's packages cannot be
/// had, the reason.
pub fn short_suite() -> anyhow::Result<Option<String>> {
    let cache = Cache::of_the_project();
    if let Some(why) = without_packages(&cache) {
        return Ok(Some(why));
    }
    build_as(&cache, Profile::Dev)?;
    smoke::run(&cache, &[], false)?;
    compare::short(&cache)?;
    isolation::short(&cache)?;
    check(&mut cargo("test --workspace --test behaviours -- --ignored a_server_refuses_other_formats::"))?;
    dump::short(&cache)?;
    mtr::run(&cache, &["engines/iuds".into()], &mtr::QUICK.map(String::from))?;
    crash::run(&cache, 3, false)?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::minutes;

    #[test]
    fn minutes_are_a_length_of_time() {
        assert_eq!(minutes("0.5"), Ok(0.5));
        for wrong in ["-1", "0", "nan", "inf", "1e300", "an hour"] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
    }
}
