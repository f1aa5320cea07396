//! The limits of the format.

/// Smallest page size, in bytes.
pub const PAGE_SIZE_MIN: usize = 4 << 10;
/// Largest page size, in bytes.
pub const PAGE_SIZE_MAX: usize = 64 << 10;
/// Default page size, in bytes.
pub const PAGE_SIZE_DEFAULT: usize = 16 << 10;

/// Pages of an extent, the unit in which files grow and shrink.
pub const EXTENT_PAGES: u32 = 64;

/// Smallest pool, in bytes: 1,024 cursors and 64 writers make progress with it.
pub const CACHE_SIZE_MIN: u64 = 5 << 20;
/// Smallest log capacity, in bytes.
pub const LOG_CAPACITY_MIN: u64 = 4 << 20;
/// What the log may take where nothing is set, in bytes.
pub const LOG_CAPACITY_DEFAULT: u64 = 96 << 20;

/// Longest value, in bytes (4 GiB - 1).
pub const VALUE_LEN_MAX: u64 = u32::MAX as u64;

/// Longest key that an index over pages of `page_size` bytes takes, in bytes.
#[must_use]
pub const fn key_len_max(page_size: usize) -> usize {
    page_size / 4
}

/// True if databases may have pages of `page_size` bytes: a power of two from 4 to 64 KiB.
#[must_use]
pub const fn is_page_size(page_size: usize) -> bool {
    page_size.is_power_of_two() && page_size >= PAGE_SIZE_MIN && page_size <= PAGE_SIZE_MAX
}
