//! Changes of a node. Each has a check that says, before any byte changes, whether the change is
//! possible; the change relies on that check. The effect of a change depends on the page's bytes
//! and its arguments only, so redo repeats it exactly.

use holdfast_base::codec::{Reader, Writer, get_u32, put_u16, put_u32, put_u64};

use super::{
    LEVELS_MAX, NO_SLOT, NodeRef, OFF_COUNT, OFF_GARBAGE, OFF_HEAP, OFF_LAST_INSERT, OFF_PREFIX_LEN, OFF_RUN,
    OFF_SLOTS, RECORD_HEADER, SLOT_LEN, Slot, body_len, head,
};

/// Entries for [`NodeMut::set_content`] in their compact form: { suffix with length, payload with
/// length } each.
#[derive(Clone, Debug, Default)]
pub struct EntryList {
    bytes: Vec<u8>,
    count: usize,
}

impl EntryList {
    /// No entries.
    #[must_use]
    pub fn new() -> EntryList {
        EntryList::default()
    }

    /// Appends an entry.
    pub fn push(&mut self, suffix: &[u8], payload: &[u8]) {
        self.bytes.bytes_with_len(suffix);
        self.bytes.bytes_with_len(payload);
        self.count += 1;
    }

    /// Appends slots `from..to` of `node`, as entries of a node with this prefix. In an inner node
    /// the key of slot `from` is replaced by `first_key`, or by none (minus infinity). `None`: the
    /// node is damaged, or one of its keys does not begin with the prefix.
    pub fn push_from(
        &mut self,
        node: NodeRef<'_, [u8]>,
        from: usize,
        to: usize,
        prefix: &[u8],
        first_key: Option<&[u8]>,
    ) -> Option<()> {
        let leaf = node.is_leaf().filter(|_| node.adds_up())?;
        let mut key = Vec::new();
        for i in from..to {
            if leaf || i > from {
                node.key_to(i, &mut key)?;
                self.push(key.strip_prefix(prefix)?, node.payload(i)?);
            } else {
                let key = first_key.map_or(Some(&[][..]), |key| key.strip_prefix(prefix))?;
                self.push(key, node.payload(i)?);
            }
        }
        Some(())
    }

    /// True if a new node on `level` can be given this content with a prefix of `prefix_len` bytes.
    /// This is the check of [`EntryList::as_content`] for a page that is not initialised yet. It
    /// fails if the nodes that the entries come from are damaged.
    #[must_use]
    pub fn suits_node(&self, level: u8, prefix_len: usize, page_size: usize) -> bool {
        level < LEVELS_MAX && is_content(level > 0, body_len(page_size), prefix_len, self.count, &self.bytes)
    }

    /// The encoded entries.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
}

fn next_entry<'e>(entries: &mut Reader<'e>) -> Option<(&'e [u8], &'e [u8])> {
    Some((entries.bytes_with_len()?, entries.bytes_with_len()?))
}

/// A node is not compacted for a change that leaves less than this share of its body free, as a
/// divisor: each of the next changes would compact it again. It is split instead.
const SPARE: usize = 16;
/// With fewer entries there is not much to move, and it may be that nothing can be split.
const CROWD: usize = 8;

