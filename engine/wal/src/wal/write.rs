//! Appending, writing, syncing.

use std::sync::Arc;

use holdfast_base::sync::atomic::Ordering;
use holdfast_base::sync::{spin_loop, yield_now};
use holdfast_base::time::Instant;
use holdfast_base::{Error, Lsn, Result, checksum_append, latches};
use holdfast_metrics::{Counter, Timing, WaitClass};

use super::writer::{FILE_PAGE, WRITE_BYTES, Writer};
use crate::flusher::Flushed;
use crate::format::{GroupHeader, group_len};
use crate::segments::{Segment, no_segment};
use crate::{FlushAtCommit, Wal};

/// Spins of a thread before it yields.
const SPINS: u32 = 64;

/// The bytes to write at `offset` of a segment for `len` bytes of log. A file page that the write
/// begins is written to its end, with zeros. Otherwise the system would have to read the page
/// first, as a part of it stays, and the commit would wait for the disk. The zeros go where nothing
/// was written yet, and a segment ends at the end of a page.
fn padded(offset: u64, len: u64) -> u64 {
    let end = offset + len;
    let begins_a_page = offset.next_multiple_of(FILE_PAGE) < end;
    if begins_a_page { end.next_multiple_of(FILE_PAGE) - offset } else { len }
}

impl Wal {
    /// Appends a group. When this returns, the group is complete in the log buffer, neither written
    /// nor durable.
    ///
    /// Returns the start and the end of the group. The end is the LSN that the changed pages will
    /// carry, and the LSN to [flush](Wal::flush_to) to. Waits only if the log buffer is full, and
    /// then helps to write it.
    ///
    /// # Errors
    /// [`Error::LimitReached`] beyond [`Wal::max_payload`], [`Error::DiskFull`] without a ticket if
    /// no segment can be prepared, [`Error::Closed`], [`Error::Poisoned`]. Nothing was appended
    /// then.
    pub fn append(&self, payload: &[u8]) -> Result<(Lsn, Lsn)> {
        self.check_appendable()?;
        let len = group_len(payload.len());
        if len > self.sizes.group_max() {
            let (len, max) = (payload.len(), self.max_payload());
            return Err(Error::LimitReached(format!(
                "a change of {len} bytes exceeds the {max} bytes that the log takes at once; \
                 raise the log buffer or the log capacity"
            )));
        }
        // A ticket has ensured it already. Without one, a full disk is found here.
        let likely_end = self.gate.next().load(Ordering::Relaxed) + len;
        if likely_end > self.segments.prepared_end() {
            self.segments.prepare_to(likely_end)?;
        }
        let payload_crc = checksum_append(self.seed, payload);
        let start = self.gate.next().fetch_add(len, Ordering::AcqRel);
        let end = start + len;
        if end > self.ring_until.load(Ordering::Acquire) {
            self.wait_for_ring(end)?;
        }
        let epoch = self.epoch.load(Ordering::Relaxed) as u32;
        let header = GroupHeader::new(payload.len(), payload_crc, start, self.commit.reached(), epoch);
        self.ring.put(start, header.words(), payload);
        self.ring.publish(start, end);
        self.gate.grown_to(end);
        if end >= self.growth_due.load(Ordering::Relaxed) {
            self.call_growth_hooks(end);
        }
        Ok((Lsn(start), Lsn(end)))
    }

    /// Waits until the ring has room up to `end`, and writes what is complete meanwhile.
    #[cold]
    fn wait_for_ring(&self, end: u64) -> Result<()> {
        let mut timer = None;
        loop {
            let room = self.written.bytes.load(Ordering::Acquire) + self.ring.capacity();
            self.ring_until.fetch_max(room, Ordering::AcqRel);
            if end <= room {
                return Ok(());
            }
            timer.get_or_insert_with(|| {
                self.metrics.inc(Counter::LogWaits);
                self.metrics.wait(WaitClass::Log)
            });
            self.poison.check()?;
            match self.write_ready(&mut self.writer.lock()) {
                // A thread with a lower LSN has not published yet. It may be waiting for this lock,
                // which is free now.
                Ok(false) => yield_now(),
                Ok(true) => {}
                Err(e) => {
                    // The LSN range is given out and cannot be filled, so the log cannot go on.
                    self.poison.set(format!("the log buffer is full and could not be written: {e}"));
                    return self.poison.check();
                }
            }
        }
    }

