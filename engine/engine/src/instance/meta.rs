//! `holdfast.meta`: what makes a directory a database.
//!
//! When a database is created it is there first of all under another name, and renamed last of all,
//! so that a creation that was cut short leaves no database behind and can be told from anything
//! else (see [`crate::startup::creation`]). Never changed afterwards.
//!
//! ```text
//! offset size
//!  0     8   magic "HOLDFAST"
//!  8     4   format version, 1
//! 12     4   page size in bytes
//! 16    16   UUID of the database; log, checkpoint and spaces repeat it
//! 32     8   compatible features: a version that does not know one may ignore it
//! 40     8   incompatible features: a version that does not know one must not open the database
//! 48     4   root page of the catalog in the system space
//! 52     8   reserved, zero
//! 60     4   CRC-32C of bytes 0..60
//! ```

use holdfast_base::codec::{Reader, Writer as _};
use holdfast_base::{PageNo, checksum, limits};
use holdfast_io::{Create, Disk, FileKind, OpenOptions};

use crate::{Error, Result};

/// The file's name.
pub(crate) const META: &str = "holdfast.meta";
/// Its name while the creation of the database has not finished.
pub(crate) const META_NEW: &str = "holdfast.meta.new";

const MAGIC: &[u8; 8] = b"HOLDFAST";
const FORMAT_VERSION: u32 = 1;
const LEN: usize = 64;

/// Incompatible features that this version knows: none yet.
const INCOMPATIBLE_KNOWN: u64 = 0;

/// The decoded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub page_size: usize,
    pub uuid: [u8; 16],
    pub catalog_root: PageNo,
}

impl Meta {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LEN);
        out.bytes(MAGIC);
        out.u32(FORMAT_VERSION);
        out.u32(self.page_size as u32);
        out.bytes(&self.uuid);
        out.u64(0);
        out.u64(0);
        out.u32(self.catalog_root.0);
        out.u64(0);
        out.u32(checksum(&out));
        out
    }

    fn decode(bytes: &[u8]) -> Result<Meta> {
        let damaged = |what: &str| Error::damaged_file(META, what);
        if bytes.get(..8) != Some(MAGIC) {
            return Err(damaged("it does not begin with the magic"));
        }
        let (body, crc) = bytes.get(..LEN).ok_or_else(|| damaged("it is too short"))?.split_at(LEN - 4);
        if checksum(body).to_le_bytes() != crc {
            return Err(damaged("its checksum does not match"));
        }
        Meta::decode_body(body).ok_or_else(|| damaged("it is too short"))?
    }

    /// Decodes what the checksum vouches for; `None` if it is too short.
    fn decode_body(body: &[u8]) -> Option<Result<Meta>> {
        let mut r = Reader::new(&body[8..]);
        let (version, page_size) = (r.u32()?, r.u32()? as usize);
        let uuid = r.bytes(16)?.try_into().ok()?;
        let (_compatible, incompatible, root) = (r.u64()?, r.u64()?, r.u32()?);
        if version > FORMAT_VERSION {
            return Some(Err(Error::Incompatible(format!(
                "the database has format {version}, this version knows formats up to {FORMAT_VERSION}; \
                 open it with a newer version"
            ))));
        }
        if incompatible & !INCOMPATIBLE_KNOWN != 0 {
            return Some(Err(Error::Incompatible(format!(
                "the database uses features {:#x}, which this version does not know; open it with a newer version",
                incompatible & !INCOMPATIBLE_KNOWN
            ))));
        }
        if !limits::is_page_size(page_size) {
            return Some(Err(Error::damaged_file(META, format!("page size {page_size}"))));
        }
        Some(Ok(Meta { page_size, uuid, catalog_root: PageNo(root) }))
    }

    /// Reads the file, or `None` if there is none.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Meta>> {
        if !disk.exists(META)? {
            return Ok(None);
        }
        let options = OpenOptions { create: Create::Never, kind: FileKind::Meta, read_only: true };
        let file = disk.open(META, options)?;
        let mut bytes = vec![0; LEN.min(usize::try_from(file.len()?).unwrap_or(LEN))];
        file.read_at(0, &mut bytes)?;
        Meta::decode(&bytes).map(Some)
    }

    /// True if the directory holds a creation that has not finished.
    pub(crate) fn is_begun(disk: &dyn Disk) -> Result<bool> {
        if !disk.exists(META_NEW)? {
            return Ok(false);
        }
        let file = disk.open(META_NEW, OpenOptions::new(FileKind::Meta).read_only(true))?;
        let mut magic = [0; MAGIC.len()];
        Ok(file.len()? >= magic.len() as u64 && file.read_at(0, &mut magic).map(|()| magic == *MAGIC)?)
    }

    /// Says that a creation has begun. Durable when this returns.
    pub(crate) fn begin(disk: &dyn Disk, page_size: usize, uuid: [u8; 16]) -> Result<()> {
        Meta { page_size, uuid, catalog_root: PageNo(0) }.write(disk, META_NEW, Create::IfMissing)?;
        disk.sync_dir()
    }

    /// Makes the directory of a creation that has begun a database.
    pub(crate) fn finish(&self, disk: &dyn Disk) -> Result<()> {
        self.write(disk, META_NEW, Create::Never)?;
        disk.rename(META_NEW, META)?;
        disk.sync_dir()
    }

    /// Makes the directory of a copy, whose other files are durable, a database.
    pub(crate) fn copy(&self, disk: &dyn Disk) -> Result<()> {
        self.write(disk, META, Create::New)?;
        disk.sync_dir()
    }

    /// Writes the file `name`, durably but for its name. It lies within a sector, so a power cut
    /// leaves all of it, or nothing.
    fn write(&self, disk: &dyn Disk, name: &str, create: Create) -> Result<()> {
        let file = disk.open(name, OpenOptions::new(FileKind::Meta).create(create))?;
        file.write_at(0, &self.encode())?;
        file.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta { page_size: 8192, uuid: [7; 16], catalog_root: PageNo(3) }
    }

    #[test]
    fn it_round_trips_and_every_flipped_bit_is_noticed() {
        let bytes = meta().encode();
        assert_eq!((bytes.len(), Meta::decode(&bytes).unwrap()), (LEN, meta()));
        for bit in 0..LEN * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Meta::decode(&bad).unwrap_err().is_damage(), "bit {bit}");
        }
        assert!(Meta::decode(&bytes[..40]).is_err());
    }

    #[test]
    fn newer_formats_are_refused() {
        for (at, what) in [(8, "format 9"), (40, "features 0x9")] {
            let mut bytes = meta().encode();
            bytes[at] = 9;
            let crc = checksum(&bytes[..60]);
            bytes[60..].copy_from_slice(&crc.to_le_bytes());
            let err = Meta::decode(&bytes).unwrap_err();
            assert!(matches!(err, Error::Incompatible(_)) && err.to_string().contains(what), "{err}");
        }
    }
}