/// What can be done to a node.
impl NodeRef<'_, [u8]> {
    /// True if [`NodeMut::insert`] is possible. With `spares`, a compaction that is worse than a
    /// split does not count as possible.
    #[must_use]
    pub fn can_insert(&self, slot: usize, suffix_len: usize, payload_len: usize, spares: bool) -> bool {
        self.count().is_some_and(|count| slot <= count)
            && suffix_len.max(payload_len) <= usize::from(u16::MAX)
            && self.has_room(SLOT_LEN + RECORD_HEADER + suffix_len + payload_len, 0, spares)
    }

    /// What a compaction should leave free.
    fn spare(&self) -> usize {
        if self.count().is_some_and(|count| count >= CROWD) { self.body_len() / SPARE } else { 0 }
    }

    /// True if `more` bytes fit once `less` bytes of a record are gone: into the free space as it
    /// is, or after a compaction. With `spares`, the compaction has to leave [`NodeRef::spare`]
    /// bytes. The gain of the compaction is added up from the records and not taken from the
    /// header, so that a damaged page cannot make a change write outside of the page.
    fn has_room(&self, more: usize, less: usize, spares: bool) -> bool {
        let (Some(heap), Some(count)) = (self.heap(), self.count()) else { return false };
        if self.free_space().is_some() && OFF_SLOTS + count * SLOT_LEN + more <= heap {
            return true;
        }
        let spare = if spares { self.spare() } else { 0 };
        // What the records take is added up only if it decides.
        self.used_space().is_some_and(|used| used + more + spare <= self.body_len() + less) && self.adds_up()
    }

    /// True if the records take as many bytes as the header says. If they do not, a length is
    /// wrong. To move the records would turn the node into one that adds up, and a wrong value into
    /// one that no check finds.
    fn adds_up(&self) -> bool {
        self.used_space().is_some_and(|used| self.live_space() == Some(used))
    }

    /// True if [`NodeMut::remove`] can be done.
    #[must_use]
    pub fn can_remove(&self, slot: usize) -> bool {
        self.count().is_some_and(|count| slot < count) && self.record(slot).is_some() && self.free_space().is_some()
    }

    /// True if [`NodeMut::replace`] is possible. `spares` has the meaning that it has in
    /// [`NodeRef::can_insert`].
    #[must_use]
    pub fn can_replace(&self, slot: usize, payload_len: usize, spares: bool) -> bool {
        let Some(record) = self.record(slot) else { return false };
        let more = record.len() - record.payload_len + payload_len;
        self.can_remove(slot)
            && payload_len <= usize::from(u16::MAX)
            && (payload_len <= record.payload_len || self.has_room(more, record.len(), spares))
    }

    /// True if [`NodeMut::patch`] can be done.
    #[must_use]
    pub fn can_patch(&self, slot: usize, offset: usize, len: usize) -> bool {
        self.can_remove(slot) && self.record(slot).is_some_and(|r| offset + len <= r.payload_len)
    }

    /// True if [`NodeMut::rebuild`] is possible: a longer prefix has to be common to the entries
    /// that stay, and a shorter one has to leave room for them.
    #[must_use]
    pub fn can_rebuild(&self, from: usize, to: usize, prefix_len: usize) -> bool {
        let (Some(count), Some(old), true) = (self.count(), self.prefix(), self.adds_up()) else { return false };
        if from > to || to > count {
            return false;
        }
        let inner = self.is_leaf() == Some(false);
        if inner && (from > 0 || to == 0) {
            return false;
        }
        let mut used = prefix_len.min(old.len());
        let mut common: Option<&[u8]> = None;
        for i in from..to {
            let (Some(suffix), Some(payload)) = (self.suffix(i), self.payload(i)) else { return false };
            let keyless = inner && i == 0;
            used += SLOT_LEN + RECORD_HEADER + payload.len();
            if keyless {
                continue;
            }
            if prefix_len > old.len() {
                let Some(more) = suffix.get(..prefix_len - old.len()) else { return false };
                if *common.get_or_insert(more) != more {
                    return false;
                }
                used += suffix.len() - more.len();
            } else {
                used += old.len() - prefix_len + suffix.len();
            }
        }
        used + common.map_or(0, <[u8]>::len) <= self.body_len()
    }

    /// True if [`NodeMut::set_content`] is possible: `entries` decodes to `count` entries in
    /// ascending order that fit beside the prefix.
    #[must_use]
    pub fn can_set_content(&self, prefix_len: usize, count: usize, entries: &[u8]) -> bool {
        is_content(self.is_leaf() == Some(false), self.body_len(), prefix_len, count, entries)
    }
}

/// True if `entries` decodes to `count` entries in ascending order that fit into a body of `body`
/// bytes beside the prefix.
fn is_content(inner: bool, body: usize, prefix_len: usize, count: usize, entries: &[u8]) -> bool {
    let mut rest = Reader::new(entries);
    let mut used = prefix_len;
    let mut last: Option<&[u8]> = None;
    for i in 0..count {
        let Some((suffix, payload)) = next_entry(&mut rest) else { return false };
        let keyless = inner && i == 0;
        if keyless && !suffix.is_empty() || last.is_some_and(|last| last >= suffix) {
            return false;
        }
        last = if keyless { None } else { Some(suffix) };
        used += SLOT_LEN + RECORD_HEADER + suffix.len() + payload.len();
    }
    rest.is_empty() && used <= body && (count > 0 || !inner)
}

/// Write access to a node.
#[derive(Debug)]
pub struct NodeMut<'p> {
    page: &'p mut [u8],
}

