//! Where the rows come from: a MyISAM table, and the dump of it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use holdfast_server::{Cache, Server};

use crate::pairs::Engine;
use clap::ValueEnum;

/// sysbench's columns and index, and a text of 0 to 224 characters.
const COLUMNS: &str = "id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', \
                       pad CHAR(60) NOT NULL DEFAULT '', note TEXT, PRIMARY KEY (id), KEY k (k)";

/// Some rows, which look random and are the same in each run.
const FILL: &str = "INSERT INTO source.t SELECT seq, 1 + CRC32(seq) % $ROWS, \
                    CONCAT_WS('-', SHA1(seq), MD5(seq), SHA1(-seq)), SHA1(seq * 7), REPEAT(MD5(seq), CRC32(seq) % 8) \
                    FROM seq_$FROM_to_$TO";

/// Bytes of a row in MyISAM, about.
const ROW_BYTES: u64 = 284;
/// Rows between two lines about the progress.
const STEP: u64 = 1_000_000;

const SCHEMA: &str = "loaded";

/// How a table is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// `ALTER TABLE ... ENGINE` of a MyISAM table
    Alter,
    /// The client reads what mariadb-dump wrote: a transaction for each of its INSERTs
    Import,
    /// The same with `mariadb-dump --no-autocommit`: one transaction, which InnoDB loads without
    /// undo
    ImportAtOnce,
}

/// See the module's description.
pub struct Source<'a> {
    server: &'a Server<'a>,
    rows: u64,
    bytes: u64,
    /// What each load has to give: rows, and sums over two columns.
    sums: String,
    dump: PathBuf,
}

impl<'a> Source<'a> {
    /// A table of about `mib` mebibytes.
    pub fn make(cache: &Cache, server: &'a Server<'a>, mib: u64) -> anyhow::Result<Source<'a>> {
        let rows = (mib << 20).div_ceil(ROW_BYTES);
        server.query(&format!(
            "CREATE DATABASE source CHARACTER SET latin1; CREATE DATABASE {SCHEMA} CHARACTER SET latin1;
             CREATE TABLE source.t ({COLUMNS}) ENGINE=MyISAM ROW_FORMAT=DYNAMIC; ALTER TABLE source.t DISABLE KEYS"
        ))?;
        for from in (1..=rows).step_by(STEP as usize) {
            let to = rows.min(from + STEP - 1);
            let fill = FILL.replace("$ROWS", &rows.to_string());
            let fill = fill.replace("$FROM", &from.to_string()).replace("$TO", &to.to_string());
            server.query(&format!("USE source; {fill}"))?;
            eprintln!("  {to} of {rows} rows");
        }
        server.query("ALTER TABLE source.t ENABLE KEYS; FLUSH TABLES")?;
        let bytes = fs::metadata(server.data_dir().join("source/t.MYD"))?.len();
        let dump = cache.path("load/dump.sql");
        let source = Source { server, rows, bytes, sums: sums(server, "source.t")?, dump };
        Ok(source)
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Of the rows in MyISAM, which has nothing beside them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What all loads of a way share.
    pub fn prepare(&self, way: Way) -> anyhow::Result<()> {
        let more: &[&str] = match way {
            Way::Alter => return Ok(()),
            Way::Import => &[],
            Way::ImportAtOnce => &["--no-autocommit"],
        };
        let mut command = self.server.dump_command();
        // The definition names the engine.
        command.args(["--no-create-info"]).args(more).args(["source", "t"]).stdout(File::create(&self.dump)?);
        let output = command.stderr(Stdio::piped()).output().context("mariadb-dump could not be started")?;
        ensure!(output.status.success(), "mariadb-dump: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Puts the table there as it is before a load, and what is read in the system's cache.
    pub fn set_out(&self, way: Way, engine: Engine) -> anyhow::Result<()> {
        match way {
            Way::Alter => {
                // The same files under a second name: what ALTER removes in the end is the name.
                let data = self.server.data_dir();
                for file in ["t.frm", "t.MYI", "t.MYD"] {
                    fs::hard_link(data.join("source").join(file), data.join(SCHEMA).join(file))?;
                }
                read(&data.join("source/t.MYD"))
            }
            Way::Import | Way::ImportAtOnce => {
                self.server.query(&format!("CREATE TABLE {SCHEMA}.t ({COLUMNS}) ENGINE={}", engine.name()))?;
                read(&self.dump)
            }
        }
    }

    pub fn load(&self, way: Way, engine: Engine) -> anyhow::Result<()> {
        if way == Way::Alter {
            // InnoDB would take over MyISAM's name of a row format.
            let alter = format!("ALTER TABLE {SCHEMA}.t ENGINE={} ROW_FORMAT=DEFAULT", engine.name());
            return self.server.query(&alter).map(drop);
        }
        let mut client = self.server.client_command();
        client.arg(SCHEMA).stdin(File::open(&self.dump)?).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = client.output().context("the client could not be started")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// The table is what the source is; it goes.
    pub fn check_and_drop(&self, engine: Engine) -> anyhow::Result<()> {
        let table = format!("{SCHEMA}.t");
        let is = self.server.query(&format!(
            "SELECT engine FROM information_schema.tables WHERE table_schema = '{SCHEMA}' AND table_name = 't'"
        ))?;
        ensure!(is.eq_ignore_ascii_case(engine.name()), "the table is on {is}");
        let found = sums(self.server, &table)?;
        ensure!(found == self.sums, "{} has {found}, the source {}", engine.name(), self.sums);
        self.server.query(&format!("DROP TABLE {table}")).map(drop)
    }
}

fn sums(server: &Server<'_>, table: &str) -> anyhow::Result<String> {
    server.query(&format!(
        "SELECT COUNT(*), SUM(k), SUM(CRC32(c)), SUM(LENGTH(note)) FROM {table};
         SELECT COUNT(*), SUM(k) FROM {table} FORCE INDEX (k) WHERE k >= 0"
    ))
}

/// Reads a file, so that the system has it at hand.
fn read(path: &Path) -> anyhow::Result<()> {
    io::copy(&mut File::open(path)?, &mut io::sink()).map(drop).map_err(Into::into)
}
