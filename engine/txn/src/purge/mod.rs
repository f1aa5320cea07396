//! Purge: what becomes of the undo log of a committed transaction T.
//!
//! # When
//! In commit order, one log at a time, once no *short* view is older than T's commit. A view that
//! holds back more than a configured number of commits is made long: then purge goes on and copies
//! for it.
//!
//! # What
//! If no view is older than the commit, and no record put a delete mark or replaced an overflow
//! chain, there is nothing to do: the records are not even read.
//!
//! If a view is older, and only views hold back a log of one page, its records go to the
//! [shelf], whatever the age of the view, and the log is retired. What follows is
//! about the other logs, and about what leaves the shelf.
//!
//! If there are (long) views older than the commit, a first pass puts into the version tree what
//! they need. Nothing is cut before it is complete: a reader that finds a record gone trusts the
//! version tree. Then a log that asks for nothing else is released, and any other is consumed from
//! its end, like by a rollback. Of a log of one page, only the records that ask for something are
//! read: the log knows which. For each record, by its key:
//! * The prior image was written by T itself: no view can see that version. Its overflow chain is
//!   freed.
//! * The prior image was written before T, by W: it is the version before T. If some long view sees
//!   W (and, being older than T's commit, not T), the image goes to the version tree, chain
//!   included; if not, its chain is freed.
//! * The change put a delete mark: the entry is removed if it still carries (T, this record) and no
//!   view is older than T. Otherwise the mark is entered in the version tree as pending, and goes
//!   with that entry.
//!
//! Then the log is free. So a long view costs one version per entry that was changed, however
//! often.
//!
//! Of an index that is dropped only the images are copied: transactions that began before go on
//! reading it. Its delete marks and chains go with it. A table with a damaged page is passed over:
//! it can only be salvaged, and the others must not wait. A delete mark on a page that the device
//! does not return is remembered (`crate::purge::marks`). What damage of the undo space itself
//! costs, and a table that could not be opened, is in `crate::purge::lost`.
//!
//! # Crash safety
//! Every step can be repeated. A chain that a record names belongs to the version tree if the image
//! is there, else to the record. A record is cut, and an entry of the version tree dropped, before
//! its chain is freed; nothing of a log is dropped from the version tree while it is half purged.
//! So a crash may lose a chain, but never frees one twice. A long chain is freed part by part, and
//! what names it stays until the last one: see `crate::purge::parts`.
//!
//! Therefore a log need not be marked free that neither put a delete mark nor replaced a chain, or
//! from which nothing went to the version tree: what it still says after a crash, when there are no
//! views, is purged once more, to no effect (no record in it names a chain that was freed; an entry
//! is removed only if it carries the record's mark). It is *retired*, and a small transaction costs
//! purge no log but that of the versions. A log of an earlier run is marked free, so that it does
//! not come back again and again.

pub(crate) mod background;
pub(crate) mod history;
mod logs;
pub(crate) mod lost;
pub(crate) mod marks;
pub(crate) mod parts;
pub(crate) mod proofs;
pub(crate) mod purger;
pub mod shelf;
pub(crate) mod shelving;
pub(crate) mod sweep;
pub(crate) mod sweep_state;
pub mod versions;
mod worker;
