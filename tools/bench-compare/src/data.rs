//! The data and the dice: keys are 8 bytes big-endian, values 100 bytes that do not compress to
//! nothing.

/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;
/// Bytes of a row without any engine's overhead.
pub const ROW_BYTES: u64 = 8 + VALUE_BYTES as u64;

/// Rows of a range scan.
pub const RANGE_ROWS: usize = 100;

/// The key of row `n`.
pub fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// The value of row `n` in its `version`-th form.
pub fn value(n: u64, version: u64) -> [u8; VALUE_BYTES] {
    let mut dice = Dice::new(n ^ version.rotate_left(32));
    let mut out = [0; VALUE_BYTES];
    for chunk in out.chunks_mut(8) {
        let word = dice.next().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    out
}

/// SplitMix64 (Steele, Lea, Flood 2014): fast enough to vanish beside what is measured.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0..n.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}
