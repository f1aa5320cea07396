//! A target without an engine: generated rows behind an LRU list of page numbers and a sleeping
//! disk arm. Under "holdfast" it keeps the dump's pages out of the list, and does nothing else
//! about replacement.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_lab::clock::PausableClock;
use holdfast_lab::experiments::sideload::scale::Scale;
use holdfast_lab::experiments::sideload::{BIG, HOT};
use holdfast_lab::target::{Connection, IndexState, Policy, PoolState, Query, Site, Target, TargetSpec};
use holdfast_workload::dump::{Formatter, Written, dump};
use holdfast_workload::sysbench::{self, RowSql, SbRow, Sql};
use holdfast_workload::{Failure, RowSink, Rows, Scan, TableNo};
use parking_lot::Mutex;

const ROWS_PER_PAGE: u32 = 75;
const PAGE: u64 = 16 << 10;

pub struct FakeSite {
    pub scale: Scale,
    pub slow: Arc<AtomicBool>,
}

impl Site for FakeSite {
    fn open(&self, spec: &TargetSpec) -> anyhow::Result<Arc<dyn Target>> {
        Ok(Arc::new(FakeTarget {
            rows: [self.scale.hot_rows(), self.scale.big_rows()],
            keeps_dump_out: matches!(spec.policy, Policy::Holdfast { .. }) && spec.copy == 0,
            seek: self.scale.disk().seek,
            frames: (spec.pool_bytes / PAGE) as usize,
            pool: Mutex::new(Lru::default()),
            arm: Mutex::new(()),
            slow: Arc::clone(&self.slow),
            clock: Arc::new(PausableClock::new()),
        }))
    }

    fn target_name(&self) -> &'static str {
        "fake"
    }

    fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Lru {
    tick: u64,
    pages: HashMap<(usize, u32), u64>,
    order: BTreeMap<u64, (usize, u32)>,
    gets: [u64; 2],
    reads: [u64; 2],
    young: u64,
}

struct FakeTarget {
    rows: [u32; 2],
    keeps_dump_out: bool,
    seek: Duration,
    frames: usize,
    pool: Mutex<Lru>,
    arm: Mutex<()>,
    slow: Arc<AtomicBool>,
    clock: Arc<PausableClock>,
}

impl FakeTarget {
    /// Touches a page. True if it had to be read.
    fn touch(&self, table: usize, page: u32) -> bool {
        let mut pool = self.pool.lock();
        let pool = &mut *pool;
        pool.tick += 1;
        pool.gets[table] += 1;
        let known = pool.pages.get(&(table, page)).copied();
        if known.is_none() {
            pool.reads[table] += 1;
            if self.keeps_dump_out && table == 1 {
                return true;
            }
            if pool.pages.len() >= self.frames
                && let Some((_, victim)) = pool.order.pop_first()
            {
                pool.pages.remove(&victim);
            }
        } else {
            pool.young += 1;
        }
        if let Some(tick) = known {
            pool.order.remove(&tick);
        }
        pool.order.insert(pool.tick, (table, page));
        pool.pages.insert((table, page), pool.tick);
        known.is_none()
    }

    fn fix(&self, table: usize, id: u32) {
        let page = (id - 1) / ROWS_PER_PAGE;
        if self.touch(table, page) && self.slow.load(Ordering::Relaxed) && (table == 0 || page.is_multiple_of(32)) {
            let _arm = self.arm.lock();
            std::thread::sleep(self.seek);
        }
    }
}

impl Target for FakeTarget {
    fn connect(&self) -> anyhow::Result<Box<dyn Connection + '_>> {
        Ok(Box::new(FakeConnection(RowSql::new(FakeRows(self), TableNo(0)))))
    }

    fn pool(&self) -> anyhow::Result<PoolState> {
        let pool = self.pool.lock();
        let resident = |table| pool.pages.keys().filter(|(t, _)| *t == table).count() as u64;
        let index = |name: &str, table: usize| IndexState {
            table: name.to_owned(),
            index: "PRIMARY".to_owned(),
            resident_pages: resident(table),
        };
        Ok(PoolState {
            page_bytes: PAGE,
            pool_pages: self.frames as u64,
            free_pages: (self.frames - pool.pages.len()) as u64,
            database_pages: pool.pages.len() as u64,
            made_young: pool.young,
            gets: pool.gets.iter().sum(),
            indexes: vec![index(HOT, 0), index(BIG, 1)],
            disk_reads: vec![(HOT.to_owned(), pool.reads[0]), (BIG.to_owned(), pool.reads[1])],
            ..PoolState::default()
        })
    }

    fn clock(&self) -> &Arc<PausableClock> {
        &self.clock
    }
}

struct FakeRows<'t>(&'t FakeTarget);

struct FakeConnection<'t>(RowSql<FakeRows<'t>>);

impl Connection for FakeConnection<'_> {
    fn sql(&mut self) -> &mut dyn Sql {
        &mut self.0
    }

    fn dump(
        &mut self,
        table: TableNo,
        formatter: &mut Formatter,
        scan: Scan,
        after_row: &mut dyn FnMut(&Written) -> bool,
    ) -> Result<Written, Failure> {
        dump(self.0.rows_mut(), table, formatter, scan, after_row)
    }

    fn query(&mut self, _: Query) -> Result<f64, Failure> {
        Err(Failure::fatal("no report queries here"))
    }
}

impl FakeRows<'_> {
    fn row(&self, table: usize, id: u32, row: &mut Vec<u8>) {
        if self.0.touch_needed(id) {
            self.0.fix(table, id);
        }
        SbRow::initial(1, id, self.0.rows[table]).encode(&sysbench::schema(), row);
    }
}

impl FakeTarget {
    /// One touch per leaf visit is enough for a range; a point select is always one.
    fn touch_needed(&self, id: u32) -> bool {
        (id - 1).is_multiple_of(ROWS_PER_PAGE)
    }
}

impl Rows for FakeRows<'_> {
    fn begin(&mut self, _: bool) -> Result<(), Failure> {
        Ok(())
    }
    fn commit(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    fn rollback(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    fn get(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool, Failure> {
        let id = sysbench::id_of(key)?;
        self.0.fix(table.0, id);
        SbRow::initial(1, id, self.0.rows[table.0]).encode(&sysbench::schema(), row);
        Ok(true)
    }
    fn get_for_update(&mut self, table: TableNo, key: &[u8], row: &mut Vec<u8>) -> Result<bool, Failure> {
        self.get(table, key, row)
    }
    fn range(
        &mut self,
        table: TableNo,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        _: Scan,
        sink: RowSink<'_>,
    ) -> Result<(), Failure> {
        let first = from.map_or(Ok(1), sysbench::id_of)?;
        let last = to.map_or(Ok(u32::MAX), sysbench::id_of)?.min(self.0.rows[table.0]);
        let mut row = Vec::new();
        for id in first..=last {
            if id == first {
                self.0.fix(table.0, id);
            }
            self.row(table.0, id, &mut row);
            if !sink(&sysbench::key(id), &row)? {
                break;
            }
        }
        Ok(())
    }
    fn put(&mut self, _: TableNo, _: &[u8], _: &[u8]) -> Result<(), Failure> {
        Err(Failure::fatal("read-only"))
    }
    fn delete(&mut self, _: TableNo, _: &[u8]) -> Result<bool, Failure> {
        Err(Failure::fatal("read-only"))
    }
}
