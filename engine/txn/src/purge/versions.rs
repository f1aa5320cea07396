//! The version tree: the old versions that a long view still needs after their undo logs were
//! freed.
//!
//! ```text
//! key:   index u32 BE | key length u16 BE | key | overwriter's txn id u64 BE
//!        index u32 BE | 0xffff | 128-bit hash of a key that is too long
//!            | overwriter's txn id u64 BE
//! value: flags u8: bit 0 image, bit 1 pending delete mark, bit 2 the rest is a reference to an
//!            overflow chain
//!        roll pointer u64 (bit 1): of the delete mark
//!        key: length varint, bytes
//!        image: the rest (bit 0): the payload before the overwriter's first change
//! ```
//! An entry has an image, a pending delete mark, or both, and nothing else: a value that is longer,
//! or that is about another key than the one that it is under, is damage.
//!
//! A view needs an entry if it sees the image's writer and does not see the overwriter: for one key
//! and one view that is at most one entry, because the versions of a key are in commit order.
//!
//! *Pending* entries remember delete marks that could not be removed because some view still has to
//! find the row there; the mark goes with the entry.
//!
//! # Protocol
//! Only purge writes here, under its mutex: an entry is put before the undo record that it stands
//! for is cut, and dropped when no view needs it. What an earlier run left is dropped the same way.
//! The chain that an entry was spilled to is freed when the entry has been dropped or replaced. If
//! that fails, what is left of it is kept in memory, and a later sweep frees it; a crash in between
//! loses it.
//!
//! The hash is SipHash-2-4 under a random key that the space header keeps, so no user can make two
//! keys collide.

use std::borrow::Cow;
use std::hash::Hasher;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use holdfast_base::blocking::Mutex;
use holdfast_base::codec::{Reader, Writer};
use holdfast_base::limits::key_len_max;
use holdfast_base::{Error, IndexId, PageNo, Result, RollPtr, TxnId};
use holdfast_pool::Access;
use holdfast_tree::{Action, Direction, FREE_BYTES, FREE_FRAMES, OverflowRef, SpaceFile, Tree, Walk, overflow};
use holdfast_wal::SpaceClass;

use crate::entry::row::VersionHeader;
use crate::entry::values::{self, NewValue};
use crate::mvcc::commit_map::CommitMap;
use crate::mvcc::view::View;
use crate::undo::marks;
use crate::undo::space::SMALL_MTR;

/// The index id of the version tree.
pub const VERSION_INDEX: IndexId = IndexId(u32::MAX);

const IMAGE: u8 = 1;
const PENDING: u8 = 2;
const SPILLED: u8 = 4;
const HASHED: u16 = u16::MAX;
const FIXED: usize = 4 + 2 + 8;

/// The tree and what is in it.
pub(crate) struct VersionTree {
    tree: Tree,
    hash: [u64; 2],
    /// Entries by transactions below `since` that are not in `unfinished`, which is sorted, are
    /// those of an earlier run. They are not counted.
    since: TxnId,
    unfinished: Vec<TxnId>,
    count: AtomicI64,
    bytes: AtomicI64,
    /// Chains that entries were spilled to, to which nothing leads any more, and that could not be
    /// freed yet.
    unfreed: Mutex<Vec<OverflowRef>>,
}

/// A decoded entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub index: IndexId,
    pub key: Vec<u8>,
    pub overwriter: TxnId,
    /// The delete mark to be removed with the entry.
    pub pending: Option<RollPtr>,
    pub image: Option<Vec<u8>>,
}

impl Entry {
    fn encode_body(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.key.len() + self.image.as_ref().map_or(0, Vec::len));
        if let Some(roll) = self.pending {
            out.u64(roll.0);
        }
        out.bytes_with_len(&self.key);
        if let Some(image) = &self.image {
            out.bytes(image);
        }
        out
    }

    fn flags(&self) -> u8 {
        (if self.image.is_some() { IMAGE } else { 0 }) | if self.pending.is_some() { PENDING } else { 0 }
    }

    fn new(index: IndexId, overwriter: TxnId, body: &Body<'_>) -> Entry {
        let image = body.image.map(<[u8]>::to_vec);
        Entry { index, key: body.key.to_vec(), overwriter, pending: body.pending, image }
    }

    /// The image's writer.
    pub fn writer(&self) -> Option<TxnId> {
        self.image.as_deref().and_then(writer_of)
    }
}

