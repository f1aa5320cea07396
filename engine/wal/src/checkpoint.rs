//! The checkpoint file: where recovery begins, in two alternating slots.
//!
//! ```text
//! offset size   each slot is 4 KiB; slot number = sequence modulo 2
//!    0     8    magic "HFCHKPT1"
//!    8     4    format version          12  4  payload length
//!   16    16    UUID of the database
//!   32     8    sequence number
//!   40     8    checkpoint LSN: every change below it is in the data files
//!   48     4    epoch: the newest one  52  4  least epoch of the group at the checkpoint LSN
//!   56     8    LSN at which the newest epoch began
//!   64     8    durable LSN when the slot was written: a log that ends before it is damaged
//!   72     1    1: the log was closed; nothing was ever appended beyond the durable LSN
//!   73     7    zeros
//!   80  2048    payload of the floors above
//! 4092     4    CRC-32C of bytes 0..4092
//! ```
//! A slot is written and synced while the other slot, its predecessor, stays intact. Only then the
//! log gives up what the predecessor needs. A torn slot counts as one that was never written.
//! Opening a log writes *both* slots with the new epoch before the first append, so the loss of one
//! slot never loses the epoch.

use std::sync::Arc;

use holdfast_base::codec::{get_u32, get_u64, put_u32, put_u64};
use holdfast_base::{Error, Result, checksum};
use holdfast_io::{Create, Disk, File, FileKind, OpenOptions};

use crate::format::{FORMAT_VERSION, GROUP_HEADER};

/// The name of the checkpoint file.
pub const FILE_NAME: &str = "checkpoint";
/// The longest payload, in bytes.
pub(crate) const PAYLOAD_MAX: usize = 2048;

const SLOT: usize = 4096;
const PAYLOAD_AT: usize = 80;
const CRC_AT: usize = SLOT - 4;
const MAGIC: u64 = u64::from_le_bytes(*b"HFCHKPT1");

/// The contents of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub uuid: [u8; 16],
    pub sequence: u64,
    pub lsn: u64,
    pub epoch: u32,
    pub epoch_start: u64,
    pub min_epoch: u32,
    pub durable: u64,
    pub closed: bool,
    pub payload: Vec<u8>,
}

