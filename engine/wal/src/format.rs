//! The bytes of the log: groups and segment headers. `docs/design/log.md` draws them.
//!
//! A *group* is one mini-transaction's records under one checksum:
//!
//! ```text
//! offset size
//!  0     2   magic 0x4C48
//!  2     2   flags: zero (reserved for a longer header with key version, IV and tag)
//!  4     4   payload length
//!  8     8   LSN of the group itself
//! 16     8   stamp: the LSN known to be durable when the group was appended
//! 24     4   CRC-32C of the database's UUID, the payload, and this header with zeros here
//! 28     4   epoch
//! 32         payload, then zeros up to a multiple of 32
//! ```
//!
//! The checksum is seeded with the UUID. So neither the log of another database nor bytes that a
//! user stored are taken for a group of this log.

use holdfast_base::codec::{get_u16, get_u32, get_u64, put_u32, put_u64};
use holdfast_base::{checksum, checksum_append};

/// The bytes of a group header, and the alignment of groups.
pub(crate) const GROUP_HEADER: u64 = 32;
/// The longest group that a reader accepts.
pub(crate) const GROUP_BYTES_MAX: u64 = 16 << 20;
/// The bytes before a segment's log bytes.
pub(crate) const SEGMENT_HEADER: u64 = 4096;
/// The LSN of the first group of a new log. It is above 0, which means "never" to the floors above.
pub(crate) const FIRST_LSN: u64 = 4096;
/// The version of the format, stored in every segment header and checkpoint slot.
pub(crate) const FORMAT_VERSION: u32 = 1;

const GROUP_MAGIC: u16 = 0x4C48;
const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"HFWALSEG");
/// The bytes of a segment header that its checksum covers. They lie within one sector.
const SEGMENT_SEALED: usize = 96;

/// The bytes of a group with a payload of `payload` bytes.
pub(crate) const fn group_len(payload: usize) -> u64 {
    (GROUP_HEADER + payload as u64).next_multiple_of(GROUP_HEADER)
}

/// The seed of the checksums of a database's groups.
pub(crate) fn seed(uuid: &[u8; 16]) -> u32 {
    checksum(uuid)
}

/// A group header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub flags: u16,
    pub payload_len: u32,
    pub lsn: u64,
    pub stamp: u64,
    pub epoch: u32,
    pub crc: u32,
}

impl GroupHeader {
    /// Returns the header of a group whose payload has the seeded checksum `payload_crc`.
    pub fn new(payload_len: usize, payload_crc: u32, lsn: u64, stamp: u64, epoch: u32) -> GroupHeader {
        // The log refuses payloads beyond GROUP_BYTES_MAX, so the length fits.
        let payload_len = payload_len as u32;
        let mut header = GroupHeader { flags: 0, payload_len, lsn, stamp, epoch, crc: 0 };
        header.crc = header.seal(payload_crc);
        header
    }

    /// The header as its four little-endian words on disk.
    pub fn words(&self) -> [u64; 4] {
        let first = u64::from(GROUP_MAGIC) | u64::from(self.flags) << 16 | u64::from(self.payload_len) << 32;
        [first, self.lsn, self.stamp, u64::from(self.crc) | u64::from(self.epoch) << 32]
    }

    /// Decodes the first 32 bytes of `bytes`; `None` without the magic.
    pub fn decode(bytes: &[u8]) -> Option<GroupHeader> {
        if get_u16(bytes, 0)? != GROUP_MAGIC {
            return None;
        }
        Some(GroupHeader {
            flags: get_u16(bytes, 2)?,
            payload_len: get_u32(bytes, 4)?,
            lsn: get_u64(bytes, 8)?,
            stamp: get_u64(bytes, 16)?,
            crc: get_u32(bytes, 24)?,
            epoch: get_u32(bytes, 28)?,
        })
    }

    /// The bytes of the whole group.
    pub fn group_len(&self) -> u64 {
        group_len(self.payload_len as usize)
    }

    /// True if `group`, the whole group with its padding, is what was appended.
    pub fn matches(&self, seed: u32, group: &[u8]) -> bool {
        let payload_end = GROUP_HEADER as usize + self.payload_len as usize;
        let (Some(payload), Some(padding)) = (group.get(GROUP_HEADER as usize..payload_end), group.get(payload_end..))
        else {
            return false;
        };
        self.seal(checksum_append(seed, payload)) == self.crc && padding.iter().all(|&b| b == 0)
    }

    fn seal(&self, payload_crc: u32) -> u32 {
        let unsealed = GroupHeader { crc: 0, ..*self };
        let mut bytes = [0; GROUP_HEADER as usize];
        for (to, word) in bytes.chunks_exact_mut(8).zip(unsealed.words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        checksum_append(payload_crc, &bytes)
    }
}

/// The header of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub page_size: u32,
    pub uuid: [u8; 16],
    pub number: u64,
    pub start: u64,
    pub data_len: u64,
    /// The epoch in which the segment was prepared. For readers of dumps; the engine does not use
    /// it.
    pub epoch: u32,
}

