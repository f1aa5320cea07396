//! The cache: in one row, and page by page.

use holdfast_base::IndexId;
use holdfast_base::page::PageType;
use holdfast_metrics::{Counter, Gauge};
use holdfast_pool::{FrameInfo, OptPage, Queue};
use holdfast_tree::node::NodeRef;

use super::cells::{Cell, Column, EachRow, NAME};
use crate::instance::Instance;
use crate::instance::rates::Previous;
use crate::observe::names::Names;

pub(super) const PAGE: &[Column] = &[
    Column::number("POOL_ID"),
    Column::number("BLOCK_ID"),
    Column::number("SPACE"),
    Column::number("PAGE_NUMBER"),
    Column::text("PAGE_TYPE", 64),
    Column::number("NEWEST_MODIFICATION"),
    Column::number("OLDEST_MODIFICATION"),
    Column::text("TABLE_NAME", NAME).or_null(),
    Column::text("INDEX_NAME", NAME).or_null(),
    Column::number("NUMBER_RECORDS"),
    Column::number("DATA_SIZE"),
    Column::text("PAGE_STATE", 64),
    Column::text("IO_FIX", 64),
    Column::text("IS_OLD", 3),
    Column::text("QUEUE", 16),
];

pub(super) const PAGES_INDEX: &[Column] = &[
    Column::number("index_id"),
    Column::number("space_id"),
    Column::number("page_no"),
    Column::number("n_recs"),
    Column::number("data_size"),
    Column::number("dirty"),
    Column::number("old"),
];

pub(super) const STATS: &[Column] = &[
    Column::number("POOL_ID"),
    Column::number("POOL_SIZE"),
    Column::number("FREE_BUFFERS"),
    Column::number("DATABASE_PAGES"),
    Column::number("OLD_DATABASE_PAGES"),
    Column::number("MODIFIED_DATABASE_PAGES"),
    Column::number("PAGES_MADE_YOUNG"),
    Column::number("PAGES_NOT_MADE_YOUNG"),
    Column::real("PAGES_MADE_YOUNG_RATE"),
    Column::real("PAGES_MADE_NOT_YOUNG_RATE"),
    Column::number("NUMBER_PAGES_READ"),
    Column::number("NUMBER_PAGES_CREATED"),
    Column::number("NUMBER_PAGES_WRITTEN"),
    Column::real("PAGES_READ_RATE"),
    Column::real("PAGES_CREATE_RATE"),
    Column::real("PAGES_WRITTEN_RATE"),
    Column::number("NUMBER_PAGES_GET"),
    Column::number("HIT_RATE"),
    Column::number("YOUNG_MAKE_PER_THOUSAND_GETS"),
    Column::number("NOT_YOUNG_MAKE_PER_THOUSAND_GETS"),
    Column::number("NUMBER_PAGES_READ_AHEAD"),
    Column::number("NUMBER_READ_AHEAD_EVICTED"),
    Column::real("READ_AHEAD_RATE"),
    Column::real("READ_AHEAD_EVICTED_RATE"),
];

/// Not protected from being evicted: on trial, passing by, or behind the midpoint.
fn is_old(queue: Queue) -> bool {
    matches!(queue, Queue::Small | Queue::Ring | Queue::Old)
}

fn queue_name(queue: Queue) -> &'static str {
    match queue {
        Queue::None => "none",
        Queue::Small => "small",
        Queue::Main => "main",
        Queue::Ring => "ring",
        Queue::Young => "young",
        Queue::Old => "old",
    }
}

fn page_type_name(page: &FrameInfo) -> &'static str {
    match page.owner.page_type() {
        Some(PageType::Free) => "FREE",
        Some(PageType::SpaceHeader) => "FILE_SPACE_HEADER",
        Some(PageType::Allocation) => "ALLOCATION",
        Some(PageType::Tree) => "INDEX",
        Some(PageType::Overflow) => "BLOB",
        Some(PageType::Undo) => "UNDO_LOG",
        Some(PageType::UndoDirectory) => "UNDO_DIRECTORY",
        None => "UNKNOWN",
    }
}

/// Entries of a page and the bytes that they take; of a page that is no node, nothing and all of
/// it.
fn content(page: &FrameInfo, bytes: &OptPage<'_>, page_size: u64) -> (u64, u64) {
    match page.owner.page_type() {
        Some(PageType::Tree) => {
            let node = NodeRef::assume(bytes);
            (node.count().unwrap_or(0) as u64, node.used_space().unwrap_or(0) as u64)
        }
        Some(PageType::Free) | None => (0, 0),
        Some(_) => (0, page_size),
    }
}

