//! Data files that are read piece by piece, while they may become shorter, and from devices that
//! may not return everything.

use holdfast_base::{Error, Result};
use holdfast_io::File;

/// Fills `piece` with the bytes of `file` from `at` on. False if the file ends before the end of
/// the piece, because it was cut after the caller asked for its length.
///
/// # Errors
/// The errors of reading.
pub(crate) fn read_piece(file: &dyn File, at: u64, piece: &mut [u8]) -> Result<bool> {
    match file.read_at(at, piece) {
        Ok(()) => Ok(true),
        Err(_) if file.len()? < at + piece.len() as u64 => Ok(false),
        Err(error) => Err(error),
    }
}

/// True if the error says that stored bytes are lost: they are not what was written, or the device
/// does not return them.
pub(crate) fn is_loss(error: &Error) -> bool {
    error.is_damage() || error.is_unread()
}
