//! Ranges of keys, and a set of them that finds those over a key: what range locks are made of.
//!
//! The set is a treap (Seidel and Aragon 1996) ordered by lower end and number, in which every node
//! knows the highest upper end beneath it (Cormen et al., "Interval trees"). Entering, removing and
//! the search for one range over a key take a number of steps that grows with the logarithm of the
//! number of ranges; a search that passes over ranges (those of the searcher itself) takes that for
//! each.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

/// An end of a range.
pub type End = Bound<Arc<[u8]>>;

/// A range of keys, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Lower end.
    pub from: End,
    /// Upper end.
    pub to: End,
}

impl KeyRange {
    /// The range between two bounds.
    #[must_use]
    pub fn new(from: Bound<&[u8]>, to: Bound<&[u8]>) -> KeyRange {
        KeyRange { from: from.map(Arc::from), to: to.map(Arc::from) }
    }

    /// One key, there or not.
    #[must_use]
    pub fn point(key: &[u8]) -> KeyRange {
        let key: Arc<[u8]> = key.into();
        KeyRange { from: Bound::Included(Arc::clone(&key)), to: Bound::Included(key) }
    }

    /// Every key of the index.
    #[must_use]
    pub fn everything() -> KeyRange {
        KeyRange { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// True if `key` lies within.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        let key = Bound::Included(key);
        order_from(borrow(&self.from), key).is_le() && order_to(borrow(&self.to), key).is_ge()
    }

    /// The smallest range that covers both.
    pub(crate) fn joined(self, other: KeyRange) -> KeyRange {
        let from = if order_from(borrow(&self.from), borrow(&other.from)).is_le() { self.from } else { other.from };
        let to = if order_to(borrow(&self.to), borrow(&other.to)).is_ge() { self.to } else { other.to };
        KeyRange { from, to }
    }

    /// True if it covers all of `other`. May say no where the answer is yes (an excluded bound
    /// beside an included).
    #[must_use]
    pub fn covers(&self, other: &KeyRange) -> bool {
        order_from(borrow(&self.from), borrow(&other.from)).is_le()
            && order_to(borrow(&self.to), borrow(&other.to)).is_ge()
    }
}

fn borrow(end: &End) -> Bound<&[u8]> {
    end.as_ref().map(|key| &**key)
}

/// Which of two lower ends comes first: one that includes a key before one that excludes it.
fn order_from(a: Bound<&[u8]>, b: Bound<&[u8]>) -> Ordering {
    order(a, b, Ordering::Less, |excluded| excluded)
}

/// Which of two upper ends comes first: one that excludes a key before one that includes it.
fn order_to(a: Bound<&[u8]>, b: Bound<&[u8]>) -> Ordering {
    order(a, b, Ordering::Greater, |excluded| !excluded)
}

fn order(a: Bound<&[u8]>, b: Bound<&[u8]>, unbounded: Ordering, rank: impl Fn(bool) -> bool) -> Ordering {
    use Bound::{Excluded, Included, Unbounded};
    let excluded = |end: Bound<&[u8]>| rank(matches!(end, Excluded(_)));
    match (a, b) {
        (Unbounded, Unbounded) => Ordering::Equal,
        (Unbounded, _) => unbounded,
        (_, Unbounded) => unbounded.reverse(),
        (Included(x) | Excluded(x), Included(y) | Excluded(y)) => x.cmp(y).then(excluded(a).cmp(&excluded(b))),
    }
}

type Link<T> = Option<Box<Node<T>>>;

#[derive(Debug)]
struct Node<T> {
    range: KeyRange,
    id: u64,
    value: T,
    /// The highest upper end of this node and those beneath it.
    end: End,
    priority: u64,
    left: Link<T>,
    right: Link<T>,
}

impl<T> Node<T> {
    fn place(&self) -> (Bound<&[u8]>, u64) {
        (borrow(&self.range.from), self.id)
    }

