//! Little-endian integers in byte slices. Reading is bounds-checked and returns `None` past the
//! end. A caller that reads bytes from a disk turns that into an error with their position.

macro_rules! accessors {
    ($($get:ident $put:ident $t:ty),*) => {$(
        #[doc = concat!("The little-endian `", stringify!($t), "` at `at`, or `None` past the end.")]
        #[must_use]
        #[inline]
        pub fn $get(bytes: &[u8], at: usize) -> Option<$t> {
            const N: usize = size_of::<$t>();
            let field = bytes.get(at..at.checked_add(N)?)?;
            Some(<$t>::from_le_bytes(field.try_into().ok()?))
        }

        #[doc = concat!("Stores a little-endian `", stringify!($t), "` at `at`.")]
        ///
        /// # Panics
        /// If the field does not lie within `bytes`: the writer's layout is wrong.
        #[inline]
        pub fn $put(bytes: &mut [u8], at: usize, value: $t) {
            bytes[at..at + size_of::<$t>()].copy_from_slice(&value.to_le_bytes());
        }
    )*};
}

accessors!(get_u16 put_u16 u16, get_u32 put_u32 u32, get_u64 put_u64 u64);

/// Reads fields one after the other; every method returns `None` past the end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        if n > self.rest.len() {
            return None;
        }
        let (head, rest) = self.rest.split_at(n);
        self.rest = rest;
        Some(head)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    /// The next two bytes as an integer.
    pub fn u16(&mut self) -> Option<u16> {
        get_u16(self.bytes(2)?, 0)
    }

    /// The next four bytes as an integer.
    pub fn u32(&mut self) -> Option<u32> {
        get_u32(self.bytes(4)?, 0)
    }

    /// The next eight bytes as an integer.
    pub fn u64(&mut self) -> Option<u64> {
        get_u64(self.bytes(8)?, 0)
    }

    /// An integer written by [`Writer::varint`]; `None` if it is cut off or longer than 64 bits.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Bytes written by [`Writer::bytes_with_len`].
    pub fn bytes_with_len(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.bytes(len)
    }

    /// The bytes that have not been read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes that are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// True if everything has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Appends fields to a `Vec<u8>`; the counterpart of [`Reader`].
pub trait Writer {
    /// Appends one byte.
    fn u8(&mut self, v: u8);
    /// Appends two bytes.
    fn u16(&mut self, v: u16);
    /// Appends four bytes.
    fn u32(&mut self, v: u32);
    /// Appends eight bytes.
    fn u64(&mut self, v: u64);
    /// Appends an integer in LEB128: seven bits a byte, 1 to 10 bytes.
    fn varint(&mut self, v: u64);
    /// Appends the bytes of `v`, without a length.
    fn bytes(&mut self, v: &[u8]);
    /// Appends the length of `v` as a varint, then `v`.
    fn bytes_with_len(&mut self, v: &[u8]);
}

impl Writer for Vec<u8> {
    fn u8(&mut self, v: u8) {
        self.push(v);
    }
    fn u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.push(v as u8);
    }
    fn bytes(&mut self, v: &[u8]) {
        self.extend_from_slice(v);
    }
    fn bytes_with_len(&mut self, v: &[u8]) {
        self.varint(v.len() as u64);
        self.extend_from_slice(v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_round_trip() {
        let mut out = Vec::new();
        for v in [0, 1, 127, 128, 16_383, 16_384, u64::MAX] {
            out.varint(v);
        }
        out.u16(0xabcd);
        out.bytes_with_len(b"key");
        let mut r = Reader::new(&out);
        for v in [0, 1, 127, 128, 16_383, 16_384, u64::MAX] {
            assert_eq!(r.varint(), Some(v));
        }
        assert_eq!(r.u16(), Some(0xabcd));
        assert_eq!(r.bytes_with_len(), Some(&b"key"[..]));
        assert!(r.is_empty());
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        assert_eq!(get_u32(&[1, 2, 3], 0), None);
        assert_eq!(get_u64(&[0; 8], usize::MAX), None);
        assert_eq!(Reader::new(&[5, 1, 2]).bytes_with_len(), None);
        assert_eq!(Reader::new(&[0xff; 11]).varint(), None);
        assert_eq!(Reader::new(&[0x80]).varint(), None);
    }
}
