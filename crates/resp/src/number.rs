//! Whole numbers as the protocol writes them: the lengths in front of things, and the digits of replies.
//!
//! A length has one spelling: no leading zeros, no plus, no minus zero. What two readers could read as two different
//! lengths is refused, for behind such a disagreement one client can hide a request from the other.

/// The digits of a length end before this many bytes. Without such a bound, one that never ends would be read again
/// from its beginning with every chunk.
const LINE_BYTES_MAX: usize = 32;

/// The largest number of digits that fits into an `i64` whatever the digits are.
const DIGITS_MAX: usize = 18;

/// A length and its end of line, read from the front of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Correct so far, and not at its end.
    Partial,
    /// There should have been an end by now.
    TooLong,
    /// Not a number, or a number that no length is.
    Bad,
    /// The number, and how many bytes it took with its end of line.
    Whole { value: i64, used: usize },
}

/// Reads a length, an `\r` and an `\n`.
#[inline]
pub fn length(bytes: &[u8]) -> Length {
    // One digit, as most lengths of a counter's commands have: not worth a loop.
    if let [digit @ b'0'..=b'9', b'\r', b'\n', ..] = bytes {
        return Length::Whole { value: i64::from(digit - b'0'), used: 3 };
    }
    if let [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] = bytes {
        return Length::Whole { value: i64::from(tens - b'0') * 10 + i64::from(ones - b'0'), used: 4 };
    }
    any_length(bytes)
}

fn any_length(bytes: &[u8]) -> Length {
    let negative = bytes.first() == Some(&b'-');
    let first = usize::from(negative);
    let mut value = 0i64;
    for (at, &byte) in bytes.iter().enumerate().skip(first) {
        if at == LINE_BYTES_MAX {
            return Length::TooLong;
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
                    _ if !well_formed => Length::Bad,
                    None => Length::Partial,
                    Some(b'\n') => {
                        Length::Whole { value: if negative { -value } else { value }, used: at + 2 }
                    }
                    Some(_) => Length::Bad,
                };
            }
            _ => return Length::Bad,
        }
    }
    Length::Partial
}

/// The digits from 00 to 99: two digits for one division.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// Room for a type byte, the longest `i64` with its sign, and an end of line.
const HEADER_BYTES_MAX: usize = 1 + 20 + 2;

/// Appends a type byte, a number and an end of line: an integer, or the header of anything that has a length.
#[inline]
pub fn put_header(out: &mut Vec<u8>, kind: u8, value: i64) {
    if (0..10).contains(&value) {
        out.extend_from_slice(&[kind, b'0' + value as u8, b'\r', b'\n']);
        return;
    }
    // Written from its end, where the digits come from, and appended at once.
    let mut bytes = [0; HEADER_BYTES_MAX];
    bytes[HEADER_BYTES_MAX - 2] = b'\r';
    bytes[HEADER_BYTES_MAX - 1] = b'\n';
    let mut at = HEADER_BYTES_MAX - 2;
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

/// Appends a length in front of some bytes, the bytes, and an end of line.
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
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let edges = (0..19).map(|power| 10i64.pow(power)).flat_map(|ten| [ten - 1, ten, ten + 1]);
        for value in edges.chain([i64::MAX]).flat_map(|value| [value, -value]).chain([i64::MIN]) {
            assert_eq!(header(value), format!(":{value}\r\n"));
        }
    }

    #[test]
    fn a_length_has_one_spelling() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("10", 10),
            ("-1", -1),
            ("123", 123),
            ("-4096", -4096),
            ("999999999999999999", 999_999_999_999_999_999),
        ] {
            let line = format!("{text}\r\n$");
            assert_eq!(length(line.as_bytes()), Length::Whole { value, used: text.len() + 2 }, "{text}");
        }
        for text in [
            "",
            "-",
            "00",
            "01",
            "012",
            "-0",
            "+1",
            " 1",
            "1 ",
            "1\n",
            "--1",
            "1-",
            "x",
            "1000000000000000000",
            "1\rx",
            "1\r\r\n",
        ] {
            assert_eq!(length(format!("{text}\r\n").as_bytes()), Length::Bad, "{text:?}");
        }
    }

    #[test]
    fn a_length_without_an_end_is_refused_once_it_is_too_long() {
        assert_eq!(length(&[b'1'; LINE_BYTES_MAX]), Length::Partial);
        assert_eq!(length(&[b'1'; LINE_BYTES_MAX + 1]), Length::TooLong);
        assert_eq!(length(&[b'1'; 100_000]), Length::TooLong);
        let mut late = vec![b'1'; LINE_BYTES_MAX - 1];
        late.extend(b"\r\n");
        assert_eq!(length(&late), Length::Bad);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in -999_999_999_999_999_999i64..=999_999_999_999_999_999, shift in 0u32..64) {
            let line = header(value >> shift);
            let used = line.len() - 1;
            prop_assert_eq!(length(&line.as_bytes()[1..]), Length::Whole { value: value >> shift, used });
            prop_assert_eq!(line, format!(":{}\r\n", value >> shift));
        }

        #[test]
        fn more_bytes_only_complete(line in "-?[0-9]{0,40}\r?\n?[0-9x]?") {
            let line = line.as_bytes();
            let whole = length(line);
            for end in 0..line.len() {
                let part = length(&line[..end]);
                prop_assert!(part == Length::Partial || part == whole, "{:?} but {:?}", part, whole);
            }
        }
    }
}
