//! The address of a server, for the three kinds of clients that the lab has: its own connections,
//! sysbench, mariadb-dump.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use holdfast_server::Cache;
use mysql::{Opts, OptsBuilder};

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A server that the lab started, and the program that dumps it if it has one of its own, with
    /// the arguments that come before others.
    Socket(PathBuf, Option<Vec<OsString>>),
    /// A server that the user names.
    Tcp {
        /// Name or number.
        host: String,
        /// Port.
        port: u16,
        /// User.
        user: String,
        /// Password; empty for none.
        password: String,
    },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Socket(path, _) => write!(f, "root at {}", path.display()),
            Address::Tcp { host, port, user, .. } => write!(f, "{user} at {host}:{port}"),
        }
    }
}

impl Address {
    /// Options for connections of the lab itself. Some of them wait for longer than a server may
    /// let a session be idle, such as one that holds a snapshot.
    pub fn options(&self) -> OptsBuilder {
        let options = match self {
            Address::Socket(path, _) => {
                OptsBuilder::new().socket(Some(path.to_string_lossy())).user(Some("root")).prefer_socket(true)
            }
            Address::Tcp { host, port, user, password } => OptsBuilder::new()
                .ip_or_hostname(Some(host.as_str()))
                .tcp_port(*port)
                .user(Some(user.as_str()))
                .pass(Some(password.as_str()))
                .prefer_socket(false),
        };
        options.init(vec!["SET SESSION wait_timeout = 604800"])
    }

    /// Arguments for sysbench.
    pub fn sysbench(&self) -> Vec<String> {
        match self {
            Address::Socket(path, _) => {
                vec![format!("--mysql-socket={}", path.display()), "--mysql-user=root".into()]
            }
            Address::Tcp { host, port, user, password } => vec![
                format!("--mysql-host={host}"),
                format!("--mysql-port={port}"),
                format!("--mysql-user={user}"),
                format!("--mysql-password={password}"),
            ],
        }
    }

    /// The program that dumps schemas, with the options to connect.
    pub fn dump_command(&self, cache: &Cache) -> Command {
        let mut command = match self {
            Address::Socket(_, Some(dump)) => {
                let mut words = dump.iter();
                let mut command = Command::new(words.next().map_or(OsStr::new("mysqldump"), OsString::as_os_str));
                command.args(words);
                command
            }
            Address::Socket(_, None) | Address::Tcp { .. } => cache.program("usr/bin/mariadb-dump"),
        };
        self.client(&mut command);
        command
    }

    /// Adds the options to connect to a client program of MariaDB. The password does not show in
    /// the list of processes.
    pub fn client(&self, command: &mut Command) {
        command.arg("--no-defaults");
        match self {
            Address::Socket(path, _) => command.arg(format!("--socket={}", path.display())).arg("--user=root"),
            Address::Tcp { host, port, user, password } => command
                .arg("--protocol=tcp")
                .arg(format!("--host={host}"))
                .arg(format!("--port={port}"))
                .arg(format!("--user={user}"))
                .env("MYSQL_PWD", password),
        };
    }
}

/// Parses the address `mysql://user:password@host:port/`.
pub fn parse(url: &str) -> Result<Address, String> {
    let opts = Opts::from_url(url).map_err(|e| format!("give dsn:mysql://user:password@host:port/ ({e})"))?;
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    Ok(Address::Tcp {
        host: opts.get_ip_or_hostname().into_owned(),
        port: opts.get_tcp_port(),
        user: text(opts.get_user()),
        password: text(opts.get_pass()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_url() {
        let address = parse("mysql://me:s%40crt@db.example:3307/").unwrap();
        let (host, user, password) = ("db.example".to_owned(), "me".to_owned(), "s@crt".to_owned());
        assert_eq!(address, Address::Tcp { host, port: 3307, user, password });
        assert!(parse("mysql://").is_err());
        assert!(parse("postgres://me@host/").is_err());
    }
}
