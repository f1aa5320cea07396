//! Creating and opening databases.

use std::path::Path;

use crate::settings::Builder;
use crate::{Database, Result};

pub(crate) fn create(settings: &Builder, _path: &Path) -> Result<Database> {
    settings.validate()?;
    crate::core::stub()
}

pub(crate) fn open(settings: &Builder, _path: &Path) -> Result<Database> {
    settings.validate()?;
    crate::core::stub()
}

pub(crate) fn open_read_only(settings: &Builder, _path: &Path) -> Result<Database> {
    settings.validate()?;
    crate::core::stub()
}

pub(crate) fn in_memory(settings: &Builder) -> Result<Database> {
    settings.validate()?;
    crate::core::stub()
}
