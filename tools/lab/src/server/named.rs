//! A server that the user names. The lab connects, reads its settings, and creates a schema for the
//! time of an experiment. Nothing else of it is changed.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::address::Address;
use super::contender::{Contender, Engine};
use super::data::SCHEMA;
use super::health::{self, Health};

/// The longest wait for a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that was reached.
pub(crate) struct NamedServer {
    conn: Conn,
    pub address: Address,
    /// The engine, with the setting that the server has.
    pub contender: Contender,
    /// The size of that engine's cache.
    pub pool_bytes: u64,
}

impl NamedServer {
    /// Connects to the server at `address` and reads its settings of `engine`.
    pub fn reach(address: &Address, engine: Engine) -> Result<NamedServer> {
        let mut conn = connect(address)?;
        let contender = contender(&mut conn, engine)?;
        let pool_bytes = pool_bytes(&mut conn, contender)?;
        Ok(NamedServer { conn, address: address.clone(), contender, pool_bytes })
    }

    /// Creates the schema.
    pub fn begin(mut self) -> Result<ServerWithSchema> {
        let before = Health::read(&mut self.conn)?;
        create_schema(&mut self.conn, &self.address)?;
        let (address, contender, pool_bytes) = (self.address, self.contender, self.pool_bytes);
        Ok(ServerWithSchema { address, contender, pool_bytes, before, has_schema: true })
    }
}

/// A server with the schema, which is dropped with this value in every case, on a connection of its
/// own: one from the beginning would be idle for as long as the experiment takes, and servers end
/// such ones (`wait_timeout`).
pub(crate) struct ServerWithSchema {
    pub address: Address,
    /// The engine, with the setting that the server has.
    pub contender: Contender,
    /// The size of that engine's cache.
    pub pool_bytes: u64,
    /// The counters at the beginning.
    pub before: Health,
    /// False once it was dropped.
    has_schema: bool,
}

impl ServerWithSchema {
    /// A connection.
    pub fn connect(&self) -> Result<Conn> {
        connect(&self.address)
    }

    /// Findings from the counters since the beginning.
    pub fn findings(&self) -> Result<Vec<String>> {
        Ok(health::findings(&self.before, &Health::read(&mut self.connect()?)?))
    }

    /// Drops the schema.
    pub fn end(mut self) -> Result<()> {
        self.drop_schema().with_context(|| format!("drop the schema {SCHEMA}"))
    }

    fn drop_schema(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.has_schema) {
            return Ok(());
        }
        Ok(self.connect()?.query_drop(format!("DROP DATABASE {SCHEMA}"))?)
    }
}

impl Drop for ServerWithSchema {
    fn drop(&mut self) {
        let _ = self.drop_schema();
    }
}

fn connect(address: &Address) -> Result<Conn> {
    Conn::new(address.options().tcp_connect_timeout(Some(CONNECT_TIMEOUT))).map_err(|error| match &error {
        mysql::Error::MySqlError(said) if said.code == 1045 => {
            anyhow!("the server does not let this user in: {}", said.message)
        }
        mysql::Error::MySqlError(said) => anyhow!("the server refuses the connection: {}", said.message),
        _ => anyhow!("no server answers there: {error}"),
    })
}

/// The engine with the setting that the server has.
fn contender(conn: &mut Conn, engine: Engine) -> Result<Contender> {
    Ok(match engine {
        Engine::Holdfast => Contender::Holdfast,
        Engine::Myrocks => Contender::MyRocks,
        Engine::Innodb => {
            let time = conn.query_first::<u32, _>("SELECT @@innodb_old_blocks_time")?;
            Contender::InnoDb { old_blocks_time_ms: time.context("the server has no innodb_old_blocks_time")? }
        }
        Engine::Released(release) => Contender::Released(release),
    })
}

fn pool_bytes(conn: &mut Conn, contender: Contender) -> Result<u64> {
    let cache = if contender == Contender::MyRocks { "block_cache_size" } else { "buffer_pool_size" };
    let variable = contender.variable(cache);
    let bytes = conn.query_first::<u64, _>(format!("SELECT @@{variable}"));
    let bytes = bytes.with_context(|| format!("the server has no engine {}", contender.engine()))?;
    bytes.with_context(|| format!("the server does not say {variable}"))
}

fn create_schema(conn: &mut Conn, address: &Address) -> Result<()> {
    let sql = format!("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '{SCHEMA}'");
    ensure!(conn.query_first::<u64, _>(sql)?.unwrap_or(0) == 0, there_is_one());
    conn.query_drop(format!("CREATE DATABASE {SCHEMA}")).map_err(|error| match error {
        mysql::Error::MySqlError(said) => anyhow!("{address} may not create the schema {SCHEMA}: {}", said.message),
        other => other.into(),
    })
}

/// The lab cannot know whose schema of this name it is. A run that was interrupted leaves one.
fn there_is_one() -> String {
    format!(
        "the server has a schema {SCHEMA} already; the lab drops nothing that it did not create. If it is of a run \
         that was interrupted, remove it: DROP DATABASE {SCHEMA}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::address::parse;

    #[test]
    fn what_an_interrupted_run_leaves_can_be_removed() {
        assert!(there_is_one().ends_with("remove it: DROP DATABASE holdfast_lab"), "{}", there_is_one());
    }

    #[test]
    fn nobody_there_is_said_so() {
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = parse(&format!("mysql://root@127.0.0.1:{port}/")).unwrap();
        let error = connect(&address).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("no server answers there"), "{error}");
    }
}
