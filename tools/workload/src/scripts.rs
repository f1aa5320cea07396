//! The workloads as scripts for sysbench 1.0, which runs them on a server: dbSTRESS, dbt2, the oltp
//! test of sysbench 0.4, and that of 1.0 that bypasses the query cache.

use std::io;
use std::path::{Path, PathBuf};

/// A script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// dbSTRESS: the tables and transactions of [`crate::dbstress`].
    DbStress,
    /// dbt2: nine tables, five transactions.
    Dbt2,
    /// The oltp test of sysbench 0.4.
    Oltp04,
    /// The read-only test of sysbench 1.0, bypassing the server's query cache.
    ReadOnlyUncached,
}

/// A file that two of the scripts load from their folder.
const STATEMENT_TIMES: (&str, &str) = ("statement_times.lua", include_str!("../lua/statement_times.lua"));

impl Script {
    /// All of them.
    pub const ALL: [Script; 4] = [Script::DbStress, Script::Dbt2, Script::Oltp04, Script::ReadOnlyUncached];

    /// The name of the script's file.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Script::DbStress => "dbstress.lua",
            Script::Dbt2 => "dbt2.lua",
            Script::Oltp04 => "oltp04.lua",
            Script::ReadOnlyUncached => "oltp_read_only_uncached.lua",
        }
    }

    /// The content of the script's file.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Script::DbStress => include_str!("../lua/dbstress.lua"),
            Script::Dbt2 => include_str!("../lua/dbt2.lua"),
            Script::Oltp04 => include_str!("../lua/oltp04.lua"),
            Script::ReadOnlyUncached => include_str!("../lua/oltp_read_only_uncached.lua"),
        }
    }

    /// Writes the script, and the file that it loads, into the folder `dir`. Returns its path.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_into(self, dir: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join(self.file_name());
        std::fs::write(&path, self.text())?;
        std::fs::write(dir.join(STATEMENT_TIMES.0), STATEMENT_TIMES.1)?;
        Ok(path)
    }
}
