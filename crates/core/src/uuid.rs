//! UUIDs of version 7 (RFC 9562): 48 bits of milliseconds, then randomness.

use std::fmt;

/// Reads the one text form that the RFC prints: 8-4-4-4-12 hexadecimal digits.
pub(crate) fn parse7(text: &str) -> Result<u128, &'static str> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    if text.len() != 36 {
        return Err("a UUID has 36 characters, xxxxxxxx-xxxx-7xxx-xxxx-xxxxxxxxxxxx");
    }
    let mut bits = 0u128;
    for (at, byte) in text.bytes().enumerate() {
        if HYPHENS.contains(&at) {
            if byte != b'-' {
                return Err("its hyphens are not where a UUID has them");
            }
            continue;
        }
        let digit = (byte as char).to_digit(16).ok_or("it has a character that is not hexadecimal")?;
        bits = bits << 4 | u128::from(digit);
    }
    check7(bits)
}

/// The bits, if version and variant say that they begin with a time.
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
