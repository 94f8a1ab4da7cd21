//! RFC 3339 timestamps.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Formats milliseconds since 1970 in UTC without a fraction, such as `2026-11-16T07:40:12Z`.
pub fn text(millis: u64) -> String {
    let seconds = i64::try_from(millis / 1000).unwrap_or(i64::MAX);
    let formatted =
        OffsetDateTime::from_unix_timestamp(seconds).ok().and_then(|time| time.format(&Rfc3339).ok());
    formatted.unwrap_or_else(|| format!("{seconds} s after 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_no_fraction() {
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_782_400_999), "2000-02-29T00:00:00Z");
        assert_eq!(text(1_763_278_812_000), "2025-11-16T07:40:12Z");
        assert_eq!(text(u64::MAX), "18446744073709551 s after 1970");
    }
}
