//! Encoding of lengths: seven bits a byte, lowest first; the top bit says that more follow.

use jeton_core::codec::Reader;

/// Reads a little-endian number.
pub(super) fn u32(input: &mut Reader<'_>) -> Option<u32> {
    Some(u32::from_le_bytes(input.take(4).ok()?.try_into().ok()?))
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
    use jeton_core::codec::Write as _;

    use super::*;

    #[test]
    fn lengths_round_trip_in_the_predicted_bytes() {
        for number in [0, 1, 40, 127, 128, 16_383, 16_384, 65_536, (1 << 28) - 1] {
            let mut out = vec![];
            out.put_varint(number);
            assert_eq!(out.len(), length_bytes(number as usize), "{number}");
            assert_eq!(length(&out), Some((number as usize, out.len())));
            assert_eq!(length(&out[..out.len() - 1]), None, "{number} cut short");
        }
    }
}
