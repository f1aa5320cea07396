//! Ports that servers listen on, of this machine's own addresses.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use anyhow::Context;

use crate::run::say;

/// True if a program listens on a port of an address of this machine.
pub(crate) fn is_in_use(address: Ipv4Addr, port: u16) -> bool {
    TcpListener::bind((address, port)).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// The address on which a server with these options listens.
pub(crate) fn address(options: &[String]) -> anyhow::Result<Ipv4Addr> {
    let chosen = options.iter().rev().find_map(|option| option.strip_prefix("--bind-address="));
    chosen.map_or(Ok(Ipv4Addr::LOCALHOST), |address| address.parse().with_context(|| format!("address {address}")))
}

/// Returns `usual`, or a port that no program listens on if one has that.
///
/// # Errors
/// If there is no such port.
pub fn free_port(usual: u16) -> anyhow::Result<u16> {
    if !is_in_use(Ipv4Addr::LOCALHOST, usual) {
        return Ok(usual);
    }
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("look for a free port")?.local_addr()?.port();
    let taken = format!("the server takes port {port} (`--port` chooses)");
    say(&format!("port {usual} of 127.0.0.1 is in use by another program; {taken}"));
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_another_address_may_be_another_programs() {
        let options = |address| [format!("--bind-address={address}")];
        assert_eq!(address(&[]).unwrap(), Ipv4Addr::LOCALHOST);
        let second = address(&options("127.0.0.2")).unwrap();
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        assert!(is_in_use(Ipv4Addr::LOCALHOST, port) && !is_in_use(second, port));
        assert!(address(&options("here")).is_err());
    }

    /// Other programs take ports meanwhile, and a process that another test starts has this one's
    /// sockets until it executes its program. So one port of many suffices.
    #[test]
    fn a_port_that_no_program_has_is_taken() {
        let ephemeral = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert!((0..100).map(|_| ephemeral()).any(|port| free_port(port).unwrap() == port));
    }
}