impl Checkpoint {
    /// Returns the first checkpoint of a log that starts at `lsn`.
    pub fn first(uuid: [u8; 16], lsn: u64) -> Checkpoint {
        Checkpoint {
            uuid,
            sequence: 0,
            lsn,
            epoch: 1,
            epoch_start: lsn,
            min_epoch: 1,
            durable: lsn,
            closed: false,
            payload: vec![],
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut slot = vec![0; SLOT];
        put_u64(&mut slot, 0, MAGIC);
        put_u32(&mut slot, 8, FORMAT_VERSION);
        put_u32(&mut slot, 12, self.payload.len() as u32);
        slot[16..32].copy_from_slice(&self.uuid);
        put_u64(&mut slot, 32, self.sequence);
        put_u64(&mut slot, 40, self.lsn);
        put_u32(&mut slot, 48, self.epoch);
        put_u32(&mut slot, 52, self.min_epoch);
        put_u64(&mut slot, 56, self.epoch_start);
        put_u64(&mut slot, 64, self.durable);
        slot[72] = u8::from(self.closed);
        slot[PAYLOAD_AT..PAYLOAD_AT + self.payload.len()].copy_from_slice(&self.payload);
        let crc = checksum(&slot[..CRC_AT]);
        put_u32(&mut slot, CRC_AT, crc);
        slot
    }

    /// Decodes a slot. `Ok(None)` if the slot is not intact. An intact slot of an unknown version
    /// is an error.
    fn decode(slot: &[u8]) -> Result<Option<Checkpoint>> {
        if get_u64(slot, 0) != Some(MAGIC) || get_u32(slot, CRC_AT) != Some(checksum(&slot[..CRC_AT])) {
            return Ok(None);
        }
        let version = get_u32(slot, 8).unwrap_or(0);
        if version != FORMAT_VERSION {
            let what = format!("the log was written by another version (format {version}); open it with that version");
            return Err(Error::Incompatible(what));
        }
        Ok(Self::fields(slot))
    }

    fn fields(slot: &[u8]) -> Option<Checkpoint> {
        let payload_len = get_u32(slot, 12)? as usize;
        if payload_len > PAYLOAD_MAX {
            return None;
        }
        let lsn = get_u64(slot, 40).filter(|lsn| is_position(*lsn))?;
        Some(Checkpoint {
            uuid: slot.get(16..32)?.try_into().ok()?,
            // No file was written so often.
            sequence: get_u64(slot, 32).filter(|sequence| *sequence < 1 << 62)?,
            lsn,
            epoch: get_u32(slot, 48)?,
            min_epoch: get_u32(slot, 52)?,
            epoch_start: get_u64(slot, 56)?,
            durable: get_u64(slot, 64)?,
            closed: *slot.get(72)? == 1,
            payload: slot.get(PAYLOAD_AT..PAYLOAD_AT + payload_len)?.to_vec(),
        })
    }
}

/// True if a group can start at `lsn`.
pub(crate) fn is_position(lsn: u64) -> bool {
    lsn.is_multiple_of(GROUP_HEADER) && lsn < 1 << 62
}

/// The error for a checkpoint file that is not of the database that is opened.
pub(crate) fn of_another() -> Error {
    Error::damaged_file(FILE_NAME, "it belongs to another database (its UUID differs), with its log")
}

/// Returns the newest intact slot of the checkpoint file in `disk`. Writes nothing.
///
/// # Errors
/// [`Error::NotADatabase`] if there is no checkpoint file, [`Error::DamagedFile`] if no slot is
/// intact.
pub(crate) fn read(disk: &dyn Disk) -> Result<Checkpoint> {
    if !disk.exists(FILE_NAME)? {
        return Err(Error::NotADatabase(disk.location()));
    }
    let file = disk.open(FILE_NAME, OpenOptions::new(FileKind::Meta).read_only(true))?;
    newest(file.as_ref())
}

fn newest(file: &dyn File) -> Result<Checkpoint> {
    let len = file.len()?.min(2 * SLOT as u64);
    let mut bytes = vec![0; len as usize];
    file.read_at(0, &mut bytes)?;
    bytes.resize(2 * SLOT, 0);
    let slots = [Checkpoint::decode(&bytes[..SLOT])?, Checkpoint::decode(&bytes[SLOT..])?];
    let newest = slots.into_iter().flatten().max_by_key(|c| c.sequence);
    newest.ok_or_else(|| Error::damaged_file(FILE_NAME, "neither of its two slots is intact"))
}

/// The open checkpoint file. The caller serialises writers.
pub(crate) struct CheckpointFile {
    file: Arc<dyn File>,
    current: Checkpoint,
}

impl CheckpointFile {
    /// Creates the file with `first` in both slots. Its name is durable when this returns.
    ///
    /// # Errors
    /// [`Error::Io`] (`AlreadyExists`), [`Error::DiskFull`], and any other error of the disk.
    pub fn create(disk: &dyn Disk, first: Checkpoint) -> Result<CheckpointFile> {
        let file = disk.open(FILE_NAME, OpenOptions::new(FileKind::Meta).create(Create::New))?;
        let mut this = CheckpointFile { file, current: first };
        for _ in 0..2 {
            this.write_next(this.current.clone())?;
        }
        this.file.sync()?;
        disk.sync_dir()?;
        Ok(this)
    }

    /// Opens the file.
    ///
    /// # Errors
    /// The errors of [`read`].
    pub fn open(disk: &dyn Disk) -> Result<CheckpointFile> {
        let current = read(disk)?;
        Ok(CheckpointFile { file: disk.open(FILE_NAME, OpenOptions::new(FileKind::Meta))?, current })
    }

    /// The contents of the newest slot.
    pub fn current(&self) -> &Checkpoint {
        &self.current
    }

