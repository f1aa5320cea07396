//! Whose transactions are whose: the caller says which of its sessions runs a transaction, for
//! listings and the monitor.

use std::ffi::c_void;

use holdfast::raw::{self, WaitObserver};

use crate::handle::{entry_points, shared, take};
use crate::{Buffer, Code, Database};

/// What the caller knows of a session. The buffers are the library's; the caller appends to them.
#[repr(C)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// Its statement.
    pub query: *mut Buffer,
    /// What the session is and does, in words.
    pub description: *mut Buffer,
}

/// Finds the session of the transaction with a number, as `hf_transaction_info` tells it; whether
/// there is one.
pub type FindSession = extern "C" fn(context: *mut c_void, serial: u64, out: *mut Session) -> bool;

/// The caller's function with what it wants to be called with.
struct Finder(FindSession, *mut c_void);

// SAFETY: the caller promises that its function may be called from any thread with this context.
unsafe impl Send for Finder {}
// SAFETY: as above.
unsafe impl Sync for Finder {}

impl Finder {
    fn find(&self, serial: u64) -> Option<raw::Session> {
        let (mut query, mut description) = (Buffer(Vec::new()), Buffer(Vec::new()));
        let mut found = Session { id: 0, query: &raw mut query, description: &raw mut description };
        if !self.0(self.1, serial, &raw mut found) {
            return None;
        }
        let text = |buffer: Buffer| String::from_utf8_lossy(&buffer.0).into_owned();
        Some(raw::Session { id: found.id, query: text(query), description: text(description) })
    }
}

/// The transactions of which an observer is told if a thread is going to wait.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitInterest {
    /// None.
    None = 0,
    /// Those that hold what it waits for.
    Holders = 1,
    /// Also those that are ahead of it; anew whenever another one comes to be before it.
    All = 2,
}

/// Returns of which transactions it has to be told if the calling thread is going to wait.
pub type Interest = extern "C" fn(context: *mut c_void) -> WaitInterest;

/// Is told that a transaction is going to wait for others, all by their numbers; those of the
/// others are sorted.
pub type WaitsFor = extern "C" fn(context: *mut c_void, waiter: u64, others: *const u64, count: usize);

/// Is told that the calling thread is going to sleep, or has woken up.
pub type Sleeps = extern "C" fn(context: *mut c_void, begins: bool);

/// True if the session of the calling thread is to end its wait, or its work: it has been killed.
pub type GivesUp = extern "C" fn(context: *mut c_void) -> bool;

/// The caller's functions with what they want to be called with.
struct Observer {
    interest: Interest,
    waits_for: WaitsFor,
    sleeps: Sleeps,
    gives_up: GivesUp,
    context: *mut c_void,
}

// SAFETY: the caller promises that its functions may be called from any thread with this context.
unsafe impl Send for Observer {}
// SAFETY: as above.
unsafe impl Sync for Observer {}

impl WaitObserver for Observer {
    fn interest(&self) -> raw::WaitInterest {
        match (self.interest)(self.context) {
            WaitInterest::None => raw::WaitInterest::None,
            WaitInterest::Holders => raw::WaitInterest::Holders,
            WaitInterest::All => raw::WaitInterest::All,
        }
    }

    fn waits_for(&self, waiter: u64, others: &[u64]) {
        (self.waits_for)(self.context, waiter, others.as_ptr(), others.len());
    }

    fn begins(&self) {
        (self.sleeps)(self.context, true);
    }

    fn ends(&self) {
        (self.sleeps)(self.context, false);
    }

    fn gives_up(&self) -> bool {
        (self.gives_up)(self.context)
    }
}

entry_points! {
    /// Registers functions that threads call when they wait for a lock: with the transactions for
    /// which they wait, as far as `interest` asks for it, and when they sleep. In waits for other
    /// things the thread calls `gives_up`; see `hf_wake_waits`. So it does now and then in
    /// `hf_table_verify`, `hf_load_finish`, `hf_alter_finish` and `hf_alter_commit`, and where a
    /// change of a definition reads or undoes what a transaction without a session has changed:
    /// these end with [`Code::Interrupted`] then. The functions are called with `context` until the
    /// database is closed, and must not call the database nor wait for a transaction. The first
    /// ones stay.
    fn hf_observe_waits(
        database: *const Database,
        interest: Option<Interest>,
        waits_for: Option<WaitsFor>,
        sleeps: Option<Sleeps>,
        gives_up: Option<GivesUp>,
        context: *mut c_void,
    ) {
        let database = take!(shared(database))?;
        let functions = (interest, waits_for, sleeps, gives_up);
        if let (Some(interest), Some(waits_for), Some(sleeps), Some(gives_up)) = functions {
            database.0.set_wait_observer(Observer { interest, waits_for, sleeps, gives_up, context });
        }
        Ok(Code::Ok)
    }

    /// Has sessions that wait for writers of a table, or for rollbacks, ask `gives_up` of
    /// `hf_observe_waits` again: one of them has been killed. `hf_kill` ends waits for locks of a
    /// transaction.
    fn hf_wake_waits(database: *const Database) {
        take!(shared(database))?.0.wake_waits();
        Ok(Code::Ok)
    }

    /// Lets `find` say which sessions run the transactions. It is called from any thread, with
    /// `context`, until the database is closed; it must not call the database nor wait for a
    /// transaction. The first one stays.
    fn hf_set_sessions(database: *const Database, find: Option<FindSession>, context: *mut c_void) {
        let database = take!(shared(database))?;
        if let Some(find) = find {
            let finder = Finder(find, context);
            database.0.set_sessions(move |serial| finder.find(serial));
        }
        Ok(Code::Ok)
    }
}
