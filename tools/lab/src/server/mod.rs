//! The experiments on real servers: real sysbench and real mariadb-dump against MariaDB.
//!
//! | module | what |
//! |---|---|
//! | [`address`] | the address of a server, for its clients |
//! | [`contender`] | the engines and settings that are compared |
//! | `data` | the tables |
//! | [`load`] | sysbench and mariadb-dump as processes that can be stopped for a while |
//! | `probe` | a server's own counters |
//! | `instance` | a private server under load, sampled |
//! | `options` | the options of a server that the lab starts |
//! | `own` | a server that the lab starts: private, or as it was released |
//! | `status` | what a server lists of itself |
//! | [`turns`] | engines on private servers in turns, sampled |
//! | `slow_disk` | a server on a modelled disk |
//! | `named` | a server that the user names, with the schema of the lab |
//! | `health` | findings from a server's counters, and settings that help |
//! | [`released`] | the experiments on other servers as they were released |

pub mod address;
pub mod contender;
pub(crate) mod data;
pub(crate) mod health;
pub(crate) mod instance;
pub mod load;
pub(crate) mod named;
pub mod options;
pub(crate) mod own;
pub(crate) mod probe;
pub mod released;
pub(crate) mod slow_disk;
mod statements;
pub(crate) mod status;
pub mod turns;
