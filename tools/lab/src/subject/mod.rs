//! The subjects of the experiments in turns: an engine with its tables, whose sessions run a load
//! for a turn.
//!
//! | module | what |
//! |---|---|
//! | [`meters`] | the figures of a second, the same for every subject |
//! | [`turn`] | what a turn gives, and the turns of a subject so far |
//! | [`embedded`] | the engine in this process |
//!
//! A server, private or not, is a [`Side`](crate::server::turns::side::Side).

pub mod embedded;
pub mod meters;
pub mod turn;

use std::time::Duration;

use anyhow::{Result, bail};

pub use self::turn::{Second, Series, Turn};
use crate::progress::Progress;
use crate::server::turns::workload::Workload;

/// An engine that is measured in turns. Between its turns nothing happens to it.
pub trait Subject {
    /// The load of a turn, as the subject's clients take it.
    type Work;

    /// Its turns so far.
    fn series(&self) -> &Series;

    /// See [`Subject::series`].
    fn series_mut(&mut self) -> &mut Series;

    /// Its name in texts.
    fn name(&self) -> &str {
        &self.series().name
    }

    /// The load of `sessions` sessions, if the subject is an engine. In dbSTRESS one WRITE follows
    /// every `rw_ratio` READs.
    fn work(&self, _: Workload, _sessions: u32, _rw_ratio: u32, _seed: u64) -> Result<Self::Work> {
        bail!("{} has no sessions", self.name())
    }

    /// A turn: `work` runs for `duration`, as part of `phase`. Its random numbers differ from those
    /// of all turns before, whichever load they had: the same UPDATE again would change nothing,
    /// and the same read would find its page in the cache.
    fn turn(&mut self, work: &Self::Work, phase: &str, duration: Duration, progress: &mut Progress) -> Result<Turn>;

    /// A turn that is not measured: it leaves no seconds behind, and takes no time in the charts.
    fn warm_up(&mut self, work: &Self::Work, duration: Duration, progress: &mut Progress) -> Result<Turn> {
        let series = self.series();
        let (seconds, spans, ran) = (series.seconds.len(), series.spans.len(), series.ran);
        let turn = self.turn(work, "warm-up", duration, progress)?;
        let series = self.series_mut();
        series.seconds.truncate(seconds);
        series.spans.truncate(spans);
        series.ran = ran;
        Ok(turn)
    }

    /// The options that it was started with, if it is a server of the lab's own.
    fn started_with(&self) -> Option<String> {
        None
    }

    /// Megabytes of memory of the engine's process, if it has one of its own.
    fn memory_mb(&self) -> Option<f64> {
        None
    }

    /// Begins a transaction that reads the present state, and holds it.
    fn hold_snapshot(&mut self) -> Result<()> {
        bail!("{} has no snapshots", self.name())
    }

    /// The rows of dbSTRESS's HISTORY that the snapshot saw otherwise than the newest state. Ends
    /// the transaction of the snapshot.
    fn rows_changed(&mut self) -> Result<u64> {
        bail!("{} has no snapshots", self.name())
    }

    /// Writes the log round under a load such as `work`, so that flushing reaches its steady state;
    /// a modelled disk is fast meanwhile, and slow from then on. `lap` is what flushing lets the
    /// log grow to, in bytes. False if there was not enough time.
    fn fill_log(&mut self, _work: &Self::Work, _lap: f64, _: &mut Progress) -> Result<bool> {
        bail!("{} has no log", self.name())
    }

    /// From now on a loop of syncs runs beside the turns, if the subject has one on its disk.
    fn sync_beside(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A series whose turns its experiment makes: those of a loop without an engine, or of one engine
/// after the other.
impl Subject for Series {
    type Work = ();

    fn series(&self) -> &Series {
        self
    }

    fn series_mut(&mut self) -> &mut Series {
        self
    }

    fn turn(&mut self, (): &(), _: &str, _: Duration, _: &mut Progress) -> Result<Turn> {
        bail!("{} has no turns of its own", self.name)
    }
}
