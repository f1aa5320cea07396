//! The data: keys are 8 bytes big-endian, values 100 bytes that do not compress to nothing.

use holdfast_testkit::SplitMix64;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;
/// Bytes of a row without any engine's overhead.
pub const ROW_BYTES: u64 = 8 + VALUE_BYTES as u64;

/// The most rows: what an engine takes for them is a number of bytes.
pub const MOST_ROWS: u64 = 1 << 40;
/// Rows of a range scan.
pub const RANGE_ROWS: usize = 100;

/// The key of row `n`.
pub fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// The value of row `n` in its `version`-th form.
pub fn value(n: u64, version: u64) -> [u8; VALUE_BYTES] {
    let mut dice = SplitMix64::new(n ^ version.rotate_left(32));
    let mut out = [0; VALUE_BYTES];
    for chunk in out.chunks_mut(8) {
        let word = dice.next_u64().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    out
}