pub(super) fn pages(instance: &Instance, each: &mut EachRow<'_>) {
    let (names, page_size) = (Names::of(instance), instance.meta.page_size as u64);
    let mut on = true;
    instance.pool().each_page(&mut |page, bytes| {
        if !on {
            return;
        }
        let name = if page.owner.index == IndexId(0) { None } else { names.get(page.owner.index) };
        let table = name.map(|n| n.sql_table());
        let (records, data_size) = content(page, bytes, page_size);
        on = each(&[
            Cell::Unsigned(0),
            Cell::Unsigned(u64::from(page.frame)),
            Cell::Unsigned(u64::from(page.id.space.0)),
            Cell::Unsigned(u64::from(page.id.no.0)),
            Cell::Text(page_type_name(page)),
            Cell::Unsigned(page.lsn.0),
            Cell::Unsigned(page.dirty_since.map_or(0, |lsn| lsn.0)),
            Cell::text(table.as_deref()),
            Cell::text(name.map(|n| n.index.as_str())),
            Cell::Unsigned(records),
            Cell::Unsigned(data_size),
            Cell::Text("FILE_PAGE"),
            Cell::Text(if page.writing { "IO_WRITE" } else { "IO_NONE" }),
            Cell::Text(if is_old(page.queue) { "YES" } else { "NO" }),
            Cell::Text(queue_name(page.queue)),
        ]);
    });
}

pub(super) fn pages_of_indexes(instance: &Instance, each: &mut EachRow<'_>) {
    let page_size = instance.meta.page_size as u64;
    let mut on = true;
    instance.pool().each_page(&mut |page, bytes| {
        let of_index = matches!(page.owner.page_type(), Some(PageType::Tree | PageType::Overflow));
        if !on || !of_index {
            return;
        }
        let (records, data_size) = content(page, bytes, page_size);
        on = each(&[
            Cell::Unsigned(u64::from(page.owner.index.0)),
            Cell::Unsigned(u64::from(page.id.space.0)),
            Cell::Unsigned(u64::from(page.id.no.0)),
            Cell::Unsigned(records),
            Cell::Unsigned(data_size),
            Cell::flag(page.dirty_since.is_some()),
            Cell::flag(is_old(page.queue)),
        ]);
    });
}

pub(super) fn stats(instance: &Instance, each: &mut EachRow<'_>) {
    let now = Previous::new(instance.publish_metrics());
    // Released before `each` is called, which may ask for this listing, too.
    let previous = std::mem::replace(&mut *instance.pool_stats_since.lock(), now.clone());
    let (delta, seconds) = now.since(&previous);
    let total = now.snapshot();
    let gauge = |gauge| Cell::Unsigned(total.gauge(gauge));
    let count = |counter| Cell::Unsigned(total.get(counter));
    let rate = |counter| Cell::Real(delta.get(counter) as f64 / seconds);
    let gets = delta.get(Counter::BufferPoolReadRequests);
    let per_mille = |counter| (delta.get(counter).min(gets) * 1000).checked_div(gets).unwrap_or(0);
    let hit_rate = if gets == 0 { 0 } else { 1000 - per_mille(Counter::BufferPoolReads) };
    each(&[
        Cell::Unsigned(0),
        gauge(Gauge::PagesTotal),
        gauge(Gauge::PagesFree),
        gauge(Gauge::PagesData),
        gauge(Gauge::PagesOld),
        gauge(Gauge::PagesDirty),
        count(Counter::PagesMadeYoung),
        count(Counter::PagesNotMadeYoung),
        rate(Counter::PagesMadeYoung),
        rate(Counter::PagesNotMadeYoung),
        count(Counter::PagesRead),
        count(Counter::PagesCreated),
        count(Counter::PagesWritten),
        rate(Counter::PagesRead),
        rate(Counter::PagesCreated),
        rate(Counter::PagesWritten),
        count(Counter::BufferPoolReadRequests),
        Cell::Unsigned(hit_rate),
        Cell::Unsigned(per_mille(Counter::PagesMadeYoung)),
        Cell::Unsigned(per_mille(Counter::PagesNotMadeYoung)),
        count(Counter::ReadAhead),
        count(Counter::ReadAheadEvicted),
        rate(Counter::ReadAhead),
        rate(Counter::ReadAheadEvicted),
    ]);
}