    /// Writes complete groups to the operating system. `false` if there were none.
    fn write_ready(&self, writer: &mut Writer) -> Result<bool> {
        let (ready, groups) = self.ring.ready_from(writer.ready);
        if ready == writer.position {
            return Ok(false);
        }
        writer.ready = ready;
        self.metrics.add(Counter::LogWriteRequests, groups);
        let from = writer.position;
        let started = Instant::now();
        while writer.position < ready {
            self.write_piece(writer, ready).inspect_err(|e| {
                if !matches!(e, Error::DiskFull(_)) {
                    self.poison.set(format!("the log could not be written: {e}"));
                }
            })?;
        }
        self.written.groups.store(ready, Ordering::Release);
        self.metrics.record(Timing::LogWrite, started.elapsed());
        self.metrics.add(Counter::LogAppended, ready - from);
        Ok(true)
    }

    /// One write, within one segment.
    fn write_piece(&self, writer: &mut Writer, ready: u64) -> Result<()> {
        let from = writer.position;
        let segment = match writer.segment.take() {
            Some(segment) if from < segment.end => segment,
            _ => {
                self.segments.prepare_to(from + 1)?;
                self.segments.find(from).ok_or_else(|| no_segment(from))?
            }
        };
        let to = ready.min(segment.end).min(from + WRITE_BYTES as u64);
        let offset = segment.offset_of(from);
        let (log, bytes) = ((to - from) as usize, padded(offset, to - from) as usize);
        let bytes = &mut writer.buffer[..bytes];
        self.ring.copy_out(from, &mut bytes[..log]);
        bytes[log..].fill(0);
        let written = segment.file.write_at(offset, bytes);
        if writer.unsynced.last().is_none_or(|s| s.number != segment.number) {
            writer.unsynced.push(segment.clone());
        }
        writer.segment = Some(segment);
        written?;
        writer.position = to;
        self.written.bytes.store(to, Ordering::Release);
        self.metrics.inc(Counter::LogWrites);
        self.metrics.add(Counter::OsLogWritten, to - from);
        Ok(())
    }

    /// The work of the leader of writes: writes until everything below `lsn`, which has been given
    /// out, is written, and returns the LSN up to which everything is.
    fn write_through(&self, lsn: u64) -> Result<u64> {
        let mut idle = 0;
        loop {
            let written = self.written.groups.load(Ordering::Acquire);
            if written >= lsn {
                return Ok(written);
            }
            self.poison.check()?;
            if !self.write_ready(&mut self.writer.lock())? {
                wait_for_copying(&mut idle);
            }
        }
    }

    /// Writes what is complete until everything below `lsn` is written, usually in one request.
    /// Returns the files that have been written to since the last call, and the LSN up to which the
    /// log is written.
    fn write_for_sync(&self, lsn: u64) -> Result<(Vec<Arc<Segment>>, u64)> {
        let mut idle = 0;
        loop {
            self.poison.check()?;
            {
                let mut writer = self.writer.lock();
                self.write_ready(&mut writer)?;
                let written = self.written.groups.load(Ordering::Acquire);
                if written >= lsn {
                    return Ok((std::mem::take(&mut writer.unsynced), written));
                }
            }
            wait_for_copying(&mut idle);
        }
    }

    /// The leader's work: makes everything below `target` durable, and returns the LSN up to which
    /// everything is.
    fn write_and_sync(&self, target: u64) -> Result<u64> {
        let (files, durable) = self.write_for_sync(target)?;
        for segment in &files {
            let started = Instant::now();
            let synced = segment.file.sync();
            self.metrics.record(Timing::LogSync, started.elapsed());
            self.metrics.inc(Counter::OsLogFsyncs);
            if let Err(e) = synced
                && !holdfast_base::planted!("failed-sync-passed-over")
            {
                self.poison.set(format!("the log could not be synced: {e}"));
                return self.poison.check().map(|()| durable);
            }
        }
        Ok(durable)
    }

