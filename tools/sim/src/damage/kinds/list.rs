//! The list of all kinds of damage.

use super::scene::{Done, Scene};
use super::{catalog, entry, file, log, node, page, space, undo};

/// A kind of damage.
pub struct Kind {
    pub name: &'static str,
    /// How often it is drawn, beside the others.
    pub weight: u32,
    /// Does it; `None` if the database has nothing of the sort.
    pub apply: fn(&mut Scene<'_>) -> Option<Done>,
}

const fn kind(name: &'static str, weight: u32, apply: fn(&mut Scene<'_>) -> Option<Done>) -> Kind {
    Kind { name, weight, apply }
}

/// All kinds.
pub const KINDS: &[Kind] = &[
    kind("node-header", 3, node::header),
    kind("node-counts", 4, node::counts),
    kind("node-hints", 1, node::hints),
    kind("slot", 5, node::slot),
    kind("slots-swapped", 2, node::slots_swapped),
    kind("record-length", 3, node::record_length),
    kind("key-byte", 4, node::key_byte),
    kind("child", 5, node::child),
    kind("separator", 3, node::separator),
    kind("version-flags", 3, entry::flags),
    kind("version-writer", 4, entry::writer),
    kind("roll-pointer", 3, entry::roll_pointer),
    kind("chain-reference", 4, entry::chain_reference),
    kind("entry-value", 3, entry::entry_value),
    kind("chain-next", 4, space::chain_next),
    kind("chain-length", 3, space::chain_length),
    kind("chain-references", 2, space::chain_references),
    kind("space-identity", 2, space::identity),
    kind("space-pages", 3, space::pages),
    kind("space-marks", 2, space::marks),
    kind("bitmap-bit", 4, space::bit),
    kind("bitmap-words", 3, space::words),
    kind("undo-page", 4, undo::page_header),
    kind("undo-state", 3, undo::state),
    kind("undo-links", 3, undo::links),
    kind("undo-record", 4, undo::record),
    kind("undo-directory", 3, undo::directory),
    kind("version-tree", 3, undo::version),
    kind("catalog-record", 4, catalog::record),
    kind("catalog-ids", 1, catalog::next_ids),
    kind("catalog-page", 2, catalog::page),
    kind("page-lsn", 3, page::lsn),
    kind("page-address", 1, page::address),
    kind("pages-swapped", 3, page::swapped),
    kind("page-older", 3, page::older),
    kind("page-foreign", 3, page::foreign),
    kind("page-zeros", 3, page::zeros),
    kind("page-garbage", 2, page::garbage),
    kind("page-bit", 3, page::bit),
    kind("file-shorter", 3, file::shorter),
    kind("file-longer", 2, file::longer),
    kind("file-missing", 2, file::missing),
    kind("file-empty", 1, file::empty),
    kind("file-older", 2, file::older),
    kind("files-swapped", 1, file::swapped),
    kind("meta", 2, file::meta),
    kind("double-write", 2, file::double_write),
    kind("log-bit", 3, log::bit),
    kind("log-group", 3, log::group),
    kind("log-record", 4, log::record),
    kind("log-segment", 2, log::segment),
    kind("checkpoint", 3, log::checkpoint),
];
