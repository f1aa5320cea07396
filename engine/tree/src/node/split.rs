//! The place and the separator of a split, and the size of a merged node. Pure functions of the
//! bytes.

use super::{NO_SLOT, NodeRef, RECORD_HEADER, SLOT_LEN};

/// Inserts in a row that make the next one "part of a run".
const RUN_MIN: i16 = 3;
/// A balanced split may differ from the middle by this part of the body if that gives a shorter
/// separator.
const SLACK_DIV: usize = 16;

/// How to split a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPlan {
    /// Slots `at..` move to the new right node (in an inner node slot `at` loses its key to the
    /// parent).
    pub at: usize,
    /// Keys less than this stay left. The parent's new key.
    pub separator: Vec<u8>,
}

/// The shortest key `s` with `left < s <= right`. Needs `left < right`.
#[must_use]
pub fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    let common = common_prefix_len(left, right);
    right[..right.len().min(common + 1)].to_vec()
}

/// Bytes that `a` and `b` have in common at their start.
#[must_use]
pub(crate) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    // Eight bytes at a time: this also looks for the difference between two versions of a row.
    let whole = a.chunks_exact(8).zip(b.chunks_exact(8)).take_while(|(a, b)| a == b).count() * 8;
    whole + a[whole..].iter().zip(&b[whole..]).take_while(|(a, b)| a == b).count()
}

/// Bytes of the prefix that all keys between two fences share; 0 if one of them is infinite.
#[must_use]
pub(crate) fn fence_prefix_len(low: Option<&[u8]>, high: Option<&[u8]>) -> usize {
    match (low, high) {
        (Some(low), Some(high)) => common_prefix_len(low, high),
        _ => 0,
    }
}

/// The leaf's entries as they would be with the new record in: index and size of each.
struct Sequence<'n> {
    node: NodeRef<'n, [u8]>,
    new_key: &'n [u8],
    /// Position of the new record.
    pos: usize,
    /// True if it takes the place of the entry that is there.
    replaces: bool,
    sizes: Vec<usize>,
}

impl Sequence<'_> {
    fn new<'n>(node: NodeRef<'n, [u8]>, new_key: &'n [u8], payload_len: usize) -> Option<Sequence<'n>> {
        let found = node.search(new_key)?;
        let count = node.count()?;
        let suffix_len = new_key.len().checked_sub(node.prefix_len()?)?;
        let new_size = SLOT_LEN + RECORD_HEADER + suffix_len + payload_len;
        let mut sizes = Vec::with_capacity(count + 1);
        for i in 0..count {
            sizes.push(node.entry_len(i)?);
        }
        if found.exact {
            sizes[found.slot] = new_size;
        } else {
            sizes.insert(found.slot, new_size);
        }
        Some(Sequence { node, new_key, pos: found.slot, replaces: found.exact, sizes })
    }

    fn key(&self, i: usize) -> Option<Vec<u8>> {
        if i == self.pos {
            return Some(self.new_key.to_vec());
        }
        self.node.key(if i > self.pos && !self.replaces { i - 1 } else { i })
    }

    /// The plan that leaves the first `cut` of the sequence on the left.
    fn plan(&self, cut: usize) -> Option<SplitPlan> {
        let at = if cut > self.pos && !self.replaces { cut - 1 } else { cut };
        Some(SplitPlan { at, separator: separator(&self.key(cut - 1)?, &self.key(cut)?) })
    }
}

/// Plans the split of a leaf that has no room for a record of `key` with `payload_len` bytes.
/// Afterwards the half that the key belongs to has the room. `rightmost`: the leaf has no right
/// neighbour. `None`: the node is damaged.
///
/// A run of inserts at ascending (descending) positions splits at the end (start) of the run, so
/// that the nodes that it leaves behind stay full. The new node may then be empty until the record
/// is inserted. Every other split is near the middle, where the separator is shortest.
#[must_use]
pub fn plan_leaf_split(node: NodeRef<'_, [u8]>, key: &[u8], payload_len: usize, rightmost: bool) -> Option<SplitPlan> {
    let sequence = Sequence::new(node, key, payload_len)?;
    let (n, pos) = (sequence.sizes.len(), sequence.pos);
    let prefix_len = node.prefix_len()?;
    let body = node.body_len();
    let total: usize = sequence.sizes.iter().sum();
    if n < 2 {
        return None;
    }
    let fits = |left: usize| prefix_len + left <= body && prefix_len + total - left <= body;
    if let Some(cut) = run_cut(&sequence, rightmost) {
        if fits(sequence.sizes[..cut].iter().sum()) {
            return sequence.plan(cut);
        }
        if cut > pos && pos > 0 && fits(sequence.sizes[..pos].iter().sum()) {
            return sequence.plan(pos);
        }
    }
    let cuts = balanced_cuts(&sequence.sizes, fits);
    cuts.into_iter().filter_map(|cut| sequence.plan(cut)).min_by_key(|plan| plan.separator.len())
}

