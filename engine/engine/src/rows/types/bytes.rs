//! Text and byte strings.

use super::{Key, Value, take};

/// Appends `bytes`, with their length in front unless they are the last field.
fn encode_bytes(bytes: &[u8], last: bool, out: &mut Vec<u8>) {
    use holdfast_base::codec::Writer as _;
    if last {
        out.bytes(bytes);
    } else {
        out.bytes_with_len(bytes);
    }
}

fn decode_bytes<'a>(input: &mut &'a [u8], last: bool) -> Option<&'a [u8]> {
    if last {
        return Some(std::mem::take(input));
    }
    let mut reader = holdfast_base::codec::Reader::new(input);
    let bytes = reader.bytes_with_len()?;
    *input = reader.rest();
    Some(bytes)
}

/// Appends `bytes` so that they sort.
#[inline]
fn encode_key_bytes(bytes: &[u8], last: bool, out: &mut Vec<u8>) {
    if last {
        out.extend_from_slice(bytes);
    } else {
        escape(bytes, out);
    }
}

/// Appends `bytes` as a part that others follow: `00` becomes `00 FF`, and `00 00` ends them.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn decode_key_bytes(input: &mut &[u8], last: bool) -> Option<Vec<u8>> {
    if last {
        return Some(std::mem::take(input).to_vec());
    }
    let mut out = Vec::new();
    loop {
        match take(input, 1)? {
            [0] => match take(input, 1)? {
                [0] => return Some(out),
                [0xff] => out.push(0),
                _ => return None,
            },
            byte => out.extend_from_slice(byte),
        }
    }
}

macro_rules! byte_string {
    ($t:ty, $name:literal, $reference:ty, $owned:ty, $as_bytes:expr, $from_bytes:expr, $borrow:expr) => {
        impl Value for $t {
            type Ref<'a> = &'a $reference;
            type Owned = $owned;

            fn encode(value: &$reference, last: bool, out: &mut Vec<u8>) {
                encode_bytes($as_bytes(value), last, out);
            }

            fn encoded_len_min(value: &$reference) -> u64 {
                $as_bytes(value).len() as u64
            }

            fn decode(input: &mut &[u8], last: bool) -> Option<$owned> {
                decode_bytes(input, last).map(<[u8]>::to_vec).and_then($from_bytes)
            }

            fn borrow(owned: &$owned) -> &$reference {
                $borrow(owned)
            }

            fn type_name() -> String {
                $name.into()
            }
        }

        impl Key for $t {
            #[inline]
            fn encode_key(value: &$reference, last: bool, out: &mut Vec<u8>) {
                encode_key_bytes($as_bytes(value), last, out);
            }

            fn decode_key(input: &mut &[u8], last: bool) -> Option<$owned> {
                decode_key_bytes(input, last).and_then($from_bytes)
            }
        }
    };
}

byte_string!(&'static str, "str", str, String, str::as_bytes, |b| String::from_utf8(b).ok(), String::as_str);
byte_string!(String, "str", str, String, str::as_bytes, |b| String::from_utf8(b).ok(), String::as_str);
byte_string!(&'static [u8], "bytes", [u8], Vec<u8>, |b| b, Some, Vec::as_slice);
byte_string!(Vec<u8>, "bytes", [u8], Vec<u8>, |b| b, Some, Vec::as_slice);

impl<const N: usize> Value for [u8; N] {
    type Ref<'a> = &'a [u8; N];
    type Owned = [u8; N];

    fn encode(value: &[u8; N], _last: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(value);
    }

    fn decode(input: &mut &[u8], _last: bool) -> Option<[u8; N]> {
        take(input, N)?.try_into().ok()
    }

    fn borrow(owned: &[u8; N]) -> &[u8; N] {
        owned
    }

    fn type_name() -> String {
        format!("[u8;{N}]")
    }
}

impl<const N: usize> Key for [u8; N] {
    fn encode_key(value: &[u8; N], _last: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(value);
    }

    fn decode_key(input: &mut &[u8], _last: bool) -> Option<[u8; N]> {
        take(input, N)?.try_into().ok()
    }
}
