//! Servers on a modelled disk.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use holdfast_server::Server;
use holdfast_testkit::DiskModel;

use crate::pin::{Cores, Role};

/// A modelled disk for a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowDisk {
    pub model: DiskModel,
    /// True if it is as fast as the real one until [`SlowDisk::slow_down`].
    pub later: bool,
}

impl SlowDisk {
    /// `server`, to be started with its data on this disk.
    pub(super) fn under<'c>(self, server: Server<'c>, cores: &Cores) -> Result<Server<'c>> {
        let seek = format!("--seek-us={}", self.model.seek.as_micros());
        let rate = format!("--bytes-per-second={}", self.model.bytes_per_second);
        let mut starter: Vec<OsString> =
            vec![std::env::current_exe()?.into(), "slow-disk".into(), seek.into(), rate.into()];
        if self.later {
            let switch = switch(&server);
            // The file may not exist.
            let _ = std::fs::remove_file(&switch);
            starter.extend(["--while".into(), switch.into()]);
        }
        let cpus: Vec<String> = cores.of(Role::Clients).iter().map(usize::to_string).collect();
        if !cpus.is_empty() {
            starter.extend(["--cpus".into(), cpus.join(",").into()]);
        }
        starter.extend(["--dir".into(), server.data_dir().into(), "--".into()]);
        Ok(server.started_by(starter))
    }

    /// From now on the disk of `server` is slow.
    pub(super) fn slow_down(server: &Server<'_>) -> Result<()> {
        let switch = switch(server);
        std::fs::write(&switch, "").with_context(|| format!("make {}", switch.display()))
    }
}

/// The disk of `server` is slow while this file exists.
fn switch(server: &Server<'_>) -> PathBuf {
    server.data_dir().with_extension("slow")
}
