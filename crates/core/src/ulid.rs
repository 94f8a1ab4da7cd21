//! ULIDs: 48 bits of milliseconds and 80 random bits, in 26 characters of Crockford's base 32.

use std::fmt;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Parses the text form, in either case. Crockford reads I and L as 1 and O as 0; this parser rejects them.
pub(crate) fn parse(text: &str) -> Result<u128, &'static str> {
    if text.len() != 26 {
        return Err("a ULID has 26 characters");
    }
    let mut bits = 0u128;
    for (at, byte) in text.bytes().enumerate() {
        let upper = byte.to_ascii_uppercase();
        let digit = ALPHABET
            .iter()
            .position(|letter| *letter == upper)
            .ok_or("it has a character that is not of Crockford's base 32 (0-9, A-Z without I, L, O, U)")?;
        // 26 characters hold 130 bits: the first may use three of its five only.
        if at == 0 && digit > 7 {
            return Err("it is beyond the largest ULID, 7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        }
        bits = bits << 5 | digit as u128;
    }
    Ok(bits)
}

pub(crate) fn display(bits: u128, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for at in (0..26).rev() {
        let digit = (bits >> (5 * at) & 31) as usize;
        fmt::Write::write_char(out, ALPHABET[digit] as char)?;
    }
    Ok(())
}
