//! Resident memory of a process: now, and the most while something runs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::machine;

/// What is written to `clear_refs` of a process: the peak that the kernel keeps begins anew.
const RESET: &str = "5";
/// The pause between samples where the kernel's peak cannot be reset.
const SAMPLE: Duration = Duration::from_millis(20);

/// Resident memory of a process; of this one if none is named.
pub fn resident_bytes(process: Option<u32>) -> Result<u64> {
    status_bytes(process, "VmRSS")
}

/// A file about a process, or about this one.
fn file_of(process: Option<u32>, name: &str) -> String {
    process.map_or_else(|| format!("/proc/self/{name}"), |pid| format!("/proc/{pid}/{name}"))
}

fn status_bytes(process: Option<u32>, name: &str) -> Result<u64> {
    let file = file_of(process, "status");
    let status = std::fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
    let value = machine::field(&status, name).with_context(|| format!("{name} in {file}"))?;
    let kib: u64 = value.trim_end_matches(" kB").parse().with_context(|| name.to_owned())?;
    Ok(kib << 10)
}

/// The peak of another process since it began.
pub fn peak_of(process: u32) -> Result<u64> {
    status_bytes(Some(process), "VmHWM")
}

/// Watches the peak of the resident memory.
#[derive(Debug)]
pub struct Peak {
    process: Option<u32>,
    /// The thread that samples, and what ends it; `None` if the kernel keeps the peak.
    sampled: Option<(Sender<()>, JoinHandle<u64>)>,
}

impl Peak {
    /// Begins to watch a process, this one if none is named: the kernel's own peak if it can be
    /// reset; else samples of this one, and of another one its peak since it began.
    pub fn begin(process: Option<u32>) -> Peak {
        match std::fs::write(file_of(process, "clear_refs"), RESET) {
            Err(_) if process.is_none() => Peak::sampled(),
            _ => Peak { process, sampled: None },
        }
    }

    fn sampled() -> Peak {
        let (stop, stopped) = channel::<()>();
        let watch = move || {
            let mut most = 0;
            loop {
                most = resident_bytes(None).unwrap_or(0).max(most);
                if stopped.recv_timeout(SAMPLE) != Err(RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        };
        Peak { process: None, sampled: Some((stop, std::thread::spawn(watch))) }
    }

    /// The peak since the beginning.
    pub fn end(self) -> Result<u64> {
        let Some((stop, watch)) = self.sampled else { return status_bytes(self.process, "VmHWM") };
        drop(stop);
        watch.join().map_err(|_| anyhow!("the watch of the memory panicked"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_has_what_was_freed_before_its_end() {
        const BYTES: usize = 64 << 20;
        for begin in [|| Peak::begin(None), Peak::sampled] {
            let before = resident_bytes(None).unwrap();
            let peak = begin();
            let block = std::hint::black_box(vec![1u8; BYTES]);
            // A sample at least is taken while the block is there.
            std::thread::sleep(3 * SAMPLE);
            drop(block);
            // Tests beside this one free memory, too.
            assert!(peak.end().unwrap() > before.saturating_sub(BYTES as u64 / 2) + BYTES as u64 / 2);
        }
    }
}