    /// Makes the newest slot durable, which an earlier life may have left in the system's cache: it
    /// is written again. To be called before the other slot is overwritten for the first time.
    ///
    /// # Errors
    /// Any error of the disk. The other slot is as it was.
    pub fn secure(&self) -> Result<()> {
        self.write(&self.current)?;
        self.sync()
    }

    fn write(&self, slot: &Checkpoint) -> Result<()> {
        self.file.write_at((slot.sequence % 2) * SLOT as u64, &slot.encode())
    }

    /// Writes the next slot. The slot is durable only after [`CheckpointFile::sync`].
    ///
    /// # Errors
    /// Any error of the disk. The newest slot is then still the previous one.
    pub fn write_next(&mut self, mut next: Checkpoint) -> Result<()> {
        next.sequence = self.current.sequence + 1;
        self.write(&next)?;
        self.current = next;
        Ok(())
    }

    /// Makes the newest slot durable.
    ///
    /// # Errors
    /// Any error of the disk. It is then unknown which slots are durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use holdfast_io::MemoryDisk;

    use super::*;

    const UUID: [u8; 16] = [7; 16];

    fn with_two() -> (Arc<MemoryDisk>, Checkpoint) {
        let disk = Arc::new(MemoryDisk::new());
        let mut file = CheckpointFile::create(disk.as_ref(), Checkpoint::first(UUID, 4096)).unwrap();
        let older = Checkpoint { lsn: 4992, payload: b"older".to_vec(), ..file.current().clone() };
        file.write_next(older).unwrap();
        file.sync().unwrap();
        let older = file.current().clone();
        file.write_next(Checkpoint { lsn: 6016, payload: vec![9; PAYLOAD_MAX], ..older.clone() }).unwrap();
        file.sync().unwrap();
        (disk, older)
    }

    #[test]
    fn the_newest_slot_counts() {
        let (disk, _) = with_two();
        let found = read(disk.as_ref()).unwrap();
        assert_eq!((found.lsn, found.payload.len(), found.sequence), (6016, PAYLOAD_MAX, 4));
    }

    #[test]
    fn a_torn_slot_leaves_the_other_one() {
        for at in (0..SLOT).step_by(97).chain([CRC_AT, CRC_AT + 3]) {
            let (disk, older) = with_two();
            let file = disk.open(FILE_NAME, OpenOptions::new(FileKind::Meta)).unwrap();
            let mut byte = [0];
            file.read_at(at as u64, &mut byte).unwrap();
            file.write_at(at as u64, &[byte[0] ^ 0x10]).unwrap();
            assert_eq!(read(disk.as_ref()).unwrap(), older, "byte {at}");
        }
    }

    #[test]
    fn two_torn_slots_are_damage() {
        let (disk, _) = with_two();
        let file = disk.open(FILE_NAME, OpenOptions::new(FileKind::Meta)).unwrap();
        file.write_at(100, &[0xff]).unwrap();
        file.write_at(SLOT as u64 + 100, &[0xff]).unwrap();
        assert!(read(disk.as_ref()).unwrap_err().is_damage());
        file.set_len(0).unwrap();
        assert!(read(disk.as_ref()).unwrap_err().is_damage());
    }

    #[test]
    fn a_slot_after_which_there_is_no_next_is_none() {
        let (disk, older) = with_two();
        let mut last = CheckpointFile::open(disk.as_ref()).unwrap().current().clone();
        last.sequence = u64::MAX;
        let file = disk.open(FILE_NAME, OpenOptions::new(FileKind::Meta)).unwrap();
        file.write_at((older.sequence + 1) % 2 * SLOT as u64, &last.encode()).unwrap();
        let mut file = CheckpointFile::open(disk.as_ref()).unwrap();
        assert_eq!(file.current(), &older);
        file.write_next(older).unwrap();
    }

    #[test]
    fn no_file_is_no_database() {
        assert!(matches!(read(&MemoryDisk::new()), Err(Error::NotADatabase(_))));
    }
}
