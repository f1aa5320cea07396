//! Hashing of page keys.

/// A bijective mix of all bits of a page key (the finalizer of MurmurHash3).
pub(crate) fn mix(key: u64) -> u64 {
    let mut h = key ^ key >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}
