//! Durations and sizes as people write them: `24h`, `1h30m`, `64MiB`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] =
    [("d", 24 * 3600 * 1000), ("h", 3600 * 1000), ("m", 60 * 1000), ("s", 1000), ("ms", 1)];

const SIZES: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Reads a duration: numbers, each with its unit, the largest first.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    const FORM: &str = "a duration is written as 24h, 1h30m, 90s or 500ms (units d, h, m, s, ms)";
    let mut rest = text;
    let mut millis: u64 = 0;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or(FORM)?;
        let number: u64 = rest[..end].parse().map_err(|_| FORM)?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..end]).ok_or(FORM)?;
        rest = &rest[end..];
        // Twice the same or a larger one after a smaller is a slip, and who knows which.
        if *unit >= last {
            return Err(FORM);
        }
        last = *unit;
        millis = number
            .checked_mul(*unit)
            .and_then(|part| millis.checked_add(part))
            .ok_or("too long a duration")?;
    }
    if last == u64::MAX { Err(FORM) } else { Ok(Duration::from_millis(millis)) }
}

/// A duration as text, as short as it can be said without rounding; below a millisecond it is cut off.
pub fn duration_text(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    // A day is said in hours, as everybody does; several are said in days.
    let fits = |(name, unit): &&(&str, u64)| millis.is_multiple_of(*unit) && (*name != "d" || millis > *unit);
    match UNITS.iter().find(fits) {
        Some((name, unit)) if millis > 0 => format!("{}{name}", millis / unit),
        _ => "0s".into(),
    }
}

/// Reads a size in bytes.
pub fn size(text: &str) -> Result<u64, &'static str> {
    const FORM: &str = "a size is a number of bytes, or written as 64KiB, 16MiB or 1GiB";
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| FORM)?;
    let unit = match &text[end..] {
        "" => 1,
        unit => SIZES.iter().find(|(name, _)| *name == unit).ok_or(FORM)?.1,
    };
    number.checked_mul(unit).ok_or("too large a size")
}

/// A size as text, without rounding.
pub fn size_text(bytes: u64) -> String {
    match SIZES.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_come_back() {
        for (text, seconds) in [("24h", 86_400), ("7d", 604_800), ("10m", 600), ("90s", 90), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
            assert_eq!(duration_text(Duration::from_secs(seconds)), text);
        }
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration_text(Duration::from_millis(1500)), "1500ms");
        for wrong in [
            "",
            "24",
            "h",
            "1x",
            "30m1h",
            "1h1h",
            "-1h",
            "1.5h",
            " 1h",
            "99999999999999999999d",
            "9999999999999d",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_come_back() {
        for (text, bytes) in
            [("1GiB", 1 << 30), ("64MiB", 64 << 20), ("3KiB", 3072), ("1000", 1000), ("0", 0)]
        {
            assert_eq!(size(text), Ok(bytes));
            assert_eq!(size_text(bytes), text);
        }
        for wrong in ["", "GiB", "1GB", "1 GiB", "99999999999GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
