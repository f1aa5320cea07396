//! The statement times that the lab's scripts for sysbench report, two lines a second for each
//! session: `statements SEL1 17:340,18:11 SEL2 33:351`, where `17:340` means 340 statements of
//! about 2^(17/8) microseconds.

use crate::rig::sessions::DBSTRESS_CLASSES;
use crate::subject::turn::Latencies;

/// Buckets of the script per doubling of the time.
const BUCKETS_PER_DOUBLING: f64 = 8.0;
/// The name of whole transactions.
const EVENT: &str = "EVENT";

/// Empty latencies.
pub(super) fn none() -> Latencies {
    Latencies::new(DBSTRESS_CLASSES.len())
}

/// Adds the times of `line` to `latencies`, by the classes of dbSTRESS; false if it is no such
/// line.
pub(super) fn record(line: &str, latencies: &mut Latencies) -> bool {
    let Some(rest) = line.strip_prefix("statements ") else { return false };
    let mut words = rest.split(' ');
    while let (Some(name), Some(counts)) = (words.next(), words.next()) {
        let class = match DBSTRESS_CLASSES.iter().position(|c| *c == name) {
            None if name == EVENT => None,
            // A class of a script that is newer than this program.
            None => continue,
            found => found,
        };
        for (bucket, count) in counts.split(',').filter_map(|entry| entry.split_once(':')) {
            if let (Ok(bucket), Ok(count)) = (bucket.parse::<f64>(), count.parse()) {
                let ns = (bucket / BUCKETS_PER_DOUBLING).exp2() * 1e3;
                latencies.record(class, ns as u64, count);
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::sessions::SEL2;

    #[test]
    fn the_line_of_a_script_becomes_latencies() {
        let mut latencies = none();
        assert!(record("statements EVENT 80:100 SEL2 64:98,80:2 OTHER 3:1", &mut latencies));
        let near = |value: Option<f64>, ms: f64| value.is_some_and(|v| (v / ms - 1.0).abs() < 0.02);
        assert!(near(latencies.transaction_ms(50.0), 1.024), "{:?}", latencies.transaction_ms(50.0));
        assert!(near(latencies.class_ms(SEL2, 50.0), 0.256));
        assert!(near(latencies.class_ms(SEL2, 99.0), 1.024));
        assert!(latencies.class_ms(0, 50.0).is_none());
        assert!(!record("[ 1s ] thds: 4", &mut latencies));
    }
}
