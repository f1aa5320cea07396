//! The typed layer: how Rust values become byte strings and come back.
//!
//! Two traits. [`Value`] is anything that can be stored; [`Key`] is a value whose *key encoding*
//! sorts, byte by byte, as the values themselves do. Both take a cheap reference ([`Value::Ref`])
//! on the way in and give an owned value ([`Value::Owned`]) on the way out: nothing a caller holds
//! borrows a page of the cache.
//!
//! Encodings, which are part of the file format:
//!
//! | type | as a value | as a key |
//! |---|---|---|
//! | `u8`..`u128` | little-endian, fixed width | big-endian, fixed width |
//! | `i8`..`i128` | little-endian, fixed width | big-endian with the sign bit flipped |
//! | `f32`, `f64` | little-endian IEEE 754 | big-endian, in IEEE total order (see below) |
//! | `bool` | one byte, 0 or 1 | the same |
//! | `()` | nothing | nothing |
//! | `&str`, `String`, `&[u8]`, `Vec<u8>` | the bytes (see below) | the bytes (see below) |
//! | `[u8; N]` | the bytes | the bytes |
//! | `Option<T>` | 0, or 1 and the value | 0, or 1 and the key: `None` sorts first |
//! | tuples | their fields in order | their fields in order: the first sorts first |
//!
//! The key of a floating-point number has all its bits flipped if the number is negative, else the
//! sign bit alone.
//!
//! Text and bytes that are not the last field of a tuple show where they end. As a value they have
//! their length as a LEB128 in front. As a key each `00` is written as `00 FF`, and `00 00` is at
//! the end.

mod bytes;
mod compound;
mod number;

/// A type that can be stored.
///
/// Implementing it for a type of one's own takes four functions; give back `None` from
/// [`Value::decode`] for bytes that cannot have been written by [`Value::encode`], and the caller
/// gets an error that names the table.
///
/// ```
/// use holdfast::Value;
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Point { x: u32, y: u32 }
///
/// impl Value for Point {
///     type Ref<'a> = &'a Point;
///     type Owned = Point;
///     fn encode(p: &Point, _last: bool, out: &mut Vec<u8>) {
///         out.extend_from_slice(&p.x.to_le_bytes());
///         out.extend_from_slice(&p.y.to_le_bytes());
///     }
///     fn decode(input: &mut &[u8], _last: bool) -> Option<Point> {
///         Some(Point { x: u32::decode(input, false)?, y: u32::decode(input, true)? })
///     }
///     fn borrow(p: &Point) -> &Point { p }
///     fn type_name() -> String { "example::Point".into() }
/// }
/// ```
pub trait Value: 'static {
    /// What callers pass in: the value itself for numbers, a borrow for the rest.
    type Ref<'a>: Copy;
    /// What callers get back.
    type Owned: Clone + Send + 'static;

    /// Appends the encoding of `value` to `out`. `last` says that nothing follows it, so that its
    /// length need not be written.
    fn encode(value: Self::Ref<'_>, last: bool, out: &mut Vec<u8>);

    /// Bytes that the encoding has at least: so a value that is too long is refused before it is
    /// copied. Default 0.
    fn encoded_len_min(_value: Self::Ref<'_>) -> u64 {
        0
    }

    /// Takes one value from the front of `input`; `None` if the bytes are none that
    /// [`Value::encode`] writes.
    fn decode(input: &mut &[u8], last: bool) -> Option<Self::Owned>;

    /// The reference to an owned value.
    fn borrow(owned: &Self::Owned) -> Self::Ref<'_>;

    /// A name stored with the table, so that opening it with other types is refused. Must not
    /// change between versions of a program.
    fn type_name() -> String;
}

