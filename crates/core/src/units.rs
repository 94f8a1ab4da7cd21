//! Durations and sizes as text: `90s`, `10min`, `1h30m`, `64MiB`. Every setting, flag and HTTP field uses
//! these parsers.

use std::time::Duration;

/// Units of durations in milliseconds, largest first. The first name of a length is the one that is written.
const DURATIONS: [(&str, u64); 6] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

const SIZES: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Parses a duration: one or more numbers, each followed by a unit, largest unit first.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    const FORM: &str = "a duration is written as 500ms, 90s, 10min, 1h30m or 30d (units d, h, min, m, s, ms)";
    let mut rest = text.trim();
    let mut millis: u64 = 0;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '_').ok_or(FORM)?;
        let number: u64 = rest[..end].replace('_', "").parse().map_err(|_| FORM)?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = DURATIONS.iter().find(|(name, _)| *name == rest[..end].trim()).ok_or(FORM)?;
        rest = &rest[end..];
        // A repeated or increasing unit is a typing error.
        if *unit >= last {
            return Err(FORM);
        }
        last = *unit;
        millis = number
            .checked_mul(*unit)
            .and_then(|part| millis.checked_add(part))
            .ok_or("the duration is too long")?;
    }
    if last == u64::MAX { Err(FORM) } else { Ok(Duration::from_millis(millis)) }
}

/// Formats a duration in the largest unit that needs no rounding. Fractions of a millisecond are cut off.
pub fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    // One day is written as 24h; several days are written in days.
    let fits = |(name, unit): &&(&str, u64)| millis.is_multiple_of(*unit) && (*name != "d" || millis > *unit);
    match DURATIONS.iter().find(fits) {
        Some((name, unit)) if millis > 0 => format!("{}{name}", millis / unit),
        _ => "0s".into(),
    }
}

/// Parses a size in bytes. Units are powers of two; decimal units (`GB`) are rejected as ambiguous.
pub fn parse_size(text: &str) -> Result<u64, &'static str> {
    const FORM: &str = "a size is a number of bytes, or written as 64KiB, 16MiB or 1GiB";
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let number: u64 = text[..end].replace('_', "").parse().map_err(|_| FORM)?;
    let unit = match text[end..].trim() {
        "" => 1,
        unit => {
            let is = |name: &str| unit.eq_ignore_ascii_case(name) || unit.eq_ignore_ascii_case(&name[..1]);
            SIZES.iter().find(|(name, _)| is(name)).ok_or(FORM)?.1
        }
    };
    number.checked_mul(unit).ok_or("the size is too large")
}

/// Formats a size in the largest unit that needs no rounding.
pub fn format_size(bytes: u64) -> String {
    match SIZES.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for (text, seconds) in [("24h", 86_400), ("7d", 604_800), ("10m", 600), ("90s", 90), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)));
            assert_eq!(format_duration(Duration::from_secs(seconds)), text);
        }
        assert_eq!(format_duration(Duration::from_millis(1500)), "1500ms");
    }

    #[test]
    fn durations_accept_every_documented_form() {
        for (text, seconds) in
            [("1h30m", 5400), ("1h30min", 5400), ("10min", 600), ("90 d", 7_776_000), (" 1_000s ", 1000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn malformed_durations_are_rejected() {
        let wrong = ["", "24", "h", "1x", "30m1h", "1h1h", "1m1min", "-1h", "1.5h", "5 years"];
        for text in wrong.into_iter().chain(["99999999999999999999d", "9999999999999d"]) {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_round_trip() {
        for (text, bytes) in
            [("1GiB", 1 << 30), ("64MiB", 64 << 20), ("3KiB", 3072), ("1000", 1000), ("0", 0)]
        {
            assert_eq!(parse_size(text), Ok(bytes));
            assert_eq!(format_size(bytes), text);
        }
        for (text, bytes) in [("64 KiB", 64 << 10), ("1024 k", 1 << 20), ("3 gib", 3 << 30), ("1_000", 1000)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn malformed_sizes_are_rejected() {
        for text in ["", "GiB", "1GB", "-1", "1.5 MiB", "99999999999GiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
