//! Copying a database while it is in use.

use std::path::Path;
use std::sync::Arc;

use crate::Result;
use crate::core::Shared;
use crate::verify::VerifyReport;

/// How to back up.
#[derive(Clone, Default)]
pub struct BackupOptions {
    rate_limit_bytes_per_second: Option<u64>,
    progress: Option<Arc<dyn Fn(&BackupProgress) + Send + Sync>>,
}

impl BackupOptions {
    /// As fast as the disks go, silently.
    #[must_use]
    pub fn new() -> BackupOptions {
        BackupOptions::default()
    }

    /// Copies at most so many bytes a second, for the sake of those who use the database meanwhile.
    #[must_use]
    pub fn rate_limit_bytes_per_second(mut self, bytes: u64) -> BackupOptions {
        self.rate_limit_bytes_per_second = Some(bytes);
        self
    }

    /// Called now and then.
    #[must_use]
    pub fn on_progress(mut self, callback: impl Fn(&BackupProgress) + Send + Sync + 'static) -> BackupOptions {
        self.progress = Some(Arc::new(callback));
        self
    }
}

/// How far a backup has come.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Bytes of files copied.
    pub bytes_done: u64,
    /// Bytes of files that there are.
    pub bytes_total: u64,
    /// Bytes of log copied.
    pub log_bytes: u64,
}

/// What a backup copied.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupReport {
    /// Files of pages.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of log.
    pub log_bytes: u64,
    /// The backup holds what was committed up to this position of the log.
    pub lsn: u64,
}

pub(crate) fn backup(_shared: &Shared, _dir: &Path, _options: &BackupOptions) -> Result<BackupReport> {
    crate::core::stub()
}

pub(crate) fn restore(_dir: &Path) -> Result<VerifyReport> {
    crate::core::stub()
}