    /// Takes note of a range that has come beneath.
    fn extend(&mut self, to: &End) {
        if order_to(borrow(&self.end), borrow(to)).is_lt() {
            self.end = to.clone();
        }
    }

    /// Takes note that a range which went up to `to` is gone from beneath, or ends earlier now.
    fn recede(&mut self, to: &End) {
        if order_to(borrow(&self.end), borrow(to)).is_eq() {
            self.update();
        }
    }

    /// Learns the highest end anew.
    fn update(&mut self) {
        let ends = [&self.left, &self.right].into_iter().flatten().map(|child| &child.end);
        let highest = ends.fold(&self.range.to, |a, b| if order_to(borrow(a), borrow(b)).is_lt() { b } else { a });
        self.end = highest.clone();
    }
}

fn order_places(a: (Bound<&[u8]>, u64), b: (Bound<&[u8]>, u64)) -> Ordering {
    order_from(a.0, b.0).then(a.1.cmp(&b.1))
}

/// A set of ranges, each with a number of its own and a value.
#[derive(Debug)]
pub(crate) struct Intervals<T> {
    root: Link<T>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Intervals<T> {
        Intervals { root: None }
    }
}

impl<T> Intervals<T> {
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Enters `range`, which has the number `id`.
    pub fn insert(&mut self, range: KeyRange, id: u64, value: T) {
        let end = range.to.clone();
        let node = Node { range, id, value, end, priority: scatter(id), left: None, right: None };
        insert(&mut self.root, Box::new(node));
    }

    /// Removes the range number `id`, whose lower end is `from`.
    pub fn remove(&mut self, from: &End, id: u64) -> Option<(KeyRange, T)> {
        remove(&mut self.root, (borrow(from), id)).map(|node| (node.range, node.value))
    }

    /// Changes the value of the range number `id`, whose lower end is `from`, and lets it end at
    /// `to`, which is not behind its end, if one is given. Returns the range as it was.
    pub fn narrow(&mut self, from: &End, id: u64, to: Option<End>, change: impl FnOnce(&mut T)) -> Option<KeyRange> {
        narrow(&mut self.root, (borrow(from), id), to, change)
    }

    /// The first range over `key` whose value is `wanted`, in the order of lower ends.
    pub fn find_over(&self, key: &[u8], mut wanted: impl FnMut(&T) -> bool) -> Option<&T> {
        find(&self.root, Bound::Included(key), Bound::Included(key), &mut wanted)
    }

    /// As [`Intervals::find_over`], over all of `range`.
    pub fn find_covering(&self, range: &KeyRange, mut wanted: impl FnMut(&T) -> bool) -> Option<&T> {
        find(&self.root, borrow(&range.from), borrow(&range.to), &mut wanted)
    }

