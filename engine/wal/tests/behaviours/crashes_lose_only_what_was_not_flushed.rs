//! After power cuts at random moments the log is a prefix of what was appended, with everything
//! that was flushed. The cuts repeat, also during recovery, and leave groups of all lives behind
//! the end.

use std::sync::Arc;

use holdfast_base::Lsn;
use holdfast_metrics::Metrics;
use holdfast_testkit::CrashDisk;
use holdfast_wal::Wal;
use proptest::prelude::*;

use crate::common::*;

#[derive(Clone, Debug)]
enum Op {
    Append(usize),
    Flush,
    Write,
    /// To the start of the group that many groups back.
    Checkpoint(usize),
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (8usize..200).prop_map(Op::Append),
        2 => (200usize..16_000).prop_map(Op::Append),
        3 => Just(Op::Flush),
        2 => Just(Op::Write),
        1 => (0usize..8).prop_map(Op::Checkpoint),
    ]
}

fn life() -> impl Strategy<Value = (Vec<Op>, u64, u64, bool)> {
    (prop::collection::vec(op(), 1..60), 0u64..90, any::<u64>(), prop::bool::weighted(0.1)).prop_map(
        |(mut ops, cut, seed, close)| {
            if close {
                ops.push(Op::Close);
            }
            (ops, cut, seed, close)
        },
    )
}

/// What must be on the disk.
#[derive(Default)]
struct Model {
    /// Start and payload of every group that recovery has to return or may return, from the
    /// checkpoint on.
    groups: Vec<(Lsn, Vec<u8>)>,
    /// Groups known to be durable.
    flushed: usize,
    /// A checkpoint that was being written when the power went.
    maybe_checkpoint: Option<Lsn>,
    number: u64,
}

impl Model {
    fn drop_below(&mut self, lsn: Lsn) {
        let n = self.groups.iter().filter(|g| g.0 < lsn).count();
        self.groups.drain(..n);
        self.flushed = self.flushed.saturating_sub(n);
    }

    fn run(&mut self, wal: &Wal, op: &Op) -> holdfast_base::Result<()> {
        match *op {
            Op::Append(len) => {
                self.number += 1;
                let bytes = payload(self.number, len);
                let (start, _) = wal.append(&bytes)?;
                self.groups.push((start, bytes));
            }
            Op::Flush => {
                wal.flush_to(wal.next_lsn())?;
                self.flushed = self.groups.len();
            }
            Op::Write => wal.write_to(wal.next_lsn())?,
            Op::Checkpoint(back) => {
                let at = self.groups.len().checked_sub(back).and_then(|i| self.groups.get(i));
                let lsn = at.map_or(wal.next_lsn(), |g| g.0);
                self.maybe_checkpoint = Some(lsn);
                wal.set_checkpoint(lsn, &lsn.0.to_le_bytes())?;
                self.maybe_checkpoint = None;
                self.flushed = self.flushed.max(self.groups.iter().filter(|g| g.0 < lsn).count());
                self.drop_below(lsn);
            }
            Op::Close => {
                wal.close()?;
                self.flushed = self.groups.len();
            }
        }
        Ok(())
    }

    /// Compares with what recovery returned, and continues with that.
    fn check(&mut self, checkpoint: Lsn, checkpoint_payload: &[u8], found: Vec<(Lsn, Vec<u8>)>) {
        if let Some(lsn) = self.maybe_checkpoint.take()
            && lsn == checkpoint
        {
            self.drop_below(lsn);
        }
        if !checkpoint_payload.is_empty() {
            assert_eq!(checkpoint_payload, checkpoint.0.to_le_bytes());
        }
        assert!(found.len() >= self.flushed, "{} groups of {} flushed", found.len(), self.flushed);
        assert!(found.len() <= self.groups.len(), "more groups than were appended");
        assert!(found == self.groups[..found.len()], "not a prefix");
        self.groups = found;
        // Recovery has made durable what it returned.
        self.flushed = self.groups.len();
    }
}

