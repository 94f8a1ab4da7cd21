//! UUIDs of version 7 (RFC 9562): 48 bits of milliseconds, then random bits.

use std::fmt;

/// Parses the text form of the RFC: 8-4-4-4-12 hexadecimal digits.
pub(crate) fn parse7(text: &[u8]) -> Result<u128, &'static str> {
    let text: &[u8; 36] =
        text.try_into().map_err(|_| "a UUID has 36 characters, xxxxxxxx-xxxx-7xxx-xxxx-xxxxxxxxxxxx")?;
    if [text[8], text[13], text[18], text[23]] != [b'-'; 4] {
        return Err("its hyphens are not where a UUID has them");
    }
    // On the path of nearly every operation: parse all digits first, then check once whether all were valid.
    let mut seen = 0;
    let mut number = |digits: &[u8]| {
        digits.iter().fold(0, |number: u64, byte| {
            let digit = DIGITS[usize::from(*byte)];
            seen |= digit;
            number << 4 | u64::from(digit)
        })
    };
    let high = number(&text[..8]) << 32 | number(&text[9..13]) << 16 | number(&text[14..18]);
    let low = number(&text[19..23]) << 48 | number(&text[24..]);
    if seen == NO_DIGIT {
        return Err("it has a character that is not hexadecimal");
    }
    check7(u128::from(high) << 64 | u128::from(low))
}

/// Marks an invalid digit: has a bit that no digit has.
const NO_DIGIT: u8 = 0xff;

/// Digit value of each byte.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

/// Checks that version and variant say that the bits begin with a time.
pub(crate) fn check7(bits: u128) -> Result<u128, &'static str> {
    if bits >> 76 & 0xf != 7 {
        return Err("it is a UUID, but not of version 7: it carries no time");
    }
    if bits >> 62 & 0b11 != 0b10 {
        return Err("its variant bits are not those of RFC 9562");
    }
    Ok(bits)
}

pub(crate) fn display(bits: u128, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        out,
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        bits >> 96,
        bits >> 80 & 0xffff,
        bits >> 64 & 0xffff,
        bits >> 48 & 0xffff,
        bits & 0xffff_ffff_ffff
    )
}
