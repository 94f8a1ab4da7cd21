//! Little-endian integers and variable-length lengths. Decoding never reads beyond the end.

/// Decodes integers from bytes that may end too soon.
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

/// Appends a length: seven bits a byte, lowest first; the top bit says that more follow.
#[inline]
pub(super) fn put_length(out: &mut Vec<u8>, mut length: u32) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// The length at the front, and the bytes that it takes.
#[inline]
pub(super) fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0;
    // Four bytes hold 28 bits, more than the longest value needs.
    for (at, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((length, at + 1));
        }
    }
    None
}

pub(super) fn length_bytes(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_round_trip_in_the_predicted_bytes() {
        for number in [0, 1, 40, 127, 128, 16_383, 16_384, 65_536, (1 << 28) - 1] {
            let mut out = vec![];
            put_length(&mut out, number);
            assert_eq!(out.len(), length_bytes(number as usize), "{number}");
            assert_eq!(length(&out), Some((number as usize, out.len())));
            assert_eq!(length(&out[..out.len() - 1]), None, "{number} cut short");
        }
    }
}
