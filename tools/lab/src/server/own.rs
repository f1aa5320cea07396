//! A server that the lab starts and ends itself: a private one with the engine in it, or another
//! one as it was released. It listens on its socket only, and its process inherits the cores of the
//! thread that starts it.

use anyhow::{Result, bail, ensure};
use holdfast_server::server::SOCKET_ONLY;
use holdfast_server::{Cache, Release, ReleasedServer, Server, apt};

use super::address::Address;
use super::contender::Contender;
use super::slow_disk::SlowDisk;
use crate::pin::{Cores, Role};
use crate::progress::Progress;

/// A server of the lab's own. Its process is killed when this is dropped; the data of one that is
/// not temporary stays until [`OwnServer::remove`].
pub(crate) struct OwnServer<'c> {
    kind: Kind<'c>,
    /// The address for its clients.
    pub address: Address,
    /// True from a start to an end.
    runs: bool,
    /// True if its data is removed with it.
    is_temporary: bool,
}

enum Kind<'c> {
    Private(Server<'c>),
    Released(Release, ReleasedServer),
}

impl<'c> OwnServer<'c> {
    /// The private server with the data in a folder of the cache. It does not run.
    pub fn private(cache: &'c Cache, folder: &str) -> OwnServer<'c> {
        let server = Server::new(cache, folder).bound_to_us();
        let address = Address::Socket(server.socket_path(), None);
        OwnServer { kind: Kind::Private(server), address, runs: false, is_temporary: false }
    }

    /// The released server with the data in a folder of the release, which is downloaded if need
    /// be. It does not run.
    pub fn released(cache: &Cache, release: Release, folder: &str) -> Result<OwnServer<'c>> {
        // Its programs need libraries that come with today's server, and its clients are of that.
        apt::fetch(cache)?;
        release.fetch(cache)?;
        let dump = release.dump_program(cache)?;
        let server = release.server(cache, folder);
        let address = Address::Socket(server.socket_path(), dump);
        Ok(OwnServer { kind: Kind::Released(release, server), address, runs: false, is_temporary: false })
    }

    /// The released server with new data, which is removed with it. It does not run.
    pub fn temporary(cache: &Cache, release: Release, progress: &mut Progress) -> Result<OwnServer<'c>> {
        progress.step(release.name());
        let mut server = OwnServer::released(cache, release, "run")?;
        server.is_temporary = true;
        server.make_data()?;
        Ok(server)
    }

    /// The server of a contender.
    pub fn of(cache: &'c Cache, contender: Contender, folder: &str) -> Result<OwnServer<'c>> {
        match contender.release() {
            Some(release) => OwnServer::released(cache, release, folder),
            None => Ok(OwnServer::private(cache, &format!("lab/{folder}"))),
        }
    }

    /// Makes new data, in place of what there may be. It does not run.
    pub fn make_data(&self) -> Result<()> {
        match &self.kind {
            // It makes what it does not find when it starts.
            Kind::Private(_) => self.remove(),
            Kind::Released(_, server) => server.make_data(),
        }
    }

    /// The release, if it is one.
    pub fn release(&self) -> Option<Release> {
        match self.kind {
            Kind::Private(_) => None,
            Kind::Released(release, _) => Some(release),
        }
    }

    /// Starts it on its data, on the cores of servers; a private one on a modelled disk, if there
    /// is one. A release that runs is restarted.
    pub fn start(&mut self, options: &[String], cores: &Cores, disk: Option<SlowDisk>) -> Result<()> {
        cores.pin(Role::Server);
        let started = match (&mut self.kind, disk) {
            (Kind::Private(server), None) => server.up(SOCKET_ONLY, false, options),
            (Kind::Private(server), Some(disk)) => {
                disk.under(server.clone(), cores).and_then(|server| server.up(SOCKET_ONLY, false, options))
            }
            (Kind::Released(_, server), _) => server.restart(options),
        };
        cores.pin(Role::Clients);
        self.runs = started.is_ok();
        started
    }

    /// From now on the modelled disk of a private server is slow ([`SlowDisk::later`]).
    pub fn slow_down(&self) -> Result<()> {
        match &self.kind {
            Kind::Private(server) => SlowDisk::slow_down(server),
            Kind::Released(..) => Ok(()),
        }
    }

    /// Shuts it down, if it was started. One that has ended meanwhile is an error.
    pub fn shut_down(&mut self) -> Result<()> {
        if !self.runs {
            return Ok(());
        }
        let done = match &mut self.kind {
            Kind::Private(server) => server.shut_down().and_then(|ran| {
                ensure!(ran, "the server does not run any more:\n{}", server.log_tail());
                Ok(())
            }),
            Kind::Released(_, server) => server.shut_down(),
        };
        // One that may still run is killed before its data is removed.
        self.runs = done.is_err();
        done
    }

    /// Kills it, if it runs.
    pub fn kill(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        match &mut self.kind {
            // A process that has ended needs no signal.
            Kind::Private(server) if runs => drop(server.kill()),
            Kind::Private(_) => {}
            // It knows itself whether it runs.
            Kind::Released(_, server) => server.kill(),
        }
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        match &self.kind {
            _ if !self.runs => None,
            Kind::Private(server) => server.pid().ok(),
            Kind::Released(_, server) => server.pid(),
        }
    }

    /// Copies all data to `other`; neither runs.
    pub fn copy_data_to(&self, other: &OwnServer<'_>) -> Result<()> {
        match (&self.kind, &other.kind) {
            (Kind::Private(from), Kind::Private(to)) => from.copy_data_to(to),
            (Kind::Released(one, from), Kind::Released(other, to)) if one == other => from.copy_data_to(to),
            _ => bail!("no server starts on the data of another one"),
        }
    }

    /// Removes the data. It does not run.
    pub fn remove(&self) -> Result<()> {
        match &self.kind {
            Kind::Private(server) => server.remove(),
            Kind::Released(_, server) => server.remove(),
        }
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        match &self.kind {
            Kind::Private(server) => server.log_tail(),
            Kind::Released(..) => String::new(),
        }
    }
}

impl Drop for OwnServer<'_> {
    fn drop(&mut self) {
        self.kill();
        if self.is_temporary {
            let _ = self.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was taken for one that was shut down, and the experiment went on with what it had left.
    #[test]
    fn a_server_that_has_ended_cannot_be_shut_down() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let mut server = OwnServer::private(&cache, "server");
        server.shut_down().unwrap();
        server.runs = true;
        let error = server.shut_down().unwrap_err().to_string();
        assert!(error.starts_with("the server does not run any more"), "{error}");
    }
}