/// What a value says behind its flags. The rest of one that is spilled has to be read before.
struct Body<'v> {
    pending: Option<RollPtr>,
    key: &'v [u8],
    image: Option<&'v [u8]>,
}

impl Body<'_> {
    /// `None` if it is none, or is longer than the flags say.
    fn decode(flags: u8, body: &[u8]) -> Option<Body<'_>> {
        let mut r = Reader::new(body);
        let pending = if flags & PENDING != 0 { Some(RollPtr(r.u64()?)) } else { None };
        let key = r.bytes_with_len()?;
        let image = (flags & IMAGE != 0).then(|| r.rest());
        let is_whole = image.is_some() || pending.is_some() && r.is_empty();
        (is_whole && flags & !(IMAGE | PENDING | SPILLED) == 0).then_some(Body { pending, key, image })
    }
}

/// The transaction that wrote the version of which `image` is the payload.
fn writer_of(image: &[u8]) -> Option<TxnId> {
    VersionHeader::decode(image).map(|(header, _)| header.txn)
}

/// The chain that the value of an entry goes on in.
pub(crate) fn spilled(value: &[u8]) -> Option<OverflowRef> {
    let (flags, body) = value.split_first()?;
    if flags & SPILLED != 0 { rest_of(body) } else { None }
}

/// The chain with the rest of a value that is spilled, of which an entry has `body`.
fn rest_of(body: &[u8]) -> Option<OverflowRef> {
    values::decode(body).ok().filter(|(_, behind)| behind.is_empty()).map(|(chain, _)| chain)
}

/// The chain that the image of an entry refers to. It is not known here of one that is spilled.
fn chain_of_image(value: &[u8]) -> Option<OverflowRef> {
    let (&flags, body) = value.split_first()?;
    if flags & SPILLED != 0 {
        return None;
    }
    Body::decode(flags, body)?.image.and_then(values::chain_of)
}

/// Bytes that an entry takes, its chain and that of its image included.
pub(crate) fn size(key: &[u8], value: &[u8]) -> u64 {
    let chains = [spilled(value), chain_of_image(value)];
    (key.len() + value.len()) as u64 + chains.into_iter().flatten().map(|chain| u64::from(chain.len)).sum::<u64>()
}

/// The two parts of a version tree key that are needed to decode the value.
pub(super) fn split_key(key: &[u8]) -> Option<(IndexId, TxnId)> {
    let index = u32::from_be_bytes(key.get(..4)?.try_into().ok()?);
    let txn = u64::from_be_bytes(key.get(key.len().checked_sub(8)?..)?.try_into().ok()?);
    (key.len() >= FIXED).then_some((IndexId(index), TxnId(txn)))
}

fn undecodable() -> Error {
    Error::damaged_file("the version tree", "an entry cannot be decoded, or is under the key of another one")
}

/// SipHash-2-4, whose values are laid down, unlike those of the standard library's default hasher.
#[allow(deprecated)]
fn sip(a: u64, b: u64, key: &[u8]) -> u64 {
    let mut hasher = std::hash::SipHasher::new_with_keys(a, b);
    hasher.write(key);
    hasher.finish()
}

impl VersionTree {
    /// Creates the tree in the undo space.
    pub fn create(file: &Arc<SpaceFile>, acc: &Access<'_>) -> Result<VersionTree> {
        let root = Tree::create(file, VERSION_INDEX, acc)?;
        let hash = [holdfast_base::random_number(), holdfast_base::random_number()];
        for (mark, key) in marks::VERSION_HASH.into_iter().zip(hash) {
            file.set_mark(mark, key, acc)?;
        }
        file.set_mark(marks::VERSION_ROOT, u64::from(root.0), acc)?;
        Ok(VersionTree::new(Tree::open(file, VERSION_INDEX, root), hash))
    }

    /// Opens the tree.
    pub fn open(file: &Arc<SpaceFile>, acc: &Access<'_>) -> Result<VersionTree> {
        let root = PageNo(u32::try_from(file.mark(marks::VERSION_ROOT, acc)?).unwrap_or(0));
        let hash = [file.mark(marks::VERSION_HASH[0], acc)?, file.mark(marks::VERSION_HASH[1], acc)?];
        Ok(VersionTree::new(Tree::open(file, VERSION_INDEX, root), hash))
    }

