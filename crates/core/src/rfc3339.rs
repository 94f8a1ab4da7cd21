//! RFC 3339 times, from and to milliseconds since 1970, without leap seconds.

const DAY_MILLIS: u64 = 24 * 3600 * 1000;

/// The last year with four digits.
const YEAR_MAX: u64 = 9999;

/// A time in UTC with milliseconds. Times after the year 9999 are clamped to its end.
pub fn format(millis: u64) -> String {
    let millis = millis.min(days(YEAR_MAX + 1, 1, 1) * DAY_MILLIS - 1);
    let (mut day, rest) = (millis / DAY_MILLIS, millis % DAY_MILLIS);
    let mut year = 1970;
    while day >= year_days(year) {
        day -= year_days(year);
        year += 1;
    }
    let mut month = 1;
    while day >= month_days(year, month) {
        day -= month_days(year, month);
        month += 1;
    }
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", day + 1, rest % 1000)
}

/// A time in UTC, truncated to seconds.
pub fn format_seconds(millis: u64) -> String {
    let mut text = format(millis);
    text.replace_range(19..23, "");
    text
}

/// Parses a time of 1970 or later. Digits after the milliseconds are truncated, so that a redelivery has the
/// same time.
pub fn parse(text: &str) -> Result<u64, &'static str> {
    const FORM: &str = "a time has the form 2026-01-31T12:00:00Z (RFC 3339), with Z or an offset at the end";
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() < 20 {
        return Err(FORM);
    }
    let shape = [(4, b"-"), (7, b"-"), (13, b":"), (16, b":")];
    if shape.iter().any(|(at, mark)| bytes[*at] != mark[0]) || !b"Tt ".contains(&bytes[10]) {
        return Err(FORM);
    }
    let number = |from: usize, to: usize| digits(&text[from..to]).ok_or(FORM);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if year < 1970 {
        return Err("the time is before 1970");
    }
    let in_calendar = (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
    if !in_calendar || hour > 23 || minute > 59 || second > 60 {
        return Err("the date or time of day does not exist");
    }
    let mut rest = &text[19..];
    let mut millis = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        if end == 0 {
            return Err(FORM);
        }
        millis = format!("{:0<3}", &fraction[..end.min(3)]).parse().map_err(|_| FORM)?;
        rest = &fraction[end..];
    }
    let local = days(year, month, day) * DAY_MILLIS + (hour * 3600 + minute * 60 + second) * 1000 + millis;
    match rest {
        "Z" | "z" => Ok(local),
        _ if rest.len() == 6 && rest.as_bytes()[3] == b':' => {
            let (hours, minutes) = (digits(&rest[1..3]).ok_or(FORM)?, digits(&rest[4..6]).ok_or(FORM)?);
            if hours > 23 || minutes > 59 {
                return Err(FORM);
            }
            let offset = (hours * 60 + minutes) * 60_000;
            match rest.as_bytes()[0] {
                b'+' => local.checked_sub(offset).ok_or("the time is before 1970"),
                b'-' => Ok(local + offset),
                _ => Err(FORM),
            }
        }
        _ => Err(FORM),
    }
}

fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn year_days(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn month_days(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let before = |year: u64| (year - 1) * 365 + (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    before(year) - before(1970) + (1..month).map(|month| month_days(year, month)).sum::<u64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        for (text, millis) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T12:34:56.789Z", 951_827_696_789),
            ("2026-11-16T07:40:12.000Z", 1_794_814_812_000),
            ("2100-03-01T00:00:00.000Z", 4_107_542_400_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] {
            assert_eq!(parse(text), Ok(millis), "{text}");
            assert_eq!(format(millis), text);
        }
        assert_eq!(format(u64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(format_seconds(951_782_399_999), "2000-02-28T23:59:59Z");
    }

    #[test]
    fn offsets_fractions_and_malformed_times() {
        assert_eq!(parse("1970-01-02T01:00:00+01:00"), Ok(DAY_MILLIS));
        assert_eq!(parse("1970-01-01T23:00:00-01:00"), Ok(DAY_MILLIS));
        assert_eq!(parse("1970-01-01t00:00:00.5z"), Ok(500));
        assert_eq!(parse("1970-01-01T00:00:00.123999Z"), Ok(123));
        for wrong in [
            "",
            "2026",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1:00",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "2026-01-01X00:00:00Z",
            "2026-01-01T00:00:00Zjunk",
            "2026-01-01T00:00:00é",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_round_trips() {
        for day in (0..400 * 366).step_by(1) {
            let millis = day * DAY_MILLIS + 1;
            assert_eq!(parse(&format(millis)), Ok(millis));
        }
    }
}
