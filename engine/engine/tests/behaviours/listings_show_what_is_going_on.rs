//! What INFORMATION_SCHEMA and the monitor show, through the interface that they use.

use std::time::Duration;

use holdfast::raw::{Lifetime, RawDatabase, RawLock, RawRead, RawTransaction, Session};
use holdfast::{Cell, ColumnType, Database, Error, Isolation, Listing};

use crate::common::rows::begin_at;

/// The rows of a listing as text, a line each: `column=value` for the columns asked for.
fn rows(db: &RawDatabase, listing: Listing, columns: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    db.database().list(listing, &mut |row| {
        assert_eq!(row.len(), listing.columns().len(), "{listing:?}");
        let mut line = String::new();
        for (column, cell) in listing.columns().iter().zip(row) {
            assert!(column.nullable || *cell != Cell::Null, "{listing:?}.{}", column.name);
            let value = match (cell, column.column_type) {
                (Cell::Null, _) => "-".to_string(),
                (Cell::Unsigned(n), ColumnType::Unsigned) => n.to_string(),
                (Cell::Real(n), ColumnType::Real) => n.to_string(),
                (Cell::Text(text), ColumnType::Text(chars)) => {
                    assert!(text.chars().count() <= chars as usize, "{listing:?}.{}", column.name);
                    (*text).to_string()
                }
                (Cell::Time(_), ColumnType::Time) => "then".to_string(),
                other => panic!("{listing:?}.{}: {other:?}", column.name),
            };
            if columns.contains(&column.name) {
                line += &format!("{}={value} ", column.name);
            }
        }
        out.push(line.trim_end().to_string());
        true
    });
    out
}

fn begin(db: &RawDatabase, isolation: Isolation) -> RawTransaction {
    let mut txn = begin_at(db, isolation);
    txn.statement(Duration::from_secs(60)).unwrap();
    txn
}

/// A table of a server, with a row under "a" and one under "b".
fn database() -> RawDatabase {
    let db = RawDatabase::new(Database::in_memory().unwrap());
    db.create_table("test/t", &[("k", false), ("u", true)], b"", Lifetime::Lasting).unwrap();
    let table = db.open_table("test/t").unwrap();
    let mut txn = begin(&db, Isolation::RepeatableRead);
    for key in [b"a", b"b"] {
        txn.insert(&table, 0, key, b"row").unwrap();
        txn.insert(&table, 1, &[b"k", key.as_slice()].concat(), b"").unwrap();
    }
    txn.commit(holdfast::FlushAtCommit::Sync).unwrap();
    db
}

fn wait_until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        std::thread::yield_now();
    }
}

#[test]
fn every_row_has_a_cell_for_each_column() {
    let db = database();
    let mut open = begin(&db, Isolation::Serializable);
    let table = db.open_table("test/t").unwrap();
    open.get(&table, 0, b"a", Some(RawLock { exclusive: true, skip_locked: false, linked: false }), &mut Vec::new())
        .unwrap();
    for listing in Listing::ALL {
        let found = rows(&db, *listing, &[]).len();
        assert_eq!(found == 0, *listing == Listing::LockWaits, "{listing:?}");
    }
    let mut seen = 0;
    db.database().list(Listing::Metrics, &mut |_| {
        seen += 1;
        seen < 3
    });
    assert_eq!(seen, 3, "a listing stops when it is told to");
}

#[test]
fn indexes_and_their_pages_are_joined_by_number() {
    let db = database();
    assert_eq!(
        rows(&db, Listing::SysTables, &["SCHEMA", "NAME", "N_INDEXES", "N_ROWS"]),
        ["SCHEMA=test NAME=test/t N_INDEXES=3 N_ROWS=2"]
    );
    let indexes = rows(&db, Listing::SysIndexes, &["NAME", "TYPE", "N_ENTRIES"]);
    assert_eq!(indexes, ["NAME=PRIMARY TYPE=3 N_ENTRIES=2", "NAME=k TYPE=0 N_ENTRIES=2", "NAME=u TYPE=2 N_ENTRIES=0"]);
    let number = |line: &str| line.rsplit_once('=').unwrap().1.parse::<u64>().unwrap();
    let ids: Vec<u64> = rows(&db, Listing::SysIndexes, &["INDEX_ID"]).iter().map(|l| number(l)).collect();
    let pages = rows(&db, Listing::BufferPoolPagesIndex, &["index_id", "n_recs"]);
    assert!(pages.contains(&format!("index_id={} n_recs=2", ids[0])), "{pages:?}");
    let pages = rows(&db, Listing::BufferPage, &["PAGE_TYPE", "TABLE_NAME", "INDEX_NAME", "NUMBER_RECORDS"]);
    let row = "PAGE_TYPE=INDEX TABLE_NAME=`test`.`t` INDEX_NAME=k NUMBER_RECORDS=2";
    assert!(pages.iter().any(|page| page == row), "{pages:?}");
}

