//! What is modelled.

use std::path::Path;

use holdfast_testkit::DiskModel;

/// The modelled disk.
#[derive(Clone, Copy, Debug)]
pub struct Disk<'a> {
    /// The folder whose files are on the disk.
    pub folder: &'a Path,
    /// The speed of the disk.
    pub model: DiskModel,
    /// While this file does not exist, the disk is as fast as the real one.
    pub switch: Option<&'a Path>,
    /// The cores on which the disk is modelled; empty for those of the program. A real disk takes
    /// no time from its computer's cores.
    pub cpus: &'a [usize],
}