    fn new(tree: Tree, hash: [u64; 2]) -> VersionTree {
        let (since, unfinished) = (TxnId::NONE, Vec::new());
        let (count, bytes, unfreed) = (AtomicI64::new(0), AtomicI64::new(0), Mutex::default());
        VersionTree { tree, hash, since, unfinished, count, bytes, unfreed }
    }

    /// Says that what is there is by transactions below `since`, and not by those that are
    /// `unfinished`.
    pub fn of_earlier_run(self, since: TxnId, unfinished: &[TxnId]) -> VersionTree {
        let mut unfinished = unfinished.to_vec();
        unfinished.sort_unstable();
        VersionTree { since, unfinished, ..self }
    }

    /// True if the entry under `key` is about a transaction of this run.
    fn is_counted(&self, key: &[u8]) -> bool {
        let is_new = |txn: TxnId| txn >= self.since || self.unfinished.binary_search(&txn).is_ok();
        split_key(key).is_none_or(|(_, overwriter)| is_new(overwriter))
    }

    /// True if there are no versions, those of an earlier run included, and nothing is left of any.
    pub fn is_empty(&self) -> Result<bool> {
        let acc = self.file().store().pool().access(holdfast_pool::AccessKind::Purge);
        Ok(self.unfreed.lock().is_empty() && self.batch(&[], 1, &acc)?.is_empty())
    }