impl<'p> NodeMut<'p> {
    /// `page` as a node, whatever its header says.
    pub fn assume(page: &'p mut [u8]) -> NodeMut<'p> {
        NodeMut { page }
    }

    /// Read access.
    #[must_use]
    pub fn read(&self) -> NodeRef<'_, [u8]> {
        NodeRef::assume(&*self.page)
    }

    /// Makes the body that of a node without entries; the common header is the caller's.
    pub fn clear(&mut self) {
        put_u16(self.page, OFF_COUNT, 0);
        put_u16(self.page, OFF_PREFIX_LEN, 0);
        put_u32(self.page, OFF_HEAP, self.page.len() as u32);
        put_u32(self.page, OFF_GARBAGE, 0);
        self.clear_hints();
    }

    fn clear_hints(&mut self) {
        put_u16(self.page, OFF_LAST_INSERT, NO_SLOT);
        put_u16(self.page, OFF_RUN, 0);
    }

    fn heap(&self) -> usize {
        get_u32(self.page, OFF_HEAP).map_or(0, |heap| heap as usize)
    }

    fn add_garbage(&mut self, bytes: usize) {
        let garbage = get_u32(self.page, OFF_GARBAGE).unwrap_or(0);
        put_u32(self.page, OFF_GARBAGE, garbage + bytes as u32);
    }

    /// Puts an entry before slot `slot`. Only after [`NodeRef::can_insert`].
    pub fn insert(&mut self, slot: usize, suffix: &[u8], payload: &[u8]) {
        let count = self.read().count().unwrap_or(0);
        let len = RECORD_HEADER + suffix.len() + payload.len();
        if OFF_SLOTS + (count + 1) * SLOT_LEN + len > self.heap() {
            self.compact();
        }
        let at = OFF_SLOTS + slot * SLOT_LEN;
        self.page.copy_within(at..OFF_SLOTS + count * SLOT_LEN, at + SLOT_LEN);
        self.store_record(slot, suffix, payload);
        put_u16(self.page, OFF_COUNT, count as u16 + 1);
        self.note_insert(slot);
    }

    /// Writes a record below the heap and points `slot` to it.
    fn store_record(&mut self, slot: usize, suffix: &[u8], payload: &[u8]) {
        let offset = self.heap() - (RECORD_HEADER + suffix.len() + payload.len());
        put_u16(self.page, offset, payload.len() as u16);
        let suffix_at = offset + RECORD_HEADER;
        let payload_at = suffix_at + suffix.len();
        self.page[suffix_at..payload_at].copy_from_slice(suffix);
        self.page[payload_at..payload_at + payload.len()].copy_from_slice(payload);
        put_u32(self.page, OFF_HEAP, offset as u32);
        let word = Slot { offset, suffix_len: suffix.len(), head: head(suffix) }.to_word();
        put_u64(self.page, OFF_SLOTS + slot * SLOT_LEN, word);
    }

    fn note_insert(&mut self, slot: usize) {
        let (last, run) = self.read().insert_hints().unwrap_or((NO_SLOT, 0));
        let run = if last != NO_SLOT && slot == usize::from(last) + 1 {
            run.max(0).saturating_add(1)
        } else if slot == usize::from(last) {
            run.min(0).saturating_sub(1)
        } else {
            0
        };
        put_u16(self.page, OFF_LAST_INSERT, slot as u16);
        put_u16(self.page, OFF_RUN, run as u16);
    }

    /// Takes the entry in `slot` out. Only after [`NodeRef::can_remove`].
    pub fn remove(&mut self, slot: usize) {
        let node = self.read();
        let (count, record) = (node.count().unwrap_or(0), node.record(slot));
        self.drop_record(record.map_or(0, |r| r.suffix_at - RECORD_HEADER), record.map_or(0, |r| r.len()));
        let at = OFF_SLOTS + slot * SLOT_LEN;
        self.page.copy_within(at + SLOT_LEN..OFF_SLOTS + count * SLOT_LEN, at);
        put_u16(self.page, OFF_COUNT, count as u16 - 1);
        self.clear_hints();
    }

    fn drop_record(&mut self, offset: usize, len: usize) {
        if offset == self.heap() {
            put_u32(self.page, OFF_HEAP, (offset + len) as u32);
        } else {
            self.add_garbage(len);
        }
    }

