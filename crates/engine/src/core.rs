//! What all handles share.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_metrics::Metrics;

use crate::database::TableInfo;
use crate::definition::{IndexSpec, TableDefinition};
use crate::options::{FlushAtCommit, ReadOptions, WaitMode, WriteOptions};
use crate::schema::TableHandle;
use crate::settings::ReplacementPolicy;
use crate::types::{Key, Value};
use crate::{Error, Result};

pub(crate) fn stub<T>() -> Result<T> {
    Err(Error::invalid("not wired yet"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Shared,
    Exclusive,
}

#[derive(Clone, Debug)]
pub(crate) struct SavepointId;

pub(crate) struct Shared {
    pub metrics: Arc<Metrics>,
    pub status_since: parking_lot::Mutex<crate::status::Previous>,
}

impl Shared {
    pub(crate) fn begin_read(self: &Arc<Self>) -> Result<Context> {
        stub()
    }
    pub(crate) fn begin_write(self: &Arc<Self>, _options: &WriteOptions) -> Result<Context> {
        stub()
    }
    pub(crate) fn list_tables(&self) -> Vec<TableInfo> {
        Vec::new()
    }
    pub(crate) fn checkpoint(&self) -> Result<()> {
        stub()
    }
    pub(crate) fn set_cache_size(&self, _bytes: u64) -> Result<()> {
        stub()
    }
    pub(crate) fn set_policy(&self, _policy: ReplacementPolicy) -> Result<()> {
        stub()
    }
    pub(crate) fn set_scan_hints(&self, _on: bool) {}
    pub(crate) fn close(&self) -> Result<()> {
        stub()
    }
    pub(crate) fn describe(&self) -> String {
        String::new()
    }
}

/// A transaction's state.
pub(crate) struct Context {}

impl Context {
    pub(crate) fn table(&self, _name: &str) -> Result<Arc<TableHandle>> {
        stub()
    }
    pub(crate) fn table_or_create<K: Key, V: Value>(
        &self,
        _definition: &TableDefinition<K, V>,
    ) -> Result<Arc<TableHandle>> {
        stub()
    }
    pub(crate) fn register_writer(&self, _handle: &Arc<TableHandle>) -> Result<()> {
        stub()
    }
    pub(crate) fn table_names(&self) -> Vec<String> {
        Vec::new()
    }
    pub(crate) fn get(&self, _t: &TableHandle, _key: &[u8], _out: &mut Vec<u8>) -> Result<bool> {
        stub()
    }
    pub(crate) fn get_locked(
        &self,
        _t: &TableHandle,
        _key: &[u8],
        _kind: LockKind,
        _wait: WaitMode,
        _out: &mut Vec<u8>,
    ) -> Result<bool> {
        stub()
    }
    pub(crate) fn insert(&self, _t: &TableHandle, _ix: &[IndexSpec], _key: &[u8], _value: &[u8]) -> Result<()> {
        stub()
    }
    pub(crate) fn upsert(&self, _t: &TableHandle, _ix: &[IndexSpec], _key: &[u8], _value: &[u8]) -> Result<bool> {
        stub()
    }
    pub(crate) fn update(&self, _t: &TableHandle, _ix: &[IndexSpec], _key: &[u8], _value: &[u8]) -> Result<bool> {
        stub()
    }
    pub(crate) fn delete(&self, _t: &TableHandle, _ix: &[IndexSpec], _key: &[u8]) -> Result<bool> {
        stub()
    }
    pub(crate) fn estimate(&self, _t: &TableHandle, _bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Result<u64> {
        stub()
    }
    pub(crate) fn savepoint(&self) -> Result<SavepointId> {
        stub()
    }
    pub(crate) fn rollback_to(&self, _savepoint: &SavepointId) -> Result<()> {
        stub()
    }
    pub(crate) fn commit(&self, _flush: Option<FlushAtCommit>) -> Result<()> {
        stub()
    }
    pub(crate) fn rollback(&self) -> Result<()> {
        stub()
    }
}

/// A cursor over byte strings.
pub(crate) struct RawCursor<'t> {
    _context: &'t Context,
}

impl<'t> RawCursor<'t> {
    pub(crate) fn new(
        context: &'t Context,
        _handle: Arc<TableHandle>,
        _options: &ReadOptions,
        _lock: Option<(LockKind, WaitMode)>,
    ) -> RawCursor<'t> {
        RawCursor { _context: context }
    }
    pub(crate) fn on_index(
        context: &'t Context,
        _handle: Arc<TableHandle>,
        _no: usize,
        _options: &ReadOptions,
    ) -> RawCursor<'t> {
        RawCursor { _context: context }
    }
    pub(crate) fn seek(&mut self, _from: Bound<&[u8]>, _to: Bound<&[u8]>, _direction: Direction) -> Result<()> {
        stub()
    }
    pub(crate) fn next(&mut self, _key: &mut Vec<u8>, _value: &mut Vec<u8>) -> Result<bool> {
        stub()
    }
}
