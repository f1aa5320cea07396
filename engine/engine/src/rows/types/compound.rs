//! `Option` and tuples.

use super::{Key, Value, take};

impl<T: Value> Value for Option<T> {
    type Ref<'a> = Option<T::Ref<'a>>;
    type Owned = Option<T::Owned>;

    fn encode(value: Option<T::Ref<'_>>, last: bool, out: &mut Vec<u8>) {
        out.push(u8::from(value.is_some()));
        if let Some(inner) = value {
            T::encode(inner, last, out);
        }
    }

    fn encoded_len_min(value: Option<T::Ref<'_>>) -> u64 {
        value.map_or(1, |inner| T::encoded_len_min(inner).saturating_add(1))
    }

    fn decode(input: &mut &[u8], last: bool) -> Option<Option<T::Owned>> {
        match take(input, 1)? {
            [0] => Some(None),
            [1] => Some(Some(T::decode(input, last)?)),
            _ => None,
        }
    }

    fn borrow(owned: &Option<T::Owned>) -> Option<T::Ref<'_>> {
        owned.as_ref().map(T::borrow)
    }

    fn type_name() -> String {
        format!("Option<{}>", T::type_name())
    }
}

impl<T: Key> Key for Option<T> {
    fn encode_key(value: Option<T::Ref<'_>>, last: bool, out: &mut Vec<u8>) {
        out.push(u8::from(value.is_some()));
        if let Some(inner) = value {
            T::encode_key(inner, last, out);
        }
    }

    fn decode_key(input: &mut &[u8], last: bool) -> Option<Option<T::Owned>> {
        match take(input, 1)? {
            [0] => Some(None),
            [1] => Some(Some(T::decode_key(input, last)?)),
            _ => None,
        }
    }
}

macro_rules! tuple {
    ($($field:ident $n:tt),* ; $final:ident $m:tt) => {
        impl<$($field: Value,)* $final: Value> Value for ($($field,)* $final,) {
            type Ref<'a> = ($($field::Ref<'a>,)* $final::Ref<'a>,);
            type Owned = ($($field::Owned,)* $final::Owned,);

            fn encode(value: Self::Ref<'_>, last: bool, out: &mut Vec<u8>) {
                $($field::encode(value.$n, false, out);)*
                $final::encode(value.$m, last, out);
            }

            fn encoded_len_min(value: Self::Ref<'_>) -> u64 {
                let fields = [$($field::encoded_len_min(value.$n),)* $final::encoded_len_min(value.$m)];
                fields.into_iter().fold(0, u64::saturating_add)
            }

            fn decode(input: &mut &[u8], last: bool) -> Option<Self::Owned> {
                Some(($($field::decode(input, false)?,)* $final::decode(input, last)?,))
            }

            fn borrow(owned: &Self::Owned) -> Self::Ref<'_> {
                ($($field::borrow(&owned.$n),)* $final::borrow(&owned.$m),)
            }

            fn type_name() -> String {
                let fields: &[String] = &[$($field::type_name(),)* $final::type_name()];
                format!("({})", fields.join(","))
            }
        }

        impl<$($field: Key,)* $final: Key> Key for ($($field,)* $final,) {
            fn encode_key(value: Self::Ref<'_>, last: bool, out: &mut Vec<u8>) {
                $($field::encode_key(value.$n, false, out);)*
                $final::encode_key(value.$m, last, out);
            }

            fn decode_key(input: &mut &[u8], last: bool) -> Option<Self::Owned> {
                Some(($($field::decode_key(input, false)?,)* $final::decode_key(input, last)?,))
            }
        }
    };
}

tuple!(; A 0);
tuple!(A 0; B 1);
tuple!(A 0, B 1; C 2);
tuple!(A 0, B 1, C 2; D 3);
tuple!(A 0, B 1, C 2, D 3; E 4);
tuple!(A 0, B 1, C 2, D 3, E 4; F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5; G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6; H 7);
