//! The Prometheus text exposition of a snapshot (format version 0.0.4).

use std::fmt::Write;

use crate::{Counter, Gauge, Snapshot, Timing, WaitClass};

/// Powers of two of nanoseconds between which histogram buckets are shown: about 1 us to 17 s.
const BUCKET_EXPONENTS: (u32, u32) = (10, 34);

impl Snapshot {
    /// All values as Prometheus text; names are prefixed `holdfast_`, counters end in `_total`,
    /// times are seconds.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut out = String::new();
        for &c in Counter::ALL {
            let name = format!("holdfast_{}_total", c.name());
            header(&mut out, &name, "counter", c.description().help);
            line(&mut out, &name, "", self.get(c));
        }
        for &g in Gauge::ALL {
            let name = format!("holdfast_{}", g.name());
            header(&mut out, &name, "gauge", g.description().help);
            line(&mut out, &name, "", self.gauge(g));
        }
        self.prometheus_waits(&mut out);
        self.prometheus_timings(&mut out);
        out
    }

    fn prometheus_waits(&self, out: &mut String) {
        header(out, "holdfast_waits_total", "counter", "Waits by class.");
        for &w in WaitClass::ALL {
            line(out, "holdfast_waits_total", &class_label(w), self.wait(w).count);
        }
        header(out, "holdfast_wait_seconds_total", "counter", "Time waited by class.");
        for &w in WaitClass::ALL {
            line(out, "holdfast_wait_seconds_total", &class_label(w), self.wait(w).total.as_secs_f64());
        }
        header(out, "holdfast_wait_max_seconds", "gauge", "Longest wait by class since the start.");
        for &w in WaitClass::ALL {
            line(out, "holdfast_wait_max_seconds", &class_label(w), self.wait(w).max.as_secs_f64());
        }
    }

    fn prometheus_timings(&self, out: &mut String) {
        for &t in Timing::ALL {
            let (name, d) = (format!("holdfast_{}_seconds", t.name()), self.timing(t));
            header(out, &name, "histogram", t.description().help);
            let bucket = format!("{name}_bucket");
            for (bound, count) in d.cumulative(BUCKET_EXPONENTS.0, BUCKET_EXPONENTS.1) {
                line(out, &bucket, &format!("{{le=\"{}\"}}", bound as f64 / 1e9), count);
            }
            line(out, &bucket, "{le=\"+Inf\"}", d.count());
            line(out, &format!("{name}_sum"), "", d.sum().as_secs_f64());
            line(out, &format!("{name}_count"), "", d.count());
        }
    }
}

fn class_label(class: WaitClass) -> String {
    format!("{{class=\"{}\"}}", class.name())
}

fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string takes all");
}

fn line(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    writeln!(out, "{name}{labels} {value}").expect("a string takes all");
}