    /// Calls `visit` for every range.
    pub fn for_each(&self, mut visit: impl FnMut(&KeyRange, &T)) {
        for_each(&self.root, &mut visit);
    }
}

/// Spreads numbers given one after the other over all 64 bits (the last step of SplitMix64).
fn scatter(id: u64) -> u64 {
    let mut x = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn insert<T>(link: &mut Link<T>, mut new: Box<Node<T>>) {
    match link {
        Some(node) if node.priority >= new.priority => {
            node.extend(&new.range.to);
            let before = order_places(new.place(), node.place()).is_lt();
            insert(if before { &mut node.left } else { &mut node.right }, new);
        }
        _ => {
            (new.left, new.right) = split(link.take(), new.place());
            new.update();
            *link = Some(new);
        }
    }
}

/// Parts a tree into what comes before `place` and what comes after it.
fn split<T>(link: Link<T>, place: (Bound<&[u8]>, u64)) -> (Link<T>, Link<T>) {
    let Some(mut node) = link else { return (None, None) };
    if order_places(node.place(), place).is_lt() {
        let (before, after) = split(node.right.take(), place);
        node.right = before;
        node.update();
        (Some(node), after)
    } else {
        let (before, after) = split(node.left.take(), place);
        node.left = after;
        node.update();
        (before, Some(node))
    }
}

/// One tree of two, the first of which comes before the second.
fn merge<T>(before: Link<T>, after: Link<T>) -> Link<T> {
    match (before, after) {
        (None, one) | (one, None) => one,
        (Some(mut a), Some(mut b)) => Some(if a.priority >= b.priority {
            a.right = merge(a.right.take(), Some(b));
            a.update();
            a
        } else {
            b.left = merge(Some(a), b.left.take());
            b.update();
            b
        }),
    }
}

fn remove<T>(link: &mut Link<T>, place: (Bound<&[u8]>, u64)) -> Option<Box<Node<T>>> {
    let node = link.as_mut()?;
    let removed = match order_places(place, node.place()) {
        Ordering::Less => remove(&mut node.left, place),
        Ordering::Greater => remove(&mut node.right, place),
        Ordering::Equal => {
            let mut node = link.take()?;
            *link = merge(node.left.take(), node.right.take());
            return Some(node);
        }
    }?;
    node.recede(&removed.range.to);
    Some(removed)
}

fn narrow<T>(
    link: &mut Link<T>,
    place: (Bound<&[u8]>, u64),
    to: Option<End>,
    change: impl FnOnce(&mut T),
) -> Option<KeyRange> {
    let node = link.as_mut()?;
    let before = match order_places(place, node.place()) {
        Ordering::Less => narrow(&mut node.left, place, to, change),
        Ordering::Greater => narrow(&mut node.right, place, to, change),
        Ordering::Equal => {
            change(&mut node.value);
            let before = node.range.clone();
            if let Some(to) = to {
                node.range.to = to;
            }
            Some(before)
        }
    }?;
    node.recede(&before.to);
    Some(before)
}

fn find<'a, T>(
    link: &'a Link<T>,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    wanted: &mut impl FnMut(&T) -> bool,
) -> Option<&'a T> {
    let node = link.as_ref()?;
    if order_to(borrow(&node.end), to).is_lt() {
        return None; // All of these end before.
    }
    if let Some(found) = find(&node.left, from, to, wanted) {
        return Some(found);
    }
    if order_from(borrow(&node.range.from), from).is_gt() {
        return None; // This one and those to its right begin after.
    }
    if order_to(borrow(&node.range.to), to).is_ge() && wanted(&node.value) {
        return Some(&node.value);
    }
    find(&node.right, from, to, wanted)
}