/// Where a run of ascending or descending inserts wants to be split.
fn run_cut(sequence: &Sequence<'_>, rightmost: bool) -> Option<usize> {
    if sequence.replaces {
        return None;
    }
    let (n, pos) = (sequence.sizes.len(), sequence.pos);
    let (last, run) = sequence.node.insert_hints()?;
    let last = if last == NO_SLOT { None } else { Some(usize::from(last)) };
    if pos + 1 == n && (rightmost || run >= RUN_MIN) {
        return Some(pos);
    }
    if run >= RUN_MIN && last.is_some_and(|last| last + 1 == pos) {
        return Some(pos + 1);
    }
    if run <= -RUN_MIN && last == Some(pos) {
        return Some(if pos == 0 { 1 } else { pos });
    }
    None
}

/// The cuts near the middle, by bytes, that fit on both sides; the best one alone if none is near.
fn balanced_cuts(sizes: &[usize], fits: impl Fn(usize) -> bool) -> Vec<usize> {
    let total: usize = sizes.iter().sum();
    let mut left = 0;
    let mut candidates = Vec::new();
    for cut in 1..sizes.len() {
        left += sizes[cut - 1];
        if fits(left) {
            candidates.push((left.abs_diff(total - left), cut));
        }
    }
    let Some(&(best, _)) = candidates.iter().min() else { return Vec::new() };
    let slack = best.max(total / SLACK_DIV);
    candidates.sort_unstable();
    candidates.into_iter().take_while(|&(off, _)| off <= slack).map(|(_, cut)| cut).collect()
}

/// Plans the split of an inner node that has no room for one more child behind the child in `slot`.
/// `rightmost`: the node has no right neighbour. `None`: the node is damaged, or has fewer than two
/// children.
#[must_use]
pub fn plan_inner_split(node: NodeRef<'_, [u8]>, slot: usize, rightmost: bool) -> Option<SplitPlan> {
    let count = node.count()?;
    if count < 2 {
        return None;
    }
    if slot + 1 == count && (rightmost || node.insert_hints()?.1 >= RUN_MIN) {
        return Some(SplitPlan { at: count - 1, separator: node.key(count - 1)? });
    }
    let mut sizes = Vec::with_capacity(count);
    for i in 0..count {
        sizes.push(node.entry_len(i)?);
    }
    let cuts = balanced_cuts(&sizes, |_| true);
    let mut best: Option<SplitPlan> = None;
    for cut in cuts {
        let key = node.key(cut)?;
        if best.as_ref().is_none_or(|best| key.len() < best.separator.len()) {
            best = Some(SplitPlan { at: cut, separator: key });
        }
    }
    best
}

/// The bytes of the body that one node with the entries of `left` and `right` would take, with a
/// prefix of `prefix_len` bytes. `separator`: the key between them, which a merged inner node takes
/// over from the parent.
#[must_use]
pub fn merged_size(
    left: NodeRef<'_, [u8]>,
    right: NodeRef<'_, [u8]>,
    separator: &[u8],
    prefix_len: usize,
) -> Option<usize> {
    let leaf = left.is_leaf()?;
    let mut sum = prefix_len;
    for (node, second) in [(left, false), (right, true)] {
        let longer = node.prefix_len()?.checked_sub(prefix_len)?;
        for i in 0..node.count()? {
            sum += node.entry_len(i)?;
            if leaf || i > 0 {
                sum += longer;
            } else if second {
                sum += separator.len().checked_sub(prefix_len)?;
            }
        }
    }
    Some(sum)
}
