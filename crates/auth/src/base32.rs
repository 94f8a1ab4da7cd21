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
    for (place, byte) in text.into_iter().enumerate() {
        group = group << 5 | u64::from(digit(byte).ok_or(place)?);
    }
    let [_, _, _, a, b, c, d, e] = group.to_be_bytes();
    Ok([a, b, c, d, e])
}

fn digit(byte: u8) -> Option<u8> {
    // The alphabet without i, l, o and u.
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'h' => Some(byte - b'a' + 10),
        b'j' | b'k' => Some(byte - b'j' + 18),
        b'm' | b'n' => Some(byte - b'm' + 20),
        b'p'..=b't' => Some(byte - b'p' + 22),
        b'v'..=b'z' => Some(byte - b'v' + 27),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digit_inverts_the_alphabet() {
        for byte in 0..=u8::MAX {
            let place = ALPHABET.iter().position(|character| *character == byte);
            assert_eq!(digit(byte).map(usize::from), place, "{byte}");
        }
    }

    #[test]
    fn known_texts() {
        assert_eq!(&encode([0; 5]), b"00000000");
        assert_eq!(&encode([0xff; 5]), b"zzzzzzzz");
        // The example of RFC 4648 ("fooba" is MZXW6YTB there), in this alphabet.
        assert_eq!(&encode(*b"fooba"), b"csqpyrk1");
    }

    proptest::proptest! {
        #[test]
        fn bytes_round_trip(bytes: [u8; 5]) {
            assert_eq!(decode(encode(bytes)), Ok(bytes));
        }

        #[test]
        fn text_round_trips(text in "[0-9a-hjkmnp-tv-z]{8}") {
            let text: [u8; 8] = text.as_bytes().try_into().unwrap();
            assert_eq!(encode(decode(text).unwrap()), text);
        }
    }
}
