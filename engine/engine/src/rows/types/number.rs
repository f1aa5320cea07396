//! Numbers, `bool` and the unit.

use super::{Key, Value, take};

macro_rules! fixed_value {
    ($t:ty) => {
        impl Value for $t {
            type Ref<'a> = $t;
            type Owned = $t;

            fn encode(value: $t, _last: bool, out: &mut Vec<u8>) {
                out.extend_from_slice(&value.to_le_bytes());
            }

            fn decode(input: &mut &[u8], _last: bool) -> Option<$t> {
                Some(<$t>::from_le_bytes(take(input, size_of::<$t>())?.try_into().ok()?))
            }

            fn borrow(owned: &$t) -> $t {
                *owned
            }

            fn type_name() -> String {
                stringify!($t).into()
            }
        }
    };
}

macro_rules! integer_key {
    ($t:ty, $flip:expr) => {
        fixed_value!($t);

        impl Key for $t {
            #[inline]
            fn encode_key(value: $t, _last: bool, out: &mut Vec<u8>) {
                out.extend_from_slice(&(value ^ $flip).to_be_bytes());
            }

            fn decode_key(input: &mut &[u8], _last: bool) -> Option<$t> {
                Some(<$t>::from_be_bytes(take(input, size_of::<$t>())?.try_into().ok()?) ^ $flip)
            }
        }
    };
}

macro_rules! float_key {
    ($t:ty, $bits:ty) => {
        fixed_value!($t);

        impl Key for $t {
            #[inline]
            fn encode_key(value: $t, _last: bool, out: &mut Vec<u8>) {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = value.to_bits();
                let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
                out.extend_from_slice(&ordered.to_be_bytes());
            }

            fn decode_key(input: &mut &[u8], _last: bool) -> Option<$t> {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let ordered = <$bits>::from_be_bytes(take(input, size_of::<$bits>())?.try_into().ok()?);
                Some(<$t>::from_bits(if ordered & SIGN == 0 { !ordered } else { ordered & !SIGN }))
            }
        }
    };
}

integer_key!(u8, 0);
integer_key!(u16, 0);
integer_key!(u32, 0);
integer_key!(u64, 0);
integer_key!(u128, 0);
integer_key!(i8, i8::MIN);
integer_key!(i16, i16::MIN);
integer_key!(i32, i32::MIN);
integer_key!(i64, i64::MIN);
integer_key!(i128, i128::MIN);
float_key!(f32, u32);
float_key!(f64, u64);

impl Value for bool {
    type Ref<'a> = bool;
    type Owned = bool;

    fn encode(value: bool, _last: bool, out: &mut Vec<u8>) {
        out.push(u8::from(value));
    }

    fn decode(input: &mut &[u8], _last: bool) -> Option<bool> {
        match take(input, 1)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn borrow(owned: &bool) -> bool {
        *owned
    }

    fn type_name() -> String {
        "bool".into()
    }
}

impl Key for bool {
    fn encode_key(value: bool, last: bool, out: &mut Vec<u8>) {
        bool::encode(value, last, out);
    }

    fn decode_key(input: &mut &[u8], last: bool) -> Option<bool> {
        bool::decode(input, last)
    }
}

impl Value for () {
    type Ref<'a> = ();
    type Owned = ();

    fn encode(_value: (), _last: bool, _out: &mut Vec<u8>) {}

    fn decode(_input: &mut &[u8], _last: bool) -> Option<()> {
        Some(())
    }

    fn borrow(_owned: &()) {}

    fn type_name() -> String {
        "()".into()
    }
}

impl Key for () {
    fn encode_key(_value: (), _last: bool, _out: &mut Vec<u8>) {}

    fn decode_key(_input: &mut &[u8], _last: bool) -> Option<()> {
        Some(())
    }
}
