//! Percent-encoding, to bytes: a row may be any bytes, so nothing here asks for text.

/// A part of a path as bytes. `Err` is the place of a `%` that no two hexadecimal digits follow.
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'%' {
            let digit = |place: usize| bytes.get(place).and_then(|digit| char::from(*digit).to_digit(16));
            let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else { return Err(at) };
            out.push((high << 4 | low) as u8);
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as a part of a path.
    fn encode(bytes: &[u8]) -> String {
        use std::fmt::Write;
        let mut out = String::with_capacity(bytes.len());
        for byte in bytes {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                out.push(char::from(*byte));
            } else {
                let _in_memory = write!(out, "%{byte:02X}");
            }
        }
        out
    }

    #[test]
    fn all_bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Ok(all));
        assert_eq!(encode(b"a/b:c d"), "a%2Fb%3Ac%20d");
    }

    #[test]
    fn half_an_escape_is_told_by_its_place() {
        assert_eq!(decode("ab%2"), Err(2));
        assert_eq!(decode("%"), Err(0));
        assert_eq!(decode("a%+1"), Err(1));
        assert_eq!(decode("a%zz"), Err(1));
        // A plus is a space in a query only.
        assert_eq!(decode("a+b"), Ok(b"a+b".to_vec()));
    }
}