fn for_each<T>(link: &Link<T>, visit: &mut impl FnMut(&KeyRange, &T)) {
    if let Some(node) = link {
        for_each(&node.left, visit);
        visit(&node.range, &node.value);
        for_each(&node.right, visit);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_contain_and_cover() {
        let r = KeyRange::new(Excluded(b"b"), Included(b"d"));
        assert!(!r.contains(b"b") && r.contains(b"ba") && r.contains(b"d") && !r.contains(b"da"));
        assert!(KeyRange::everything().covers(&r) && !r.covers(&KeyRange::everything()));
        assert!(r.covers(&KeyRange::new(Included(b"c"), Excluded(b"d"))));
        assert!(!r.covers(&KeyRange::new(Included(b"b"), Excluded(b"d"))));
        assert!(!KeyRange::new(Unbounded, Excluded(b"d")).covers(&r));
        assert!(r.covers(&r));
    }

    /// The depth of a tree; asserts on the way that every node knows its highest end.
    fn depth<T>(link: &Link<T>) -> usize {
        let Some(node) = link else { return 0 };
        let highest =
            |end: &End, child: &Link<T>| child.as_ref().is_none_or(|c| order_to(borrow(&c.end), borrow(end)).is_le());
        assert!(highest(&node.end, &node.left) && highest(&node.end, &node.right));
        assert!(order_to(borrow(&node.range.to), borrow(&node.end)).is_le());
        1 + depth(&node.left).max(depth(&node.right))
    }

    #[test]
    fn ranges_entered_in_order_make_no_list() {
        let mut set = Intervals::default();
        for id in 0..10_000u64 {
            set.insert(KeyRange::point(&id.to_be_bytes()), id, ());
        }
        assert!(depth(&set.root) < 60, "{}", depth(&set.root));
    }

    #[test]
    fn one_key_in_many_ranges_is_found_without_a_look_at_the_others() {
        let mut set = Intervals::default();
        for id in 0..10_000u64 {
            set.insert(KeyRange::point(&id.to_be_bytes()), id, id);
        }
        let mut looked = 0;
        let found = set.find_over(&4_711u64.to_be_bytes(), |_| {
            looked += 1;
            true
        });
        assert_eq!((found, looked), (Some(&4_711), 1));
    }

    fn end() -> impl Strategy<Value = Bound<u8>> {
        prop_oneof![1 => Just(Unbounded), 4 => (0..12u8).prop_map(Included), 4 => (0..12u8).prop_map(Excluded)]
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Bound<u8>, Bound<u8>),
        Remove(usize),
        Narrow(usize, Bound<u8>),
        Over(u8),
        Covering(Bound<u8>, Bound<u8>),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (end(), end()).prop_map(|(from, to)| Step::Insert(from, to)),
            2 => (0..64usize).prop_map(Step::Remove),
            1 => (0..64usize, end()).prop_map(|(nth, to)| Step::Narrow(nth, to)),
            2 => (0..12u8).prop_map(Step::Over),
            1 => (end(), end()).prop_map(|(from, to)| Step::Covering(from, to)),
        ]
    }

    fn range(from: Bound<u8>, to: Bound<u8>) -> KeyRange {
        KeyRange { from: from.map(|k| Arc::from([k])), to: to.map(|k| Arc::from([k])) }
    }

    proptest! {
        #[test]
        fn the_set_answers_like_a_list(steps in proptest::collection::vec(step(), 0..120)) {
            let (mut set, mut list) = (Intervals::default(), Vec::<(u64, KeyRange)>::new());
            for (id, step) in steps.into_iter().enumerate() {
                let id = id as u64;
                match step {
                    Step::Insert(from, to) => {
                        set.insert(range(from, to), id, id);
                        list.push((id, range(from, to)));
                    }
                    Step::Remove(nth) if !list.is_empty() => {
                        let (id, range) = list.swap_remove(nth % list.len());
                        prop_assert_eq!(set.remove(&range.from, id), Some((range.clone(), id)));
                        prop_assert_eq!(set.remove(&range.from, id), None);
                    }
                    Step::Narrow(nth, to) if !list.is_empty() => {
                        let len = list.len();
                        let (id, range) = &mut list[nth % len];
                        let to = to.map(|k| Arc::from([k]));
                        if order_to(borrow(&to), borrow(&range.to)).is_le() {
                            let before = set.narrow(&range.from, *id, Some(to.clone()), |_| {});
                            prop_assert_eq!(before.as_ref(), Some(&*range));
                            range.to = to;
                        }
                    }
                    Step::Remove(_) | Step::Narrow(..) => {}
                    Step::Over(key) => {
                        let (mut found, mut wanted) = (Vec::new(), Vec::new());
                        set.find_over(&[key], |id| { found.push(*id); false });
                        wanted.extend(list.iter().filter(|(_, r)| r.contains(&[key])).map(|(id, _)| *id));
                        found.sort_unstable();
                        wanted.sort_unstable();
                        prop_assert_eq!(found, wanted);
                    }
                    Step::Covering(from, to) => {
                        let inner = range(from, to);
                        let found = set.find_covering(&inner, |_| true).is_some();
                        prop_assert_eq!(found, list.iter().any(|(_, r)| r.covers(&inner)));
                    }
                }
                depth(&set.root);
            }
            let mut all = Vec::new();
            set.for_each(|range, id| all.push((*id, range.clone())));
            all.sort_by_key(|(id, _)| *id);
            list.sort_by_key(|(id, _)| *id);
            prop_assert_eq!(all, list);
        }
    }
}
