//! Servers on a modelled disk.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use holdfast_server::Server;

use crate::pin::{Cores, Role};

/// `server`, to be started with its data on a modelled disk. If `switch` is given, the disk is slow
/// only while that file exists.
pub(crate) fn on_slow_disk<'c>(
    server: Server<'c>,
    cores: &Cores,
    seek: Duration,
    bytes_per_second: u64,
    switch: Option<&Path>,
) -> Result<Server<'c>> {
    let (seek, rate) = (format!("--seek-us={}", seek.as_micros()), format!("--bytes-per-second={bytes_per_second}"));
    let mut starter: Vec<OsString> =
        vec![std::env::current_exe()?.into(), "slow-disk".into(), seek.into(), rate.into()];
    if let Some(switch) = switch {
        starter.extend(["--while".into(), switch.into()]);
    }
    let cpus: Vec<String> = cores.of(Role::Clients).iter().map(usize::to_string).collect();
    if !cpus.is_empty() {
        starter.extend(["--cpus".into(), cpus.join(",").into()]);
    }
    starter.extend(["--dir".into(), server.data_dir().into(), "--".into()]);
    Ok(server.started_by(starter))
}