    /// Returns when everything below `lsn` is durable. Many callers share one sync.
    ///
    /// # Errors
    /// [`Error::DiskFull`]: nothing is lost, and the call can be repeated. [`Error::Poisoned`]
    /// after a failed write or sync. [`Error::DamagedFile`] if `lsn` lies beyond the end of the
    /// log: a page is newer than its log.
    pub fn flush_to(&self, lsn: Lsn) -> Result<()> {
        self.poison.check()?;
        if self.commit.reached() >= lsn.0 || self.was_found(lsn) {
            return Ok(());
        }
        latches::none_while_waiting_for("the log to be durable");
        self.check_given_out(lsn)?;
        let _timer = self.metrics.wait(WaitClass::Log);
        self.metrics.inc(Counter::LogGroupCommits);
        self.commit.join(lsn.0, |target| self.write_and_sync(target), || self.poison.check())
    }

    /// Returns when everything below `lsn` is written to the operating system, so that a crash of
    /// the process does not lose it.
    ///
    /// # Errors
    /// The errors of [`Wal::flush_to`].
    pub fn write_to(&self, lsn: Lsn) -> Result<()> {
        self.poison.check()?;
        if self.written.groups.load(Ordering::Acquire) >= lsn.0 {
            return Ok(());
        }
        latches::none_while_waiting_for("the log to be written");
        self.check_given_out(lsn)?;
        self.writes.join(lsn.0, |target| self.write_through(target), || self.poison.check())
    }

    /// Waits as `durability` demands, for a commit whose group ends at `lsn`. What is not durable
    /// then is flushed within about a second.
    ///
    /// # Errors
    /// The errors of [`Wal::flush_to`].
    pub fn commit_to(self: &Arc<Self>, lsn: Lsn, durability: FlushAtCommit) -> Result<()> {
        match durability {
            FlushAtCommit::Sync => return self.flush_to(lsn),
            FlushAtCommit::Write => self.write_to(lsn)?,
            FlushAtCommit::Lazy => self.poison.check()?,
        }
        if self.flusher.is_requested() || self.request_flush() { Ok(()) } else { self.flush_to(lsn) }
    }

    /// Has the log flushed in a while. False if there is no thread to do it.
    #[cold]
    fn request_flush(self: &Arc<Self>) -> bool {
        let wal = Arc::downgrade(self);
        self.flusher.request(move || {
            let Some(wal) = wal.upgrade() else { return Flushed::Gone };
            match wal.flush_to(wal.next_lsn()) {
                // A failed sync has poisoned the log. A full disk may have room again.
                Err(_) if wal.check_poisoned().is_ok() => Flushed::Again,
                _ => Flushed::Done,
            }
        })
    }

    fn check_given_out(&self, lsn: Lsn) -> Result<()> {
        let end = self.next_lsn();
        if lsn <= end {
            return Ok(());
        }
        Err(Error::damaged_file("the log", format!("it ends at {end}, but a page or a caller has seen {lsn}")))
    }
}

/// Waits for a thread that is still copying its group. The caller holds no lock: that thread may
/// need the writer's lock to make room in the ring.
fn wait_for_copying(idle: &mut u32) {
    *idle += 1;
    if *idle < SPINS { spin_loop() } else { yield_now() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_file_are_written_whole_when_they_are_begun() {
        assert_eq!(padded(4096, 1), 4096);
        assert_eq!(padded(4096, 4096), 4096);
        assert_eq!(padded(4096, 4097), 8192);
        // A write that begins within a page leaves the bytes before it.
        assert_eq!(padded(4100, 8), 8);
        assert_eq!(padded(4100, 4092), 4092);
        assert_eq!(padded(4100, 4093), 8188);
    }
}
