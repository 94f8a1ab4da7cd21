//! Encoding of integers and byte strings in the log, the id index and checkpoints.
//!
//! The encoding is on disk and never changes. Decoding never panics, and allocates no more than the input's
//! length allows.

use std::time::Duration;

/// The bytes are not a valid encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid encoding: {0}")]
pub struct DecodeError(pub &'static str);

/// Appends encoded values to a buffer.
pub trait Write {
    fn buffer(&mut self) -> &mut Vec<u8>;

    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.buffer().push(value);
    }

    /// A varint: seven bits a byte, lowest first.
    #[inline]
    fn put_varint(&mut self, mut value: u64) {
        let out = self.buffer();
        if value < 0x80 {
            return out.push(value as u8);
        }
        // Nearly all longer numbers fit eight bytes: spread all groups of seven bits at once instead of one
        // by one.
        if value < 1 << 56 {
            let len = value.ilog2() as usize / 7 + 1;
            let mut groups = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
            groups = groups & 0x3fff_0000_3fff | (groups & 0x0fff_c000_0fff_c000) << 2;
            groups = groups & 0x007f_007f_007f_007f | (groups & 0x3f80_3f80_3f80_3f80) << 1;
            let more = 0x8080_8080_8080_8080 & ((1 << (8 * (len - 1))) - 1);
            let end = out.len() + len;
            out.extend_from_slice(&(groups | more).to_le_bytes());
            return out.truncate(end);
        }
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    /// A zigzag varint: small numbers of either sign are short.
    fn put_signed(&mut self, value: i64) {
        self.put_varint(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Nanoseconds as a varint.
    fn put_duration(&mut self, value: Duration) {
        self.put_varint(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Eight bytes, little-endian.
    fn put_u64(&mut self, value: u64) {
        self.buffer().extend_from_slice(&value.to_le_bytes());
    }

    /// Sixteen bytes, little-endian.
    fn put_u128(&mut self, value: u128) {
        self.buffer().extend_from_slice(&value.to_le_bytes());
    }

    /// The length as a varint, then the bytes.
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.buffer().extend_from_slice(bytes);
    }
}

impl Write for Vec<u8> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self
    }
}

/// Decodes values from the front of a byte string. Each method reads what the method of [`Write`] for the
/// same type wrote.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// An error if bytes are left.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError("bytes after the end")) }
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(DecodeError("the input ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError("a number of more than 64 bits"));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError("a number longer than 64 bits"))
    }

    /// A varint of at most 32 bits.
    pub fn varint32(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.varint()?).map_err(|_| DecodeError("a number above 32 bits"))
    }

    pub fn duration(&mut self) -> Result<Duration, DecodeError> {
        self.varint().map(Duration::from_nanos)
    }

    pub fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError("a flag that is neither 0 nor 1")),
        }
    }

    pub fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| DecodeError("a length beyond memory"))?)
    }

    /// Bytes that must be UTF-8.
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError("text that is not UTF-8"))
    }

    /// A count of elements that take at least one byte each.
    pub fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        self.check_count(count)
    }

    pub(crate) fn check_count(&self, count: u64) -> Result<usize, DecodeError> {
        let count = usize::try_from(count).map_err(|_| DecodeError("a count beyond memory"))?;
        if count > self.rest.len() { Err(DecodeError("a count beyond the input")) } else { Ok(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn encoded_values_round_trip(a: u64, b: i64, c: u128, d: Vec<u8>, shift in 0u32..64) {
            let mut bytes = Vec::new();
            bytes.put_varint(a >> shift);
            bytes.put_signed(b >> shift);
            bytes.put_u64(a);
            bytes.put_u128(c);
            bytes.put_bytes(&d);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Ok(a >> shift));
            prop_assert_eq!(reader.signed(), Ok(b >> shift));
            prop_assert_eq!(reader.u64(), Ok(a));
            prop_assert_eq!(reader.u128(), Ok(c));
            prop_assert_eq!(reader.bytes(), Ok(&d[..]));
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = Reader::new(&bytes).varint();
            let _ = Reader::new(&bytes).bytes();
            let _ = Reader::new(&bytes).count();
        }
    }

    /// Reference implementation, byte by byte.
    #[test]
    fn varints_are_minimal() {
        let edges = (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, (1 << bit) | 1]);
        for value in edges.chain([u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]) {
            let (mut expected, mut rest) = (vec![7], value);
            while rest >= 0x80 {
                expected.push(rest as u8 & 0x7f | 0x80);
                rest >>= 7;
            }
            expected.push(rest as u8);
            let mut bytes = vec![7];
            bytes.put_varint(value);
            assert_eq!(bytes, expected, "{value:#x}");
        }
    }

    #[test]
    fn extremes() {
        for value in [0, 1, -1, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            bytes.put_signed(value);
            assert_eq!(Reader::new(&bytes).signed(), Ok(value));
        }
        assert!(Reader::new(&[0xff; 11]).varint().is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint().is_err());
    }
}
