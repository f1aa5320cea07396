//! The log that pages need which recovery could not read. Their device may return them at the next
//! open, which finds their records again: the checkpoint stays before these until the space is
//! closed. When the log is full the threads that wait for room get the error of the read.
//!
//! Lock order: the mutex is a leaf.

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, HashMap, Lsn, Result, SpaceId};

/// See the module.
#[derive(Default)]
pub(crate) struct Held(Mutex<HashMap<SpaceId, (Lsn, Error)>>);

impl Held {
    /// A page of `space` needs the log from `lsn` on. `why` it could not be read.
    pub(crate) fn add(&self, space: SpaceId, lsn: Lsn, why: Error) {
        let mut held = self.0.lock();
        let entry = held.entry(space).or_insert((lsn, why));
        entry.0 = entry.0.min(lsn);
    }

    /// The pages of `space` are not needed any more.
    pub(crate) fn forget(&self, space: SpaceId) {
        self.0.lock().remove(&space);
    }

    /// Where the log begins that is needed; [`Lsn::MAX`] if none is.
    pub(crate) fn oldest(&self) -> Lsn {
        self.0.lock().values().map(|(lsn, _)| *lsn).min().unwrap_or(Lsn::MAX)
    }

    /// Succeeds if the checkpoint may come as far as `lsn`.
    ///
    /// # Errors
    /// Why the oldest of the pages that it may not pass could not be read.
    pub(crate) fn check(&self, lsn: Lsn) -> Result<()> {
        let held = self.0.lock();
        let oldest = held.values().min_by_key(|(lsn, _)| *lsn);
        oldest.filter(|(from, _)| *from < lsn).map_or(Ok(()), |(_, why)| Err(why.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_page_counts() {
        let held = Held::default();
        held.check(Lsn::MAX).unwrap();
        let error = |file| Error::io("read", file, std::io::Error::other("EIO"));
        held.add(SpaceId(16), Lsn(50), error("t16.hf"));
        held.add(SpaceId(17), Lsn(90), error("t17.hf"));
        held.add(SpaceId(17), Lsn(40), error("t17.hf"));
        assert_eq!(held.oldest(), Lsn(40));
        held.check(Lsn(40)).unwrap();
        assert!(held.check(Lsn(41)).unwrap_err().to_string().contains("t17.hf"));
        held.forget(SpaceId(17));
        assert_eq!(held.oldest(), Lsn(50));
    }
}