#[test]
fn a_lock_wait_shows_both_sides() {
    let db = database();
    db.set_sessions(|serial| {
        Some(Session { id: 100 + serial, query: "UPDATE t".into(), description: format!("thread id {}", 100 + serial) })
    });
    let table = db.open_table("test/t").unwrap();
    let (mut holder, mut waiter) = (begin(&db, Isolation::RepeatableRead), begin(&db, Isolation::ReadCommitted));
    let (h, w) = (holder.txn().serial(), waiter.txn().serial());
    holder.update(&table, 0, b"a", b"new").unwrap();
    std::thread::scope(|s| {
        s.spawn(|| waiter.update(&table, 0, b"a", b"newer").unwrap());
        wait_until(|| !rows(&db, Listing::LockWaits, &[]).is_empty());
        let columns = ["trx_id", "trx_state", "trx_requested_lock_id", "trx_wait_started", "trx_isolation_level"];
        let trx = rows(&db, Listing::Trx, &columns);
        assert!(trx[0].starts_with(&format!("trx_id={h} trx_state=RUNNING trx_requested_lock_id=- ")), "{trx:?}");
        assert!(trx[1].starts_with(&format!("trx_id={w} trx_state=LOCK WAIT trx_requested_lock_id={w}:")), "{trx:?}");
        assert!(trx[1].ends_with(":row:61 trx_wait_started=then trx_isolation_level=READ COMMITTED"), "{trx:?}");
        let sessions = rows(&db, Listing::Trx, &["trx_mysql_thread_id", "trx_query"]);
        assert_eq!(sessions[1], format!("trx_mysql_thread_id={} trx_query=UPDATE t", 100 + w));
        let ids = |l: &str| l.split(['=', ' ']).skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>();
        let wait = ids(&rows(&db, Listing::LockWaits, &["requested_lock_id", "blocking_lock_id"])[0]);
        let columns = ["lock_id", "lock_trx_id", "lock_status", "lock_table", "lock_index", "lock_data"];
        let locks = rows(&db, Listing::Locks, &columns);
        for (id, serial, status) in [(&wait[0], w, "WAITING"), (&wait[1], h, "GRANTED")] {
            let rest = format!("lock_status={status} lock_table=`test`.`t` lock_index=PRIMARY lock_data=61");
            assert!(locks.contains(&format!("lock_id={id} lock_trx_id={serial} {rest}")), "{locks:?}");
        }
        let text = db.database().status_text();
        let line = format!("index PRIMARY of table `test`.`t` trx id {w} lock mode X waiting\n key 61");
        assert!(text.contains(&line) && text.contains(&format!("thread id {}", 100 + w)), "{text}");
        holder.txn().rollback().unwrap();
    });
    assert!(rows(&db, Listing::LockWaits, &[]).is_empty());
}

#[test]
fn an_insert_waits_for_the_range_that_covers_it() {
    let db = database();
    let table = db.open_table("test/t").unwrap();
    let (mut reader, mut writer) = (begin(&db, Isolation::Serializable), begin(&db, Isolation::RepeatableRead));
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let lock = Some(RawLock { exclusive: false, skip_locked: false, linked: false });
    let mut cursor = reader.cursor(&table, 0, all, RawRead { lock, ..RawRead::default() }).unwrap();
    while cursor.next().unwrap().is_some() {}
    drop(cursor);
    std::thread::scope(|s| {
        s.spawn(|| writer.insert(&table, 0, b"c", b"row").unwrap());
        wait_until(|| !rows(&db, Listing::LockWaits, &[]).is_empty());
        let wait = &rows(&db, Listing::LockWaits, &["blocking_lock_id"])[0];
        let blocking = wait.strip_prefix("blocking_").unwrap();
        let locks = rows(&db, Listing::Locks, &["lock_id", "lock_type", "lock_status"]);
        assert!(locks.contains(&format!("{blocking} lock_type=RANGE lock_status=GRANTED")), "{blocking} {locks:?}");
        reader.txn().rollback().unwrap();
    });
}

