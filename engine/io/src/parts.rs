//! What an implementation of [`Disk`](crate::Disk) is made of: checks of names and ranges, errors
//! with the words of the other disks, content and locks in memory.

pub use crate::disk::{check_name, check_range, unexpected_eof};
pub use crate::memory::{LockFlag, name_error};
pub use crate::sparse::SparseBytes;
