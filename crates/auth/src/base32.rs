//! Crockford's base 32 in lower case: no letter looks like a digit, and a double click selects the whole
//! text.
//!
//! Only whole groups of 5 bytes and 8 characters, so that the encoding is a bijection. For the same reason
//! upper case and look-alikes are rejected: tokens are pasted, not dictated.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Encodes 5 bytes as 8 characters.
pub(crate) fn encode(bytes: [u8; 5]) -> [u8; 8] {
    let [a, b, c, d, e] = bytes;
    let group = u64::from_be_bytes([0, 0, 0, a, b, c, d, e]);
    std::array::from_fn(|place| ALPHABET[(group >> (35 - 5 * place) & 31) as usize])
}

/// Decodes 8 characters, or returns the position of the first invalid one.
pub(crate) fn decode(text: [u8; 8]) -> Result<[u8; 5], usize> {
    let mut group = 0_u64;
    for (place, byte) in text.iter().enumerate() {
        // The alphabet is sorted.
        let digit = ALPHABET.binary_search(byte).map_err(|_| place)?;
        group = group << 5 | digit as u64;
    }
    let [_, _, _, a, b, c, d, e] = group.to_be_bytes();
    Ok([a, b, c, d, e])
}
