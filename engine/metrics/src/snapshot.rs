//! All values at one moment, and the difference between two moments.

use std::time::Duration;

use crate::{Counter, Derived, Description, Distribution, Gauge, Timing, WaitClass};

/// The waits of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// Waits.
    pub count: u64,
    /// Their total time.
    pub total: Duration,
    /// The longest since the start (a delta keeps it: it cannot be subtracted).
    pub max: Duration,
}

/// All values at one moment; or, as a delta, what was counted between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub(crate) counters: Vec<u64>,
    pub(crate) gauges: Vec<u64>,
    pub(crate) waits: Vec<WaitTotals>,
    pub(crate) timings: Vec<Distribution>,
}

impl Snapshot {
    /// The value of a counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// The value of a gauge.
    #[must_use]
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges[gauge as usize]
    }

    /// The waits of a class.
    #[must_use]
    pub fn wait(&self, class: WaitClass) -> WaitTotals {
        self.waits[class as usize]
    }

    /// A distribution of durations.
    #[must_use]
    pub fn timing(&self, timing: Timing) -> &Distribution {
        &self.timings[timing as usize]
    }

    /// What happened since `earlier`: counters, waits and distributions are subtracted; gauges and
    /// maxima are those of `self`.
    #[must_use]
    pub fn delta(&self, earlier: &Snapshot) -> Snapshot {
        let waits = self.waits.iter().zip(&earlier.waits).map(|(now, then)| WaitTotals {
            count: now.count.wrapping_sub(then.count),
            total: now.total.saturating_sub(then.total),
            max: now.max,
        });
        Snapshot {
            counters: self.counters.iter().zip(&earlier.counters).map(|(now, then)| now.wrapping_sub(*then)).collect(),
            gauges: self.gauges.clone(),
            waits: waits.collect(),
            timings: self.timings.iter().zip(&earlier.timings).map(|(now, then)| now.delta(then)).collect(),
        }
    }

    /// The value of a derived number.
    #[must_use]
    pub fn derived(&self, derived: Derived) -> u64 {
        let locks = self.wait(WaitClass::Lock);
        let average = || locks.total.as_nanos().checked_div(u128::from(locks.count)).unwrap_or(0) / 1_000_000;
        match derived {
            Derived::PagesFlushed => self.get(Counter::PagesWritten),
            Derived::RowLockTime => saturating(locks.total.as_millis()),
            Derived::RowLockTimeAverage => saturating(average()),
            Derived::RowLockTimeMaximum => saturating(locks.max.as_millis()),
        }
    }

    /// Counters, gauges and derived numbers with their descriptions, in the order of the catalogue,
    /// for a status listing.
    pub fn values(&self) -> impl Iterator<Item = (&'static Description, u64)> + '_ {
        let counters = Counter::ALL.iter().map(|c| (c.description(), self.get(*c)));
        let gauges = Gauge::ALL.iter().map(|g| (g.description(), self.gauge(*g)));
        let derived = Derived::ALL.iter().map(|d| (d.description(), self.derived(*d)));
        counters.chain(gauges).chain(derived)
    }

    /// The value of the counter, gauge or derived number called `name`.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<u64> {
        self.values().find(|(d, _)| d.name == name).map(|(_, value)| value)
    }
}

fn saturating(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
