//! Integers of the protocol: length headers and integer replies.
//!
//! A length has one spelling: no leading zeros, no plus sign, no minus zero. Two parsers that read different
//! lengths from the same bytes make request smuggling possible, so every other spelling is rejected.

/// Maximum bytes of a length before its `\r`. Without this bound an unterminated length would be parsed again
/// from its start with every chunk.
const LINE_BYTES_MAX: usize = 32;

/// Every number of this many digits fits into an `i64`.
const DIGITS_MAX: usize = 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadLength {
    /// Longer than any valid length, without an end.
    TooLong,
    /// Not a number, or not in the one allowed spelling.
    Malformed,
}

/// Parses a length. Returns the number and the bytes it took with its `\r\n`; `None` if incomplete.
#[inline]
pub fn length(bytes: &[u8]) -> Result<Option<(i64, usize)>, BadLength> {
    // Fast path for one and two digits, which covers most arguments.
    match bytes {
        [digit @ b'0'..=b'9', b'\r', b'\n', ..] => Ok(Some((i64::from(digit - b'0'), 3))),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Ok(Some((i64::from(tens - b'0') * 10 + i64::from(ones - b'0'), 4)))
        }
        _ => any_length(bytes),
    }
}

fn any_length(bytes: &[u8]) -> Result<Option<(i64, usize)>, BadLength> {
    let negative = bytes.first() == Some(&b'-');
    let first = usize::from(negative);
    let mut value = 0i64;
    for (at, &byte) in bytes.iter().enumerate().skip(first) {
        if at == LINE_BYTES_MAX {
            return Err(BadLength::TooLong);
        }
        match byte {
            b'0'..=b'9' => value = value.wrapping_mul(10).wrapping_add(i64::from(byte - b'0')),
            b'\r' => {
                let digits = &bytes[first..at];
                let well_formed = match digits {
                    [] => false,
                    [b'0', rest @ ..] => rest.is_empty() && !negative,
                    _ => digits.len() <= DIGITS_MAX,
                };
                return match bytes.get(at + 1) {
                    None if well_formed => Ok(None),
                    Some(b'\n') if well_formed => Ok(Some((if negative { -value } else { value }, at + 2))),
                    _ => Err(BadLength::Malformed),
                };
            }
            _ => return Err(BadLength::Malformed),
        }
    }
    Ok(None)
}

/// The digits of 00 to 99, so that one division yields two digits.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// Bytes of a type byte, the longest `i64` with its sign, and `\r\n`.
const HEADER_BYTES_MAX: usize = 1 + 20 + 2;

/// Appends a type byte, a number and `\r\n`: an integer reply, or a length header.
#[inline]
pub fn put_header(out: &mut Vec<u8>, kind: u8, value: i64) {
    if (0..10).contains(&value) {
        out.extend_from_slice(&[kind, b'0' + value as u8, b'\r', b'\n']);
        return;
    }
    // The digits are produced from the last to the first.
    let mut bytes = [0; HEADER_BYTES_MAX];
    let mut at = HEADER_BYTES_MAX - 2;
    bytes[at..].copy_from_slice(b"\r\n");
    let mut rest = value.unsigned_abs();
    while rest >= 100 {
        let pair = PAIRS[(rest % 100) as usize];
        rest /= 100;
        at -= 2;
        bytes[at..at + 2].copy_from_slice(&pair);
    }
    let pair = PAIRS[rest as usize];
    at -= 1;
    bytes[at] = pair[1];
    if rest >= 10 {
        at -= 1;
        bytes[at] = pair[0];
    }
    if value < 0 {
        at -= 1;
        bytes[at] = b'-';
    }
    at -= 1;
    bytes[at] = kind;
    out.extend_from_slice(&bytes[at..]);
}

/// Appends the length of `bytes`, the bytes and `\r\n`.
#[inline]
pub fn put_bulk(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.reserve(HEADER_BYTES_MAX + bytes.len() + 2);
    put_header(out, kind, bytes.len() as i64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(value: i64) -> String {
        let mut out = Vec::new();
        put_header(&mut out, b':', value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn headers_match_the_standard_library() {
        let edges = (0..19).map(|power| 10i64.pow(power)).flat_map(|ten| [ten - 1, ten, ten + 1]);
        for value in edges.chain([i64::MAX]).flat_map(|value| [value, -value]).chain([i64::MIN]) {
            assert_eq!(header(value), format!(":{value}\r\n"));
        }
    }

    #[test]
    fn a_length_has_one_spelling() {
        for value in [0, 7, 10, -1, 123, -4096, 999_999_999_999_999_999] {
            let line = format!("{value}\r\n$");
            assert_eq!(length(line.as_bytes()), Ok(Some((value, line.len() - 1))), "{value}");
        }
        let others = ["", "-", "00", "01", "012", "-0", "+1", " 1", "1 ", "1\n", "--1", "1-", "x"];
        for text in others.into_iter().chain(["1000000000000000000", "1\rx", "1\r\r\n"]) {
            assert_eq!(length(format!("{text}\r\n").as_bytes()), Err(BadLength::Malformed), "{text:?}");
        }
    }

    #[test]
    fn rejects_an_unterminated_length() {
        assert_eq!(length(&[b'1'; LINE_BYTES_MAX]), Ok(None));
        assert_eq!(length(&[b'1'; LINE_BYTES_MAX + 1]), Err(BadLength::TooLong));
        assert_eq!(length(&[b'1'; 100_000]), Err(BadLength::TooLong));
        let late = [&[b'1'; LINE_BYTES_MAX - 1][..], b"\r\n"].concat();
        assert_eq!(length(&late), Err(BadLength::Malformed));
    }

    proptest! {
        #[test]
        fn parses_what_it_writes(value in -999_999_999_999_999_999i64..=999_999_999_999_999_999, shift in 0u32..64) {
            let line = header(value >> shift);
            prop_assert_eq!(length(&line.as_bytes()[1..]), Ok(Some((value >> shift, line.len() - 1))));
            prop_assert_eq!(line, format!(":{}\r\n", value >> shift));
        }

        #[test]
        fn a_prefix_is_partial_or_final(line in "-?[0-9]{0,40}\r?\n?[0-9x]?") {
            let line = line.as_bytes();
            let complete = length(line);
            for end in 0..line.len() {
                let part = length(&line[..end]);
                prop_assert!(part == Ok(None) || part == complete, "{:?} but {:?}", part, complete);
            }
        }
    }
}
