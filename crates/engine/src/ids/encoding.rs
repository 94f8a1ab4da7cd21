//! Numbers in bytes: little-endian ones, and lengths of a variable size. Reading never goes beyond the end.

/// Takes numbers from the front of bytes that may end too soon.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a length: seven bits a byte, the lowest first, the top bit saying that more follow.
#[inline]
pub(super) fn put_length(out: &mut Vec<u8>, mut length: u32) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// The length at the front, and how many bytes it takes.
#[inline]
pub(super) fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0;
    // Four bytes hold 28 bits, far above the longest value.
    for (at, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((length, at + 1));
        }
    }
    None
}

/// How many bytes a length takes.
pub(super) fn length_bytes(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_comes_back_in_as_many_bytes_as_foretold() {
        for number in [0, 1, 40, 127, 128, 16_383, 16_384, 65_536, (1 << 28) - 1] {
            let mut out = vec![];
            put_length(&mut out, number);
            assert_eq!(out.len(), length_bytes(number as usize), "{number}");
            assert_eq!(length(&out), Some((number as usize, out.len())));
            assert_eq!(length(&out[..out.len() - 1]), None, "{number} cut short");
        }
    }
}