/// A [`Value`] whose encoding by [`Key::encode_key`] sorts byte by byte as the values do.
pub trait Key: Value {
    /// Appends the order-preserving encoding of `value`. Unless `last`, it must be self-delimiting
    /// and no encoding may be a prefix of another.
    fn encode_key(value: Self::Ref<'_>, last: bool, out: &mut Vec<u8>);

    /// Takes one key from the front of `input`.
    fn decode_key(input: &mut &[u8], last: bool) -> Option<Self::Owned>;
}

/// Splits `n` bytes off the front of `input`.
fn take<'a>(input: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    if n > input.len() {
        return None;
    }
    let (head, rest) = input.split_at(n);
    *input = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key_of<K: Key>(owned: &K::Owned) -> Vec<u8> {
        let mut out = Vec::new();
        K::encode_key(K::borrow(owned), true, &mut out);
        out
    }

    fn round_trip<K: Key>(owned: &K::Owned)
    where
        K::Owned: PartialEq + std::fmt::Debug,
    {
        let key = key_of::<K>(owned);
        let mut input = key.as_slice();
        assert_eq!(K::decode_key(&mut input, true).as_ref(), Some(owned));
        assert!(input.is_empty());
        let mut value = Vec::new();
        K::encode(K::borrow(owned), true, &mut value);
        let mut input = value.as_slice();
        assert_eq!(K::decode(&mut input, true).as_ref(), Some(owned));
        assert!(input.is_empty());
    }

    fn sorts<K: Key>(a: &K::Owned, b: &K::Owned)
    where
        K::Owned: Ord + std::fmt::Debug,
    {
        assert_eq!(key_of::<K>(a).cmp(&key_of::<K>(b)), a.cmp(b), "{a:?} and {b:?}");
        round_trip::<K>(a);
        round_trip::<K>(b);
    }

    proptest! {
        #[test]
        fn integers_sort(a: i64, b: i64, c: u32, d: u32, e: i128, f: i128) {
            sorts::<i64>(&a, &b);
            sorts::<u32>(&c, &d);
            sorts::<i128>(&e, &f);
            sorts::<(i64, u32)>(&(a, c), &(b, d));
        }

        #[test]
        fn text_sorts_inside_tuples(a in ".{0,6}", b in ".{0,6}", c: u8, d: u8) {
            sorts::<&'static str>(&a, &b);
            sorts::<(String, u8)>(&(a.clone(), c), &(b.clone(), d));
            sorts::<(u8, String)>(&(c, a), &(d, b));
        }

        #[test]
        fn bytes_with_zeros_sort_inside_tuples(
            a in proptest::collection::vec(0u8..3, 0..6),
            b in proptest::collection::vec(0u8..3, 0..6),
            c in proptest::option::of(proptest::collection::vec(254u8..=255, 0..4)),
            d in proptest::option::of(proptest::collection::vec(254u8..=255, 0..4)),
        ) {
            sorts::<(&'static [u8], Option<Vec<u8>>)>(&(a.clone(), c.clone()), &(b.clone(), d.clone()));
            sorts::<((Vec<u8>, Vec<u8>), Vec<u8>)>(&((a.clone(), b.clone()), a.clone()), &((b.clone(), a.clone()), b));
            sorts::<(Option<Vec<u8>>, Vec<u8>)>(&(c, a.clone()), &(d, a));
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            let _ = <(String, u64)>::decode(&mut bytes.as_slice(), true);
            let _ = <(String, u64)>::decode_key(&mut bytes.as_slice(), true);
            let _ = <(Option<Vec<u8>>, [u8; 4], bool)>::decode(&mut bytes.as_slice(), true);
            let _ = <(Option<Vec<u8>>, [u8; 4], bool)>::decode_key(&mut bytes.as_slice(), true);
        }
    }

    #[test]
    fn floats_sort_by_total_order() {
        let values = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, 2.0, f64::INFINITY];
        let keys: Vec<_> = values.iter().map(key_of::<f64>).collect();
        assert!(keys.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(f64::decode_key(&mut keys[1].as_slice(), true), Some(-1.5));
    }

    #[test]
    fn names_tell_types_apart() {
        assert_ne!(<(u8, u8)>::type_name(), u16::type_name());
        assert_eq!(String::type_name(), <&'static str>::type_name());
        assert_eq!(<(u64, Option<&'static [u8]>)>::type_name(), "(u64,Option<bytes>)");
    }
}