impl SegmentHeader {
    /// The first [`SEGMENT_HEADER`] bytes of the file.
    ///
    /// ```text
    /// offset size
    ///  0     8   magic "HFWALSEG"
    ///  8     4   format version        12  4  page size
    /// 16    16   UUID of the database
    /// 32     8   number of the segment
    /// 40     8   LSN of the first byte after the header
    /// 48     8   log bytes of the segment
    /// 56     8   incompatible features 64  8  compatible features
    /// 72     4   epoch                 76  4  key version (reserved)
    /// 80    16   IV (reserved)
    /// 96     4   CRC-32C of bytes 0..96
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SEGMENT_HEADER as usize];
        put_u64(&mut bytes, 0, SEGMENT_MAGIC);
        put_u32(&mut bytes, 8, FORMAT_VERSION);
        put_u32(&mut bytes, 12, self.page_size);
        bytes[16..32].copy_from_slice(&self.uuid);
        put_u64(&mut bytes, 32, self.number);
        put_u64(&mut bytes, 40, self.start);
        put_u64(&mut bytes, 48, self.data_len);
        put_u32(&mut bytes, 72, self.epoch);
        let crc = checksum(&bytes[..SEGMENT_SEALED]);
        put_u32(&mut bytes, SEGMENT_SEALED, crc);
        bytes
    }

    /// Decodes a header. `Ok(None)` if the bytes are not an intact header.
    ///
    /// # Errors
    /// What is unknown about an intact header of a format that this version does not know.
    pub fn decode(bytes: &[u8]) -> Result<Option<SegmentHeader>, String> {
        let Some(sealed) = bytes.get(..SEGMENT_SEALED) else { return Ok(None) };
        if get_u64(bytes, 0) != Some(SEGMENT_MAGIC) || get_u32(bytes, SEGMENT_SEALED) != Some(checksum(sealed)) {
            return Ok(None);
        }
        Self::fields(bytes).map_or(Ok(None), |(header, version, incompatible)| {
            if version != FORMAT_VERSION || incompatible != 0 {
                return Err(format!("log format {version} with features {incompatible:#x}"));
            }
            Ok(header.is_plausible().then_some(header))
        })
    }

    fn fields(bytes: &[u8]) -> Option<(SegmentHeader, u32, u64)> {
        let header = SegmentHeader {
            page_size: get_u32(bytes, 12)?,
            uuid: bytes.get(16..32)?.try_into().ok()?,
            number: get_u64(bytes, 32)?,
            start: get_u64(bytes, 40)?,
            data_len: get_u64(bytes, 48)?,
            epoch: get_u32(bytes, 72)?,
        };
        Some((header, get_u32(bytes, 8)?, get_u64(bytes, 56)?))
    }

    /// True if arithmetic with the fields cannot overflow. A correct checksum does not prove that.
    fn is_plausible(&self) -> bool {
        let aligned = self.start.is_multiple_of(GROUP_HEADER) && self.data_len.is_multiple_of(GROUP_HEADER);
        aligned && self.data_len > 0 && self.start.checked_add(self.data_len).is_some_and(|end| end < 1 << 62)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = *b"0123456789abcdef";

    pub(crate) fn group(payload: &[u8], lsn: u64, stamp: u64, epoch: u32) -> Vec<u8> {
        let crc = checksum_append(seed(&UUID), payload);
        let header = GroupHeader::new(payload.len(), crc, lsn, stamp, epoch);
        let mut bytes: Vec<u8> = header.words().iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.extend_from_slice(payload);
        bytes.resize(group_len(payload.len()) as usize, 0);
        bytes
    }

    #[test]
    fn groups_round_trip() {
        for len in [0, 1, 31, 32, 33, 1000] {
            let bytes = group(&vec![7; len], 4096, 2048, 3);
            let header = GroupHeader::decode(&bytes).unwrap();
            assert_eq!((header.lsn, header.stamp, header.epoch), (4096, 2048, 3));
            assert_eq!(header.group_len() as usize, bytes.len());
            assert!(header.matches(seed(&UUID), &bytes));
            assert!(!header.matches(seed(b"another database"), &bytes));
        }
    }

    #[test]
    fn every_flipped_bit_of_a_group_is_noticed() {
        let good = group(b"some records", 4096, 4096, 1);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let intact = GroupHeader::decode(&bad)
                .is_some_and(|h| h.flags == 0 && h.group_len() == bad.len() as u64 && h.matches(seed(&UUID), &bad));
            assert!(!intact, "bit {bit}");
        }
    }

    #[test]
    fn segment_headers_round_trip_and_notice_flips() {
        let header =
            SegmentHeader { page_size: 16384, uuid: UUID, number: 7, start: 4096, data_len: 1 << 20, epoch: 2 };
        let good = header.encode();
        assert_eq!(SegmentHeader::decode(&good), Ok(Some(header)));
        for bit in 0..(SEGMENT_SEALED + 4) * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&bad), Ok(None), "bit {bit}");
        }
        assert_eq!(SegmentHeader::decode(&good[..50]), Ok(None));
    }

    #[test]
    fn a_newer_format_is_told_apart_from_damage() {
        let header = SegmentHeader { page_size: 4096, uuid: UUID, number: 1, start: 0, data_len: 32, epoch: 1 };
        let mut bytes = header.encode();
        put_u32(&mut bytes, 8, 9);
        let crc = checksum(&bytes[..SEGMENT_SEALED]);
        put_u32(&mut bytes, SEGMENT_SEALED, crc);
        assert!(SegmentHeader::decode(&bytes).unwrap_err().contains("log format 9"));
    }
}
