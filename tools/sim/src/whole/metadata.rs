//! The uses of tables whose indexes change: what the metadata locks of a database server are to its
//! handler.
//!
//! A transaction *shares* a table from its first use to its end, or until it is left prepared. A
//! change of its definition has it *alone* at its beginning and at its end. In between other
//! sessions use the table, and keep up what is being added.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_base::blocking::{Condvar, Mutex};
use holdfast_base::time::Instant;

use super::raw_rows::Subject;

#[derive(Default)]
struct Use {
    sharers: usize,
    alone: bool,
    /// What the indexes are about that are being added.
    added: Vec<Subject>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Metadata {
    uses: Mutex<BTreeMap<String, Use>>,
    changed: Condvar,
}

/// A table is shared.
pub(super) struct Shared {
    metadata: Arc<Metadata>,
    pub name: String,
    pub added: Vec<Subject>,
}

/// A table that no other session uses.
pub(super) struct Alone {
    metadata: Arc<Metadata>,
    name: String,
}

impl Metadata {
    /// Shares a table; waits for `limit`.
    pub fn share(self: &Arc<Self>, name: &str, limit: Duration) -> Option<Shared> {
        let added = self.take(name, limit, |used| {
            let free = !used.alone;
            used.sharers += usize::from(free);
            free.then(|| used.added.clone())
        })?;
        Some(Shared { metadata: Arc::clone(self), name: name.into(), added })
    }

    /// Has a table alone; waits for `limit`.
    pub fn alone(self: &Arc<Self>, name: &str, limit: Duration) -> Option<Alone> {
        self.take(name, limit, |used| {
            let free = !used.alone && used.sharers == 0;
            used.alone |= free;
            free.then_some(())
        })?;
        Some(Alone { metadata: Arc::clone(self), name: name.into() })
    }

    fn take<T>(&self, name: &str, limit: Duration, mut attempt: impl FnMut(&mut Use) -> Option<T>) -> Option<T> {
        let until = Instant::now().checked_add(limit)?;
        let mut uses = self.uses.lock();
        loop {
            if let Some(taken) = attempt(uses.entry(name.into()).or_default()) {
                return Some(taken);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.changed.wait_for(&mut uses, left);
        }
    }

    fn give_back(&self, name: &str, change: impl FnOnce(&mut Use)) {
        change(self.uses.lock().entry(name.into()).or_default());
        self.changed.notify_all();
    }
}

impl Alone {
    /// Says what the indexes are about that are being added from now on.
    pub fn set_added(&self, added: &[Subject]) {
        self.metadata.give_back(&self.name, |used| used.added = added.to_vec());
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.metadata.give_back(&self.name, |used| used.sharers -= 1);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.metadata.give_back(&self.name, |used| used.alone = false);
    }
}
