//! The figures of a second, the same meters for every subject, and how a server tells them.

use anyhow::Result;
use mysql::Conn;

use crate::measure::human;
use crate::server::contender::Contender;
use crate::server::status::{Listed, monitor, told};

/// A figure that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meter {
    /// Transactions.
    Commits,
    /// The 99th percentile of the transactions that ended.
    P99,
    /// Transactions that are not purged.
    History,
    /// Old versions kept for long snapshots.
    Versions,
    /// Log since the checkpoint.
    Age,
    /// Log written.
    Log,
    /// Frames without a page.
    Free,
    /// Those of them that no thread has taken for a page.
    Idle,
    /// Frames whose page is newer than its file.
    Dirty,
    /// Pages read.
    Reads,
    /// Pages written.
    Writes,
    /// Copies of them that the double-write file got before.
    Doubled,
    /// Waits for a free frame.
    FreeWaits,
    /// Syncs of a loop beside the engine on the same disk.
    Syncs,
    /// Time until a core sees what another one has written, just after a turn.
    CoreToCore,
    /// Cores that as many threads got that only compute, just before a turn.
    Cores,
    /// Memory of the process.
    Memory,
    /// Size of the files.
    Files,
}

/// The meters' number.
const METERS: usize = Meter::Files as usize + 1;

/// How a meter is read and shown.
struct Dial {
    meter: Meter,
    title: &'static str,
    unit: &'static str,
    /// True if it only grows. Then it is shown per second.
    grows: bool,
    /// The engine's status variable, without its prefix; empty if there is none.
    variable: &'static str,
}

const fn gauge(meter: Meter, title: &'static str, unit: &'static str, variable: &'static str) -> Dial {
    Dial { meter, title, unit, grows: false, variable }
}

const fn counter(meter: Meter, title: &'static str, unit: &'static str, variable: &'static str) -> Dial {
    Dial { meter, title, unit, grows: true, variable }
}

/// In the order of [`Meter`].
static DIALS: [Dial; METERS] = [
    counter(Meter::Commits, "throughput", "transactions per second", ""),
    gauge(Meter::P99, "99th percentile", "milliseconds", ""),
    gauge(Meter::History, "history", "transactions", "history_list_length"),
    gauge(Meter::Versions, "versions kept for snapshots", "count", "versions_stored"),
    gauge(Meter::Age, "checkpoint age", "bytes", "checkpoint_age"),
    counter(Meter::Log, "log written", "bytes per second", "os_log_written"),
    gauge(Meter::Free, "free frames", "pages", "buffer_pool_pages_free"),
    gauge(Meter::Idle, "free frames that are not taken", "pages", ""),
    gauge(Meter::Dirty, "dirty frames", "pages", "buffer_pool_pages_dirty"),
    counter(Meter::Reads, "pages read", "per second", "pages_read"),
    counter(Meter::Writes, "pages written", "per second", "pages_written"),
    counter(Meter::Doubled, "pages written twice", "per second", ""),
    counter(Meter::FreeWaits, "waits for a free frame", "per second", "buffer_pool_wait_free"),
    counter(Meter::Syncs, "syncs of a loop beside it", "per second", ""),
    gauge(Meter::CoreToCore, "core to core", "nanoseconds", ""),
    gauge(Meter::Cores, "cores", "count", ""),
    gauge(Meter::Memory, "memory of the process", "bytes", ""),
    gauge(Meter::Files, "files", "bytes", ""),
];

/// Readings, in the order of [`Meter`]; `None` if the engine does not report one.
pub type Values = [Option<f64>; METERS];

impl Meter {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Meter> + Clone {
        DIALS.iter().map(|dial| dial.meter)
    }

    fn dial(self) -> &'static Dial {
        &DIALS[self as usize]
    }

    /// Title of its chart.
    pub fn title(self) -> &'static str {
        self.dial().title
    }

    /// The unit of its chart.
    pub fn unit(self) -> &'static str {
        self.dial().unit
    }

    /// The status variable of an engine; empty if there is none. One that this engine does not have
    /// has no value.
    fn variable(self, contender: Contender) -> String {
        match (self, self.dial().variable) {
            (Meter::Commits, _) => "Com_commit".to_owned(),
            (_, "") => String::new(),
            (Meter::Log, _) if contender == Contender::MyRocks => "Rocksdb_wal_bytes".to_owned(),
            (_, name) => contender.variable(name),
        }
    }
}

