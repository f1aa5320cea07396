//! What damage of the undo space costs: old versions, and nothing else. What becomes of a log that
//! asks something about a table which could not be opened.
//!
//! Purge copies what old views need to the version tree before it frees a record, and takes logs in
//! commit order. Damage must not stop that for the whole database:
//! * A committed log with a damaged page is *set aside*. It is neither purged nor freed, and what
//!   it put into the version tree stays there, since nothing else says which of the two owns a
//!   chain that both name. The delete marks and chains that it should have removed stay in their
//!   tables.
//!   So is a log with a page that the device does not return twice in the same place: the next open
//!   tries it again.
//! * A record on the shelf that does not decode is passed over. Its log is retired already.
//! * Where the version tree is damaged, or not returned, a version that a view needs is not kept.
//! * A committed log with a delete mark or a chain in a table that could not be opened is set
//!   aside, too, as far as it is not purged: the next open may find the table, and the log. No
//!   version is lost by that.
//!
//! A reader that finds a version in neither place takes it that there is none for its view. So
//! views that are older than what was lost get the damage as an error there. Views to come need
//! none of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::blocking::Mutex;
use holdfast_base::{CommitNo, Error, Result, TxnId};

use crate::mvcc::view::View;
use crate::purge::history::{CommittedLog, Phase};

/// A log, and how far its purge has come.
type Place = (TxnId, Phase, u64, usize);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LostVersions {
    /// Views that are older than this commit may miss something; 0: nothing is lost.
    upto: AtomicU64,
    what: Mutex<(Option<Error>, BTreeSet<TxnId>)>,
    /// Where a page that was not returned has stopped purge.
    stopped_at: Mutex<Option<Place>>,
}

impl LostVersions {
    /// What views needed of the commits up to `no` is lost, or part of it.
    pub fn note(&self, no: CommitNo, error: &Error) {
        self.what.lock().0.get_or_insert_with(|| error.clone());
        self.upto.fetch_max(no.0, Ordering::Release);
    }

    /// The log of `txn` is set aside.
    pub fn set_aside(&self, txn: TxnId) {
        self.what.lock().1.insert(txn);
    }

    /// True if purge was stopped where `log` is now when this was asked last.
    pub fn stops_again(&self, log: &CommittedLog) -> bool {
        let place = (log.log.txn(), log.phase, log.log.records(), log.log.pages());
        self.stopped_at.lock().replace(place) == Some(place)
    }

    /// True if a log is set aside.
    pub fn has_set_aside(&self) -> bool {
        !self.what.lock().1.is_empty()
    }

    /// True if the log of `txn` is set aside.
    pub fn is_set_aside(&self, txn: TxnId) -> bool {
        self.what.lock().1.contains(&txn)
    }

    /// For a reader that has found nothing for `view`.
    ///
    /// # Errors
    /// The damage, if that may be why.
    pub fn check(&self, view: &View) -> Result<()> {
        if view.commit_no().0 >= self.upto.load(Ordering::Acquire) {
            return Ok(());
        }
        self.what.lock().0.clone().map_or(Ok(()), Err)
    }
}
