//! The options of the comparison.

use crate::data;

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Engines to run
    #[arg(long, value_delimiter = ',', default_value = "holdfast,lmdb,redb,fjall,rocksdb,sqlite")]
    pub engines: Vec<String>,
    /// Memory limit of each engine's process, page cache included, in MiB; engines with a cache of
    /// their own get half, and Holdfast, which does not use the page cache, three quarters
    #[arg(long, default_value_t = 512)]
    pub memory_mib: u64,
    /// Rows of the in-memory data set (100-byte values)
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
    /// Rows of the larger-than-memory data set; the default is 4 times the memory limit
    #[arg(long)]
    pub large_rows: Option<u64>,
    /// Slices of each cell
    #[arg(long, default_value_t = 5)]
    pub repeats: usize,
    /// Length of a slice, in milliseconds
    #[arg(long, default_value_t = 1000)]
    pub slice_ms: u64,
    /// Where the folder with the databases is made (it is removed afterwards)
    #[arg(long, default_value = ".lab")]
    pub dir: std::path::PathBuf,
    /// Also write the table as Markdown to this file
    #[arg(long)]
    pub markdown: Option<std::path::PathBuf>,
    /// Write every slice to this file as JSON
    #[arg(long)]
    pub json: Option<std::path::PathBuf>,
    /// A few thousand rows and one short slice each: only shows that every adapter works
    #[arg(long)]
    pub smoke: bool,
    /// Run as the child of one engine (used by the parent)
    #[arg(long, hide = true)]
    pub child: Option<String>,
}

impl Options {
    /// Refuses sizes of which there is nothing to measure, or of whose bytes there is no number.
    pub fn check(&self) -> anyhow::Result<()> {
        let sizes = [
            ("--memory-mib", self.memory_mib, 16..=1 << 20),
            ("--rows", self.rows, 1..=data::MOST_ROWS),
            ("--large-rows", self.large_rows.unwrap_or(1), 1..=data::MOST_ROWS),
            ("--repeats", self.repeats as u64, 1..=10_000),
            ("--slice-ms", self.slice_ms, 1..=3_600_000),
        ];
        for (name, given, range) in sizes {
            let (least, most) = (range.start(), range.end());
            anyhow::ensure!(range.contains(&given), "{name} is {given}, and takes {least} to {most}");
        }
        Ok(())
    }

    pub fn large_rows(&self) -> u64 {
        self.large_rows.unwrap_or_else(|| 4 * (self.memory_mib << 20) / data::ROW_BYTES)
    }
}