    /// Gives the entry in `slot` another payload. Only after [`NodeRef::can_replace`].
    pub fn replace(&mut self, slot: usize, payload: &[u8]) {
        let Some(record) = self.read().record(slot) else { return };
        let offset = record.suffix_at - RECORD_HEADER;
        if payload.len() <= record.payload_len {
            put_u16(self.page, offset, payload.len() as u16);
            let at = record.payload_at();
            self.page[at..at + payload.len()].copy_from_slice(payload);
            self.add_garbage(record.payload_len - payload.len());
            return;
        }
        let suffix = self.page[record.suffix_at..record.payload_at()].to_vec();
        let count = self.read().count().unwrap_or(0);
        self.drop_record(offset, record.len());
        if OFF_SLOTS + count * SLOT_LEN + RECORD_HEADER + suffix.len() + payload.len() > self.heap() {
            self.compact_without(Some(slot));
        }
        self.store_record(slot, &suffix, payload);
    }

    /// Overwrites a part of the payload in `slot`. Only after [`NodeRef::can_patch`].
    pub fn patch(&mut self, slot: usize, offset: usize, bytes: &[u8]) {
        if let Some(record) = self.read().record(slot) {
            let at = record.payload_at() + offset;
            self.page[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Moves all records to the end of the heap, in slot order.
    fn compact(&mut self) {
        self.compact_without(None);
    }

    fn compact_without(&mut self, dead: Option<usize>) {
        let old = self.page.to_vec();
        let node = NodeRef::assume(old.as_slice());
        put_u32(self.page, OFF_HEAP, node.prefix_at().unwrap_or(old.len()) as u32);
        put_u32(self.page, OFF_GARBAGE, 0);
        for i in (0..node.count().unwrap_or(0)).filter(|&i| Some(i) != dead) {
            if let (Some(suffix), Some(payload)) = (node.suffix(i), node.payload(i)) {
                self.store_record(i, suffix, payload);
            }
        }
    }

    /// Keeps the slots `from..to`, gives the node a prefix of `prefix_len` bytes and compacts it.
    /// If no entry stays, the new prefix is at most as long as the present one. Only after
    /// [`NodeRef::can_rebuild`].
    pub fn rebuild(&mut self, from: usize, to: usize, prefix_len: usize) {
        let old = self.page.to_vec();
        let node = NodeRef::assume(old.as_slice());
        let old_prefix = node.prefix().unwrap_or(&[]);
        let inner = node.is_leaf() == Some(false);
        let first_keyed = from.max(usize::from(inner));
        let mut prefix = old_prefix[..prefix_len.min(old_prefix.len())].to_vec();
        let mut cut = 0;
        if prefix_len > old_prefix.len() && first_keyed < to {
            cut = prefix_len - old_prefix.len();
            prefix.extend_from_slice(node.suffix(first_keyed).and_then(|s| s.get(..cut)).unwrap_or(&[]));
        }
        self.clear();
        self.store_prefix(&prefix);
        let mut longer = Vec::new();
        for (slot, i) in (from..to).enumerate() {
            let (Some(suffix), Some(payload)) = (node.suffix(i), node.payload(i)) else { return };
            if i < first_keyed {
                self.store_record(slot, &[], payload);
                continue;
            }
            longer.clear();
            longer.extend_from_slice(&old_prefix[prefix.len().min(old_prefix.len())..]);
            longer.extend_from_slice(suffix.get(cut..).unwrap_or(&[]));
            self.store_record(slot, &longer, payload);
        }
        put_u16(self.page, OFF_COUNT, (to - from) as u16);
    }

    fn store_prefix(&mut self, prefix: &[u8]) {
        let at = self.page.len() - prefix.len();
        self.page[at..].copy_from_slice(prefix);
        put_u16(self.page, OFF_PREFIX_LEN, prefix.len() as u16);
        put_u32(self.page, OFF_HEAP, at as u32);
    }

    /// Replaces everything by a prefix and entries. Only after [`NodeRef::can_set_content`].
    pub fn set_content(&mut self, prefix: &[u8], count: usize, entries: &[u8]) {
        self.clear();
        self.store_prefix(prefix);
        let mut rest = Reader::new(entries);
        for slot in 0..count {
            let Some((suffix, payload)) = next_entry(&mut rest) else { return };
            self.store_record(slot, suffix, payload);
        }
        put_u16(self.page, OFF_COUNT, count as u16);
    }
}
