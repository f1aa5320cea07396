//! The compared engines, and how each is named and counted.

use std::fmt;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use holdfast_server::Release;

/// An engine with the setting that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// All defaults.
    Holdfast,
    /// With this `innodb_old_blocks_time`, in milliseconds.
    InnoDb {
        /// Milliseconds.
        old_blocks_time_ms: u32,
    },
    /// An LSM tree with a block cache.
    MyRocks,
    /// The InnoDB of another server, as that was released.
    Released(Release),
}

/// InnoDB with the default `innodb_old_blocks_time`.
pub const INNODB: Contender = Contender::InnoDb { old_blocks_time_ms: 1000 };

/// The engine's name in texts.
pub fn engine_name(contender: Contender) -> String {
    match contender {
        Contender::InnoDb { .. } => "InnoDB".to_owned(),
        other => other.to_string(),
    }
}

/// The engines by the names of `--engines`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// With `old_blocks_time` 0 and with its default.
    Innodb,
    /// From its own package.
    Myrocks,
    /// This project's engine.
    Holdfast,
    /// The InnoDB of another server.
    Released(Release),
}

impl Engine {
    /// Those of the distribution's server.
    pub const HERE: [Engine; 3] = [Engine::Innodb, Engine::Myrocks, Engine::Holdfast];

    /// All of them.
    pub fn all() -> impl Iterator<Item = Engine> {
        Engine::HERE.into_iter().chain(Release::ALL.map(Engine::Released))
    }

    /// The name in `--engines`.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Innodb => "innodb",
            Engine::Myrocks => "myrocks",
            Engine::Holdfast => "holdfast",
            Engine::Released(release) => release.target(),
        }
    }

    /// The contenders of the engine.
    pub fn contenders(self, old_blocks_time_ms: u32) -> Vec<Contender> {
        match self {
            Engine::Innodb => [0, old_blocks_time_ms].map(|ms| Contender::InnoDb { old_blocks_time_ms: ms }).to_vec(),
            Engine::Myrocks => vec![Contender::MyRocks],
            Engine::Holdfast => vec![Contender::Holdfast],
            Engine::Released(release) => vec![Contender::Released(release)],
        }
    }
}

/// The words of `--engines`.
impl clap::builder::ValueParserFactory for Engine {
    type Parser = clap::builder::MapValueParser<PossibleValuesParser, fn(String) -> Engine>;

    fn value_parser() -> Self::Parser {
        let named = |name: String| Engine::all().find(|engine| engine.name() == name).expect("one of the names");
        PossibleValuesParser::new(Engine::all().map(Engine::name)).map(named)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Holdfast => f.write_str("holdfast"),
            Contender::InnoDb { old_blocks_time_ms } => write!(f, "InnoDB (old_blocks_time {old_blocks_time_ms} ms)"),
            Contender::MyRocks => f.write_str("MyRocks"),
            Contender::Released(release) => f.write_str(release.name()),
        }
    }
}

impl Contender {
    /// The release of its server; `None` for the distribution's.
    pub fn release(self) -> Option<Release> {
        match self {
            Contender::Released(release) => Some(release),
            _ => None,
        }
    }

    /// The class of its colour in charts.
    pub fn tone(self) -> &'static str {
        match self {
            Contender::Holdfast => "holdfast",
            Contender::InnoDb { old_blocks_time_ms: 0 } => "midpoint-0",
            Contender::InnoDb { .. } => "midpoint",
            Contender::MyRocks => "myrocks",
            Contender::Released(_) => "",
        }
    }

    /// The name in `ENGINE=`.
    pub fn engine(self) -> &'static str {
        match self {
            Contender::Holdfast => "HOLDFAST",
            Contender::InnoDb { .. } | Contender::Released(_) => "InnoDB",
            Contender::MyRocks => "ROCKSDB",
        }
    }

    /// The name of a variable of the engine, given without the engine's prefix.
    pub fn variable(self, name: &str) -> String {
        format!("{}_{name}", self.engine().to_lowercase())
    }

    /// Options for reads and writes through the system's cache.
    pub fn buffered(self) -> [&'static str; 2] {
        match self {
            Contender::Holdfast | Contender::InnoDb { .. } | Contender::Released(_) => {
                ["--innodb-flush-method=fsync", "--loose-holdfast-flush-method=fsync"]
            }
            Contender::MyRocks => {
                ["--rocksdb-use-direct-reads=OFF", "--rocksdb-use-direct-io-for-flush-and-compaction=OFF"]
            }
        }
    }

    /// Statements after the tables were loaded: they bring everything to where it is on a server
    /// that has run for long.
    pub fn settle(self) -> &'static [&'static str] {
        match self {
            Contender::Holdfast | Contender::InnoDb { .. } | Contender::Released(_) => &[],
            Contender::MyRocks => {
                &["SET GLOBAL rocksdb_force_flush_memtable_now = 1", "SET GLOBAL rocksdb_compact_cf = 'default'"]
            }
        }
    }

    /// The meaning of the figures "hot reads" and "MB resident" for this engine.
    pub fn how_it_is_counted(self) -> &'static str {
        match self {
            Contender::Holdfast => {
                "Holdfast: pages read because a statement waited for them, and resident pages, by index, from \
                 information_schema.HOLDFAST_SYS_INDEXES"
            }
            Contender::InnoDb { .. } | Contender::Released(_) => {
                "InnoDB: reads of the table's file from performance_schema.file_summary_by_instance (read-ahead \
                 included); resident pages by index from information_schema.INNODB_BUFFER_PAGE"
            }
            Contender::MyRocks => {
                "MyRocks: blocks read from files for the table (ROCKSDB_PERF_CONTEXT, BLOCK_READ_COUNT); its block \
                 cache does not say whose blocks it holds"
            }
        }
    }
}

/// The least size of a pool that both page engines accept.
pub const SMALLEST: u64 = 6 << 20;
