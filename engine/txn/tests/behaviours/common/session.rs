//! Transactions on threads of their own, driven step by step: a step either finishes, or is seen to
//! wait for a lock.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use holdfast_base::Result;
use holdfast_txn::*;

use super::Db;

type Step = Box<dyn FnOnce(&mut Txn) + Send>;

/// A transaction on a thread.
pub struct Session {
    sys: Arc<TxnSystem>,
    serial: Serial,
    steps: Option<Sender<Step>>,
    thread: Option<JoinHandle<()>>,
    rows: Arc<TableIndex>,
}

/// A step under way.
pub struct Pending<T> {
    sys: Arc<TxnSystem>,
    serial: Serial,
    result: Receiver<Result<T>>,
}

impl<T> Pending<T> {
    /// Asserts that the step waits for a lock.
    #[must_use]
    pub fn blocked(self) -> Pending<T> {
        loop {
            match self.result.try_recv() {
                Ok(_) => panic!("the step was expected to wait"),
                Err(TryRecvError::Disconnected) => panic!("the session ended"),
                Err(TryRecvError::Empty) => {}
            }
            let waits = |t: &TrxInfo| t.serial == self.serial && t.waiting.is_some();
            if self.sys.transactions().iter().any(waits) {
                return self;
            }
            std::thread::yield_now();
        }
    }

    /// The step's result, once it is there.
    pub fn result(self) -> Result<T> {
        self.result.recv().expect("the session is alive")
    }
}

impl Session {
    pub fn new(db: &Db, options: TxnOptions) -> Session {
        let mut txn = db.sys.begin(options);
        let serial = txn.serial();
        let (steps, inbox) = channel::<Step>();
        let thread = std::thread::spawn(move || {
            while let Ok(step) = inbox.recv() {
                step(&mut txn);
            }
        });
        Session { sys: db.sys.clone(), serial, steps: Some(steps), thread: Some(thread), rows: db.rows.clone() }
    }

    pub fn run<T: Send + 'static>(&self, f: impl FnOnce(&mut Txn) -> Result<T> + Send + 'static) -> Pending<T> {
        let (send, result) = channel();
        let step: Step = Box::new(move |txn| {
            let begun = txn.statement_begin();
            let outcome = begun.and_then(|savepoint| {
                f(txn).inspect_err(|_| {
                    // A failed statement is undone; the transaction goes on.
                    let _ = txn.rollback_to(savepoint);
                })
            });
            let _ = send.send(outcome);
        });
        self.steps.as_ref().unwrap().send(step).unwrap();
        Pending { sys: self.sys.clone(), serial: self.serial, result }
    }

    /// UPDATE test SET value = v WHERE id = k.
    pub fn update(&self, key: &'static str, value: &'static str) -> Pending<bool> {
        let rows = self.rows.clone();
        self.run(move |t| t.update(&rows, key.as_bytes(), value.as_bytes(), None))
    }

    pub fn insert(&self, key: &'static str, value: &'static str) -> Pending<()> {
        let rows = self.rows.clone();
        self.run(move |t| t.insert(&rows, key.as_bytes(), value.as_bytes()))
    }

    /// SELECT value FROM test WHERE id = k.
    pub fn get(&self, key: &'static str) -> Pending<String> {
        let rows = self.rows.clone();
        self.run(move |t| {
            let mut value = Vec::new();
            t.get(&rows, key.as_bytes(), &mut value)?;
            Ok(String::from_utf8(value).unwrap())
        })
    }

    /// SELECT * FROM test WHERE <filter on the value>.
    pub fn select(&self, filter: fn(u64) -> bool) -> Pending<Vec<(String, String)>> {
        let rows = self.rows.clone();
        self.run(move |t| {
            let mut found =
                crate::common::scan_with(t, &rows, Bound::Unbounded, Bound::Unbounded, CursorOptions::default())?;
            found.retain(|(_, v)| filter(v.parse().unwrap()));
            Ok(found)
        })
    }

    /// DELETE or UPDATE by a filter on the value, as a server does it: a locking scan, then the
    /// change of each row.
    pub fn change(&self, filter: fn(u64) -> bool, new: Option<fn(u64) -> u64>) -> Pending<usize> {
        let rows = self.rows.clone();
        self.run(move |t| {
            let options = CursorOptions { lock: Some(LockMode::Exclusive), ..CursorOptions::default() };
            let mut cursor = t.cursor(&rows, Bound::Unbounded, Bound::Unbounded, options)?;
            let mut n = 0;
            loop {
                let Some((k, v)) = cursor.next()? else { return Ok(n) };
                let (k, v) = (k.to_vec(), std::str::from_utf8(v).unwrap().parse::<u64>().unwrap());
                if !filter(v) {
                    cursor.unlock();
                    continue;
                }
                n += 1;
                match new {
                    Some(f) => t.update(&rows, &k, f(v).to_string().as_bytes(), None)?,
                    None => t.delete(&rows, &k, None)?,
                };
            }
        })
    }

    pub fn commit(&self) -> Result<()> {
        self.run(|t| t.commit(FlushAtCommit::Sync)).result()
    }

    pub fn rollback(&self) {
        self.run(|t| t.rollback()).result().unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.steps = None;
        let _ = self.thread.take().unwrap().join();
    }
}
