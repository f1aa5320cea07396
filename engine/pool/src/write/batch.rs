//! Pages on their way to disk. See `flush`.

use std::sync::Arc;

use holdfast_base::{Lsn, PageId};
use holdfast_metrics::Counter;

use crate::resident::space::Space;
use crate::write::doublewrite::Slots;
use crate::write::images::Images;

/// A page of a batch.
pub(crate) struct Staged {
    pub(crate) frame: u32,
    pub(crate) id: PageId,
    pub(crate) space: Arc<Space>,
    pub(crate) rec_lsn: Lsn,
    /// Position of the copy in the images.
    pub(crate) image: usize,
    /// It has an image in the double-write file to rely on.
    pub(crate) has_image: bool,
    /// It is written home.
    pub(crate) is_written: bool,
}

/// Copies of pages on their way to disk.
pub(crate) struct Batch {
    pub(crate) staged: Vec<Staged>,
    pub(crate) images: Images,
    /// Newest page LSN.
    pub(crate) lsn: Lsn,
}

/// A batch whose pages have good images in the double-write file (or need none): what is left is to
/// write them home.
pub(crate) struct Secured {
    pub(crate) batch: Batch,
    pub(crate) slots: Option<Slots>,
    pub(crate) write: u64,
    pub(crate) next: usize,
    pub(crate) cause: Counter,
}