/// Opens the log; `None` if the power is cut meanwhile.
fn try_recover(disk: &Arc<CrashDisk>, model: &mut Model) -> Option<Arc<Wal>> {
    let attempt = (|| {
        let (wal, mut recovery) = open(disk)?;
        let mut found = Vec::new();
        while let Some(group) = recovery.next()? {
            found.push((group.start, group.payload.to_vec()));
        }
        model.check(recovery.checkpoint_lsn(), recovery.checkpoint_payload(), found);
        recovery.finish()?;
        Ok(wal)
    })();
    match attempt {
        Ok(wal) => Some(wal),
        Err(e) if disk.is_dead() => {
            assert!(!holdfast_base::Error::is_damage(&e), "{e}");
            None
        }
        Err(e) => panic!("recovery failed: {e}"),
    }
}

fn live_and_crash(lives: Vec<(Vec<Op>, u64, u64, bool)>) {
    let mut disk = Arc::new(CrashDisk::new());
    drop(Wal::create(disk.clone(), UUID, small(), Metrics::new()).unwrap());
    let mut model = Model::default();
    for (ops, cut, seed, _) in lives {
        // Small numbers cut the power during recovery, large ones not at all.
        disk.crash_after(if cut > 80 { 1 << 30 } else { cut });
        if let Some(wal) = try_recover(&disk, &mut model) {
            for op in &ops {
                if let Err(e) = model.run(&wal, op) {
                    assert!(disk.is_dead(), "{op:?}: {e}");
                    break;
                }
            }
        }
        disk = Arc::new(disk.reboot(seed));
    }
    try_recover(&disk, &mut model).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_prefix_with_all_that_was_flushed_survives(lives in prop::collection::vec(life(), 1..7)) {
        live_and_crash(lives);
    }
}

#[test]
fn a_process_that_dies_takes_no_written_byte_along() {
    // The system still has what was written and never synced. Recovery must make it durable before
    // anything is appended behind it.
    let disk = Arc::new(CrashDisk::new());
    let wal = create(&disk);
    append_synced(&wal, b"synced");
    wal.append(b"written").unwrap();
    wal.write_to(wal.next_lsn()).unwrap();
    drop(wal);
    let (_wal, recovery) = open(&disk).unwrap();
    let end = recovery.end_lsn();
    for seed in 0..20 {
        let after = Arc::new(disk.reboot(seed));
        assert_eq!(open(&after).unwrap().1.end_lsn(), end);
    }
}

#[test]
fn a_power_cut_anywhere_in_the_first_lap_is_survived() {
    // The power is cut at every operation of a run that prepares, fills and recycles segments.
    let run = |disk: &Arc<CrashDisk>, model: &mut Model| -> holdfast_base::Result<()> {
        let Some(wal) = try_recover(disk, model) else { return Ok(()) };
        for i in 0..130 {
            model.run(&wal, &Op::Append(16_000))?;
            if i % 4 == 3 {
                model.run(&wal, &Op::Flush)?;
            }
            if i % 15 == 14 {
                model.run(&wal, &Op::Checkpoint(1))?;
            }
        }
        Ok(())
    };
    let fresh = || {
        let disk = Arc::new(CrashDisk::new());
        drop(Wal::create(disk.clone(), UUID, small(), Metrics::new()).unwrap());
        disk
    };
    let disk = fresh();
    let before = disk.operations();
    run(&disk, &mut Model::default()).unwrap();
    let operations = disk.operations() - before;
    for cut in 0..operations {
        let (disk, mut model) = (fresh(), Model::default());
        disk.crash_after(cut);
        let _ = run(&disk, &mut model);
        for seed in 0..3 {
            let after = Arc::new(disk.reboot(cut * 3 + seed));
            let mut model = Model {
                groups: model.groups.clone(),
                flushed: model.flushed,
                maybe_checkpoint: model.maybe_checkpoint,
                number: model.number,
            };
            let wal = try_recover(&after, &mut model).unwrap();
            append_synced(&wal, b"and on it goes");
        }
    }
}