#[test]
fn the_monitor_shows_the_latest_deadlock() {
    let db = database();
    db.set_sessions(|serial| Some(Session { description: format!("session of {serial}"), ..Session::default() }));
    let table = db.open_table("test/t").unwrap();
    assert!(!db.database().status_text().contains("DEADLOCK"));
    assert_eq!(db.database().latest_deadlock(), None);
    let (mut a, mut b) = (begin(&db, Isolation::RepeatableRead), begin(&db, Isolation::RepeatableRead));
    let (first, second) = (a.txn().serial(), b.txn().serial());
    a.update(&table, 0, b"a", b"1").unwrap();
    b.update(&table, 0, b"b", b"2").unwrap();
    std::thread::scope(|s| {
        let waits = s.spawn(|| a.update(&table, 0, b"b", b"1").unwrap());
        wait_until(|| !rows(&db, Listing::LockWaits, &[]).is_empty());
        // Equal cost: the youngest goes.
        assert!(matches!(b.update(&table, 0, b"a", b"2"), Err(Error::Deadlock)));
        b.txn().rollback().unwrap();
        assert!(waits.join().unwrap());
    });
    let text = db.database().status_text();
    assert!(text.contains(&db.database().latest_deadlock().unwrap()), "{text}");
    let (_, report) = text.split_once("LATEST DETECTED DEADLOCK\n").unwrap();
    let report = report.split_once("------------\nTRANSACTIONS").unwrap().0;
    let lines: Vec<&str> = report.lines().collect();
    let after = |line: &str| {
        let at = lines.iter().position(|l| *l == line).unwrap_or_else(|| panic!("no `{line}` in {report}"));
        &lines[at + 1..]
    };
    // The one that found the cycle comes first: either can.
    let victim = if after("*** (1) TRANSACTION:")[2] == format!("session of {second}") { 1 } else { 2 };
    let survivor = 3 - victim;
    let head = after(&format!("*** ({victim}) TRANSACTION:"));
    assert!(head[0].starts_with(&format!("TRANSACTION {second}, ACTIVE ")), "{report}");
    assert_eq!(head[2], format!("session of {second}"));
    let place = "index PRIMARY of table `test`.`t`";
    let wanted = after(&format!("*** ({victim}) WAITING FOR THIS LOCK TO BE GRANTED:"));
    assert!(wanted[0].ends_with(&format!("{place} trx id {second} lock mode X waiting")), "{report}");
    assert_eq!(wanted[1], " key 61");
    let held = after(&format!("*** ({survivor}) HOLDS THE LOCK(S):"));
    assert!(held[0].ends_with(&format!("{place} trx id {first}")) && held[1] == " key 61", "{report}");
    assert!(lines.contains(&format!("*** WE ROLL BACK TRANSACTION ({victim})").as_str()), "{report}");
}

#[test]
fn gauges_are_of_now() {
    let db = database();
    let shown = db.database().metrics_snapshot();
    let gauge = |name| shown.by_name(name).unwrap();
    assert_eq!(gauge("open_tables"), 1);
    assert!(gauge("buffer_pool_pages_data") > 0);
    assert_eq!(gauge("buffer_pool_pages_total"), gauge("buffer_pool_pages_data") + gauge("buffer_pool_pages_free"));
    assert_eq!(gauge("lsn_current"), db.database().stats().log.lsn);
    assert!(gauge("checkpoint_age") <= gauge("checkpoint_max_age"));
}

/// The pages were counted, but not what the disk was asked for: it was not wrapped.
#[test]
fn requests_to_the_disk_are_counted() {
    let db = database();
    let count = |name| db.database().metrics_snapshot().by_name(name).unwrap();
    let before = ["data_writes", "data_written", "data_fsyncs", "pages_written"].map(count);
    db.database().checkpoint().unwrap();
    let after = ["data_writes", "data_written", "data_fsyncs", "pages_written"].map(count);
    let pages = after[3] - before[3];
    assert!(pages > 0 && after[0] > before[0] && after[2] > before[2], "{before:?} {after:?}");
    assert!(after[1] - before[1] >= pages * count("page_size"), "{before:?} {after:?}");
}

/// What is called with a row may ask for listings: the one with the rates of the cache once kept
/// its lock meanwhile.
#[test]
fn a_listing_may_be_asked_for_within_a_listing() {
    let db = Database::in_memory().unwrap();
    for outer in Listing::ALL {
        db.list(*outer, &mut |_| {
            Listing::ALL.iter().for_each(|inner| db.list(*inner, &mut |_| true));
            assert!(db.status_text().contains("END OF") && db.latest_deadlock().is_none());
            false
        });
    }
}