/// Reads all meters of a server whose tables are in `contender`.
pub fn read(conn: &mut Conn, contender: Contender) -> Result<Values> {
    let names = DIALS.each_ref().map(|dial| dial.meter.variable(contender));
    let status = Listed::status(conn, &names.each_ref().map(String::as_str))?;
    let mut values = names.map(|name| status.number(&name));
    let silent = values[Meter::History as usize].is_none();
    if silent && matches!(contender, Contender::InnoDb { .. } | Contender::Released(_)) {
        // MySQL reports it in the monitor only, and that only to users with a privilege.
        if let Ok(Some(text)) = monitor(conn) {
            (values[Meter::History as usize], values[Meter::Age as usize]) = of_monitor(&text);
        }
    }
    Ok(values)
}

/// Length of the history and age of the checkpoint, from the text of InnoDB's monitor.
fn of_monitor(text: &str) -> (Option<f64>, Option<f64>) {
    let age = told(text, "Log sequence number").zip(told(text, "Last checkpoint at"));
    (told(text, "History list length"), age.map(|(now, then): (f64, f64)| now - then))
}

/// The changes between two readings `seconds` apart: counters per second, gauges as in `to`.
pub fn between(from: &Values, to: &Values, seconds: f64) -> Values {
    let mut values = *to;
    for n in (0..METERS).filter(|&n| DIALS[n].grows) {
        let rate = |(from, to): (f64, f64)| (to - from).max(0.0) / seconds.max(1e-9);
        values[n] = from[n].zip(to[n]).map(rate);
    }
    values
}

/// The values of a second that are shown while it is measured.
pub fn in_words(values: &Values) -> String {
    let shown = [
        (Meter::Commits, 1.0, "tps"),
        (Meter::P99, 1.0, "ms p99"),
        (Meter::Free, 1.0, "free pages"),
        (Meter::Dirty, 1.0, "dirty pages"),
        (Meter::Age, 1e-6, "MB of log since the checkpoint"),
        (Meter::History, 1.0, "history"),
        (Meter::Reads, 1.0, "reads/s"),
    ];
    let word = |(meter, factor, unit): (Meter, f64, &str)| {
        values[meter as usize].map(|value| format!("{} {unit}", human(value * factor)))
    };
    shown.into_iter().filter_map(word).collect::<Vec<_>>().join(", ")
}

/// The values of seconds, each with its length, as one: the means of the rates over the time, and
/// the last gauges.
pub fn over<'v>(seconds: impl Iterator<Item = (&'v Values, f64)> + Clone) -> Values {
    let mut values = seconds.clone().last().map(|(values, _)| *values).unwrap_or_default();
    for n in (0..METERS).filter(|&n| DIALS[n].grows) {
        let known = seconds.clone().filter_map(|(values, length)| Some((values[n]?, length)));
        let (counted, time) = known.fold((0.0, 0.0), |(sum, time), (rate, s)| (sum + rate * s, time + s));
        values[n] = (time > 0.0).then(|| counted / time);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_rates_and_gauges_stay() {
        let (mut from, mut to) = (Values::default(), Values::default());
        (from[Meter::Commits as usize], to[Meter::Commits as usize]) = (Some(100.0), Some(300.0));
        (from[Meter::History as usize], to[Meter::History as usize]) = (Some(7.0), Some(9.0));
        to[Meter::Reads as usize] = Some(5.0);
        let values = between(&from, &to, 2.0);
        assert_eq!(values[Meter::Commits as usize], Some(100.0));
        assert_eq!(values[Meter::History as usize], Some(9.0));
        assert_eq!(values[Meter::Reads as usize], None, "nothing to compare with");
        let both = over([(&from, 1.0), (&to, 3.0)].into_iter());
        assert_eq!((both[Meter::Commits as usize], both[Meter::History as usize]), (Some(250.0), Some(9.0)));
    }

    #[test]
    fn what_is_not_reported_is_not_shown() {
        let mut values = Values::default();
        (values[Meter::Age as usize], values[Meter::Commits as usize]) = (Some(2.5e6), Some(1234.0));
        assert_eq!(in_words(&values), "1,234 tps, 2.50 MB of log since the checkpoint");
    }

    #[test]
    fn the_monitor_tells_history_and_age() {
        let text = "------------\nHistory list length 17\n---\nLOG\n---\nLog sequence number 48213\nLog flushed up to   48213\n\
                    Last checkpoint at  48200\n";
        assert_eq!(of_monitor(text), (Some(17.0), Some(13.0)));
        assert_eq!(of_monitor("nothing"), (None, None));
    }

    #[test]
    fn a_meter_has_its_own_place() {
        for (n, meter) in Meter::all().enumerate() {
            assert_eq!(meter as usize, n);
        }
        assert_eq!([Meter::Free, Meter::Files].map(Meter::title), ["free frames", "files"]);
    }
}
