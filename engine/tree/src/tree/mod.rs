//! B+trees over pages of the pool.
//!
//! A tree is its root page, whose number never changes, and the pages that it leads to. Leaves hold
//! the entries, all on level 0; inner nodes hold separators. There are no links between siblings: a
//! cursor finds the next leaf by another descent, with a bound that it took from the parents.
//!
//! **Readers** descend optimistically: they latch nothing, read a child's version before they
//! validate its parent's, and start over when a version has changed or a page has to be loaded.
//! After several failures they descend with shared latches, the parent's held until the child's is,
//! under a frame reservation. **Leaf writers** descend like readers, upgrade the leaf's latch, and
//! change that leaf alone; a writer that has just read the entry needs no descent (see `spot`).
//!
//! **Structure changes** (splits, merges, a new root, a page moved) hold the tree's structure
//! mutex, one at a time. No other thread changes inner nodes or the key range of a node, so a
//! structure change may read the path first and latch top-down only the parent and the nodes that
//! it rewrites. Log space and frames are reserved before the mutex; while it is held, and nothing
//! latched, the frames that the descent has used are replaced. It is one mini-transaction per
//! level: between two of them the tree is valid, if not yet as balanced as it will be. Every node
//! whose key range changes is rewritten, so a leaf whose version is unchanged still covers the
//! range that it covered.
//!
//! **Why no reader misses a key.** A key moves from node A to node B only while both and their
//! parent are latched exclusively, and their versions change. A reader that took B's predecessor
//! from the parent validates the parent after it has A's version. If the parent is unchanged then,
//! A was still the right child when its version was read, and the later validation of A shows that
//! it has not been split since.

mod ahead;
mod batch;
mod bulk;
mod change;
mod cursor;
mod descend;
mod merge;
mod path;
mod relocate;
mod split;
mod spot;
mod stats;
mod verify;
mod walk;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdfast_base::blocking::{Mutex, MutexGuard};
use holdfast_base::limits::key_len_max;
use holdfast_base::{Error, IndexId, PageId, PageNo, Result, latches};
use holdfast_metrics::{Counter, WaitClass};
use holdfast_pool::{Access, RESERVED_MAX};
use holdfast_wal::SpaceClass;

use crate::mtr::{Mtr, PageRef};
use crate::node::NodeRef;
use crate::op::PageOp;
use crate::space::{ALLOC_FRAMES, FREE_FRAMES, SpaceFile};
use crate::store::Store;

pub use batch::{Batch, BatchLimit};
pub use bulk::{BulkLoader, SuspendedLoad};
pub use change::Action;
pub use cursor::TreeCursor;
pub use spot::Spot;
pub use stats::{Estimate, LevelStats, TreeStats};
pub use verify::FindOverflow;
pub use walk::{Direction, Walk};

/// Frames that a structure change reserves for each of its mini-transactions: the parent, a node, a
/// new one, and those of its allocation. A merge latches a third node and only frees.
const STRUCTURE_FRAMES: usize = ALLOC_FRAMES + 3;
const _: () = assert!(STRUCTURE_FRAMES <= RESERVED_MAX && FREE_FRAMES + 4 <= STRUCTURE_FRAMES);

/// A B+tree. Shared by all threads that use the index.
pub struct Tree {
    space: Arc<SpaceFile>,
    index: IndexId,
    root: PageNo,
    /// Held while the structure is changed: how often that was begun.
    structure: Mutex<u64>,
    /// The page that was allocated last: the next one is to be near it where its neighbours leave
    /// no room.
    last_new: AtomicU32,
}

impl Tree {
    /// Creates an empty tree: allocates and logs its root. Returns the root's page number.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; the errors of the log.
    pub fn create(space: &Arc<SpaceFile>, index: IndexId, acc: &Access<'_>) -> Result<PageNo> {
        let store = space.store();
        let ticket = store.reserve(512, SpaceClass::User)?;
        let _frames = space.reserve_alloc(PageNo(2), 1, acc)?;
        let mut mtr = store.begin(ticket, acc);
        let page = space.alloc_new(&mut mtr, PageNo(2))?;
        let root = mtr.id(page).no;
        mtr.apply(page, &PageOp::InitNode { index, level: 0 })?;
        mtr.commit()?;
        Ok(root)
    }

    /// The tree of `index` whose root is page `root`. There is one `Tree` per index, because it
    /// holds the mutex that serialises structure changes.
    #[must_use]
    pub fn open(space: &Arc<SpaceFile>, index: IndexId, root: PageNo) -> Tree {
        Tree { space: space.clone(), index, root, structure: Mutex::new(0), last_new: AtomicU32::new(root.0) }
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> IndexId {
        self.index
    }

    /// The root's page number.
    #[must_use]
    pub fn root(&self) -> PageNo {
        self.root
    }

    /// Where its pages are.
    #[must_use]
    pub fn space(&self) -> &Arc<SpaceFile> {
        &self.space
    }

    fn store(&self) -> &Arc<Store> {
        self.space.store()
    }

    fn page_size(&self) -> usize {
        self.store().page_size()
    }

    fn damaged(&self, no: PageNo, what: &str) -> Error {
        self.store().damaged(PageId::new(self.space.id(), no), format!("index {}: {what}", self.index))
    }

    /// `bytes`, the page `no`, as a node of this tree.
    fn node<'p>(&self, bytes: &'p [u8], no: PageNo) -> Result<NodeRef<'p, [u8]>> {
        NodeRef::new(bytes, self.index).ok_or_else(|| self.damaged(no, "a page that is no node of it"))
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        let max = key_len_max(self.page_size());
        if key.len() > max {
            return Err(Error::KeyTooLong { len: key.len(), max });
        }
        Ok(())
    }

    /// Locks the structure to change it.
    fn lock_structure(&self) -> MutexGuard<'_, u64> {
        let mut changes = self.hold_structure();
        *changes += 1;
        changes
    }

    /// Keeps the structure as it is. As long as what the guard holds is the same, it is the same.
    fn hold_structure(&self) -> MutexGuard<'_, u64> {
        latches::none_while_waiting_for("the structure of an index");
        self.structure.try_lock().unwrap_or_else(|| {
            let _timer = self.store().metrics().wait(WaitClass::StructureChange);
            self.structure.lock()
        })
    }

    /// Allocates a page of this tree, near `near` if there is room, and latches it to be
    /// initialised.
    fn alloc_new(&self, mtr: &mut Mtr<'_>, near: PageNo) -> Result<PageRef> {
        let last = PageNo(self.last_new.load(Ordering::Relaxed));
        let page = self.space.alloc_new_of_index(mtr, near, last)?;
        self.last_new.store(mtr.id(page).no.0, Ordering::Relaxed);
        Ok(page)
    }

    fn count(&self, counter: Counter) {
        self.store().metrics().add(counter, 1);
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("index", &self.index).field("root", &self.root).finish_non_exhaustive()
    }
}