    /// The tree, for verification.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Entries about transactions of this run that are not dropped.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed).max(0).unsigned_abs()
    }

    /// Bytes of those entries.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).max(0).unsigned_abs()
    }

    fn account(&self, key: &[u8], entries: i64, bytes: i64) {
        if !self.is_counted(key) {
            return;
        }
        self.count.fetch_add(entries, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn file(&self) -> &Arc<SpaceFile> {
        self.tree.space()
    }

    fn page_size(&self) -> usize {
        self.file().store().page_size()
    }

    /// What all entries of (index, key) begin with.
    pub fn prefix(&self, index: IndexId, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED + key.len());
        out.bytes(&index.0.to_be_bytes());
        if key.len() + FIXED <= key_len_max(self.page_size()) && key.len() < usize::from(HASHED) {
            out.bytes(&(key.len() as u16).to_be_bytes());
            out.bytes(key);
        } else {
            out.bytes(&HASHED.to_be_bytes());
            let [a, b] = self.hash;
            out.bytes(&sip(a, b, key).to_be_bytes());
            out.bytes(&sip(b, a, key).to_be_bytes());
        }
        out
    }

    fn full_key(&self, index: IndexId, key: &[u8], overwriter: TxnId) -> Vec<u8> {
        let mut out = self.prefix(index, key);
        out.bytes(&overwriter.0.to_be_bytes());
        out
    }

    /// Checks an entry as far as its bytes tell: that it can be decoded, is under the key that its
    /// content gives it, and is about transactions below `next`. Of one that is spilled only the
    /// reference to the rest is there.
    ///
    /// # Errors
    /// A message for people.
    pub fn check_entry(&self, key: &[u8], value: &[u8], next: TxnId) -> Result<(), &'static str> {
        let parts = split_key(key).zip(value.split_first());
        let ((index, overwriter), (&flags, body)) = parts.ok_or("cannot be decoded")?;
        if flags & !(IMAGE | PENDING | SPILLED) != 0 {
            return Err("has unknown flags");
        }
        if overwriter >= next {
            return Err("was overwritten by a transaction that there never was");
        }
        if flags & SPILLED != 0 {
            return rest_of(body).map(drop).ok_or("has a reference to its rest that cannot be decoded");
        }
        let body = Body::decode(flags, body).ok_or("cannot be decoded")?;
        if self.full_key(index, body.key, overwriter) != key {
            return Err("is under the key of another one");
        }
        match body.image.and_then(writer_of) {
            None if body.image.is_some() => Err("has an image that is no version"),
            Some(writer) if writer >= next => Err("is by a transaction that there never was"),
            _ => Ok(()),
        }
    }

    fn decode_value(&self, key: &[u8], value: &[u8], acc: &Access<'_>) -> Result<Entry> {
        let (index, txn) = split_key(key).ok_or_else(undecodable)?;
        let mut chain = Vec::new();
        let body = self.whole(key, value, acc, &mut chain)?;
        Ok(Entry::new(index, txn, &body))
    }

    /// What the value under `key` says, all of it; `chain` takes the rest of one that is spilled.
    fn whole<'v>(&self, key: &[u8], value: &'v [u8], acc: &Access<'_>, chain: &'v mut Vec<u8>) -> Result<Body<'v>> {
        let (&flags, mut bytes) = value.split_first().ok_or_else(undecodable)?;
        if flags & SPILLED != 0 {
            let rest = rest_of(bytes).ok_or_else(undecodable)?;
            overflow::read_chain(self.file(), VERSION_INDEX, rest, acc, chain)?;
            bytes = chain.as_slice();
        }
        let body = Body::decode(flags, bytes).ok_or_else(undecodable)?;
        let is_under = |(index, overwriter)| self.full_key(index, body.key, overwriter) == key;
        if split_key(key).is_some_and(is_under) { Ok(body) } else { Err(undecodable()) }
    }

    /// Puts an entry, or adds to the one that is there: a pending delete mark and an image may come
    /// one by one. Returns its key in the tree, and how many bytes were added. Only purge calls
    /// this.
    pub fn put(&self, entry: Entry, acc: &Access<'_>) -> Result<(Vec<u8>, u64)> {
        let key = self.full_key(entry.index, &entry.key, entry.overwriter);
        let mut value = self.encode_value(&key, &entry, acc)?;
        let mut there = None;
        // As a rule there is none, and the tree is gone through once.
        let put = self.tree.modify_as(SpaceClass::Rollback, &key, acc, &mut |current| {
            there = current.map(<[u8]>::to_vec);
            Ok(if there.is_none() { Action::Put(value.clone()) } else { Action::Keep })
        });
        self.or_free(put, &value, acc)?;
        if let Some(old) = there {
            self.free_spilled(&value, acc)?;
            value = self.encode_value(&key, &self.merge(&key, &old, entry, acc)?, acc)?;
            let put = self.tree.modify_as(SpaceClass::Rollback, &key, acc, &mut |_| Ok(Action::Put(value.clone())));
            self.or_free(put, &value, acc)?;
            let (now, before) = (size(&key, &value), size(&key, &old));
            self.account(&key, 0, now as i64 - before as i64);
            self.free_spilled(&old, acc)?;
            return Ok((key, now.saturating_sub(before)));
        }
        let bytes = size(&key, &value);
        self.account(&key, 1, bytes as i64);
        Ok((key, bytes))
    }

    /// Purge goes backwards: what is there is about a later change by the same transaction. Of
    /// delete marks the last one is what remains in the tree; of images the first is what was there
    /// before the transaction.
    fn merge(&self, key: &[u8], old: &[u8], entry: Entry, acc: &Access<'_>) -> Result<Entry> {
        let there = self.decode_value(key, old, acc)?;
        Ok(Entry { pending: there.pending.or(entry.pending), image: entry.image.or(there.image), ..entry })
    }

    /// What is stored under `key`; what does not fit there is written to a chain.
    fn encode_value(&self, key: &[u8], entry: &Entry, acc: &Access<'_>) -> Result<Vec<u8>> {
        let body = entry.encode_body();
        let mut value = Vec::with_capacity(1 + body.len());
        if 1 + body.len() > holdfast_tree::node::payload_len_max(self.page_size(), key.len()) {
            value.push(entry.flags() | SPILLED);
            value.bytes(&values::write(self.file(), VERSION_INDEX, NewValue::from(&body), OverflowRef::LEN, acc)?);
        } else {
            value.push(entry.flags());
            value.bytes(&body);
        }
        Ok(value)
    }

    /// Frees the chain of a value that was not put.
    fn or_free<T>(&self, put: Result<T>, value: &[u8], acc: &Access<'_>) -> Result<T> {
        put.inspect_err(|_| drop(self.free_spilled(value, acc)))
    }

    /// Frees the chain that the value of an entry was spilled to, now or by
    /// [`VersionTree::free_left`]: nothing else gives back what is lost of the undo space.
    pub fn free_spilled(&self, value: &[u8], acc: &Access<'_>) -> Result<()> {
        match value.split_first() {
            Some((flags, body)) if flags & SPILLED != 0 => self.free_chain(values::decode(body)?.0, acc, |_| true),
            _ => Ok(()),
        }
    }

    /// Frees a chain. What is left after an error that is no damage is kept if the error is one
    /// that `passes`.
    fn free_chain(&self, mut chain: OverflowRef, acc: &Access<'_>, passes: impl Fn(&Error) -> bool) -> Result<()> {
        let freed = overflow::release_rest(self.file(), VERSION_INDEX, &mut chain, acc, SpaceClass::Rollback);
        freed.map(drop).inspect_err(|error| {
            if !error.is_damage() && passes(error) {
                self.unfreed.lock().push(chain);
            }
        })
    }

    /// Frees the chains that could not be freed when nothing led to them any more.
    ///
    /// # Errors
    /// The errors of reading and writing pages. What is left then is freed by the next call, unless
    /// a page was not returned this time either: that may never come back.
    pub fn free_left(&self, acc: &Access<'_>) -> Result<()> {
        let left = std::mem::take(&mut *self.unfreed.lock());
        let freed = left.into_iter().map(|chain| self.free_chain(chain, acc, |error| !error.is_unread()));
        freed.fold(Ok(()), Result::and)
    }

    /// The version of (index, key) that `view` sees, if it is here.
    pub fn find(
        &self,
        index: IndexId,
        key: &[u8],
        view: &View,
        map: &CommitMap,
        acc: &Access<'_>,
        image: &mut Vec<u8>,
    ) -> Result<bool> {
        let (prefix, end) = (self.prefix(index, key), self.full_key(index, key, TxnId(u64::MAX)));
        let wanted: &dyn Fn(&Body<'_>) -> bool =
            &|body| body.key == key && body.image.and_then(writer_of).is_some_and(|writer| view.sees(writer, map));
        let mut cursor = self.tree.cursor(acc);
        cursor.seek(Bound::Included(&prefix), Direction::Forward);
        // Without an end, leaves behind this key would be read ahead, as for a scan.
        cursor.continues(Walk::default(), Some(&end));
        while let Some((k, v)) = cursor.next()? {
            if !k.starts_with(&prefix) {
                break;
            }
            let unseen = split_key(k).is_some_and(|(_, overwriter)| !view.sees(overwriter, map));
            if k.len() == prefix.len() + 8 && unseen && self.copy_found(k, v, wanted, acc, image)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies the image of an entry that was found with this value, if it is `wanted`. Returns
    /// whether it was.
    fn copy_found(
        &self,
        key: &[u8],
        value: &[u8],
        wanted: &dyn Fn(&Body<'_>) -> bool,
        acc: &Access<'_>,
        image: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut value = Cow::Borrowed(value);
        loop {
            let error = match self.copy_image(key, &value, wanted, acc, image) {
                Err(error) => error,
                copied => return copied,
            };
            // Purge may have replaced it, and freed the chain that it was spilled to.
            let mut again = Vec::new();
            if !self.tree.get(key, acc, &mut again)? {
                return Ok(false);
            }
            if again == *value {
                return Err(error);
            }
            value = Cow::Owned(again);
        }
    }

    fn copy_image(
        &self,
        key: &[u8],
        value: &[u8],
        wanted: &dyn Fn(&Body<'_>) -> bool,
        acc: &Access<'_>,
        image: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut chain = Vec::new();
        let body = self.whole(key, value, acc, &mut chain)?;
        let Some(found) = body.image.filter(|_| wanted(&body)) else { return Ok(false) };
        image.clear();
        image.extend_from_slice(found);
        Ok(true)
    }

    /// True if the version of (index, key) before `overwriter` is here, and with it the chain that
    /// it may refer to.
    pub fn has_image(&self, index: IndexId, key: &[u8], overwriter: TxnId, acc: &Access<'_>) -> Result<bool> {
        let full = self.full_key(index, key, overwriter);
        let mut value = Vec::new();
        Ok(self.tree.get(&full, acc, &mut value)? && value.first().is_some_and(|flags| flags & IMAGE != 0))
    }

    /// Up to `limit` entries behind `after`, with their keys.
    pub fn batch(&self, after: &[u8], limit: usize, acc: &Access<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut out = Vec::new();
        let mut cursor = self.tree.cursor(acc);
        cursor.seek(Bound::Excluded(after), Direction::Forward);
        while out.len() < limit
            && let Some((k, v)) = cursor.next()?
        {
            out.push((k.to_vec(), v.to_vec()));
        }
        if out.last().is_some_and(|(last, _)| **last <= *after) {
            return Err(Error::damaged_file("the version tree", "its entries are not in order"));
        }
        Ok(out)
    }

    /// The entry under a key of the tree, to be decoded.
    pub fn value(&self, key: &[u8], acc: &Access<'_>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.tree.get(key, acc, &mut value)?.then_some(value))
    }

    /// Decodes what [`VersionTree::batch`] or [`VersionTree::value`] returned.
    pub fn decode(&self, key: &[u8], value: &[u8], acc: &Access<'_>) -> Result<Entry> {
        self.decode_value(key, value, acc)
    }

    /// Puts `entry` in the place of the one that is under `key` with the value `old`, and gives
    /// `pages` of `file` back, in one mini-transaction. The caller frees the chain that the old one
    /// was spilled to, afterwards. Returns false, and nothing has changed, if the leaf would have
    /// to be looked for again, or if the disk is full and the entry does not fit its place.
    pub fn replace(
        &self,
        key: &[u8],
        old: &[u8],
        entry: &Entry,
        file: &SpaceFile,
        pages: &[PageNo],
        acc: &Access<'_>,
    ) -> Result<bool> {
        let value = match self.encode_value(key, entry, acc) {
            Err(Error::DiskFull(_)) => return Ok(false),
            value => value?,
        };
        let replaced = self.replace_value(key, (old, &value), file, pages, acc);
        if !matches!(replaced, Ok(true)) {
            drop(self.free_spilled(&value, acc)); // It was not put. What cannot be freed now is kept.
            return replaced;
        }
        self.account(key, 0, size(key, &value) as i64 - size(key, old) as i64);
        Ok(true)
    }

    fn replace_value(
        &self,
        key: &[u8],
        (old, new): (&[u8], &[u8]),
        file: &SpaceFile,
        pages: &[PageNo],
        acc: &Access<'_>,
    ) -> Result<bool> {
        let store = self.file().store();
        let mut there = Vec::new();
        let spot = self.tree.get_at(key, acc, &mut there)?;
        if !spot.exists() || there != old {
            return Ok(false);
        }
        let bytes = SMALL_MTR + key.len() + new.len() + pages.len() * FREE_BYTES;
        let ticket = store.reserve(bytes, SpaceClass::Rollback)?;
        let _frames = store.pool().reserve_frames(FREE_FRAMES + 1, acc)?;
        let mut mtr = store.begin(ticket, acc);
        let Some(leaf) = self.tree.latch_at(&spot, &mut mtr) else { return Ok(false) };
        let Some(planned) = self.tree.plan_put(&spot, &mtr, leaf, key, new)? else { return Ok(false) };
        file.free_unlatched(&mut mtr, pages)?;
        mtr.apply_planned(&planned);
        mtr.commit()?;
        Ok(true)
    }

    /// Leaves the pending mark alone of an entry that is under `key` with the value `old`. The
    /// caller frees the chain that it was spilled to and that of its image, afterwards.
    pub fn drop_image(&self, key: &[u8], old: &[u8], entry: &Entry, acc: &Access<'_>) -> Result<()> {
        let mark = Entry { image: None, key: entry.key.clone(), ..*entry };
        let value = self.encode_value(key, &mark, acc)?;
        let put = self.tree.modify_as(SpaceClass::Rollback, key, acc, &mut |_| Ok(Action::Put(value.clone())));
        self.or_free(put, &value, acc)?;
        self.account(key, 0, size(key, &value) as i64 - size(key, old) as i64);
        Ok(())
    }

    /// Drops an entry that no view needs. The caller frees the chain that it was spilled to and
    /// that of its image, afterwards.
    pub fn drop_entry(&self, key: &[u8], value: &[u8], acc: &Access<'_>) -> Result<()> {
        self.tree.modify_as(SpaceClass::Rollback, key, acc, &mut |_| Ok(Action::Remove))?;
        self.account(key, -1, -(size(key, value) as i64));
        Ok(())
    }
}
