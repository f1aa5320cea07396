//! The common part of all policy words: the two lowest bits name the policy that wrote the word.

/// Mask of the kind.
pub(crate) const MASK: u64 = 0b11;
/// Word of the `holdfast` policy. (Kind 0 is a page in no queue.)
pub(crate) const HOLDFAST: u8 = 1;
/// Word of `midpoint_lru`.
pub(crate) const MIDPOINT: u8 = 2;
/// Word of `lru`.
pub(crate) const LRU: u8 = 3;
