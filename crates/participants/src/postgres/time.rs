//! Decoder for binary dates and times: days or microseconds since 2000-01-01.

use tokio_postgres::types::Type;

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Formats the value as PostgreSQL does, in UTC.
pub fn read(kind: &Type, raw: &[u8]) -> Option<String> {
    if *kind == Type::DATE {
        let days = i32::from_be_bytes(raw.try_into().ok()?);
        return Some(match days {
            i32::MAX => "infinity".into(),
            i32::MIN => "-infinity".into(),
            _ => date(days.into()),
        });
    }
    let micros = i64::from_be_bytes(raw.try_into().ok()?);
    Some(match (micros, kind) {
        (_, &Type::TIME) => clock(micros),
        (i64::MAX, _) => "infinity".into(),
        (i64::MIN, _) => "-infinity".into(),
        _ => {
            let zone = if *kind == Type::TIMESTAMPTZ { "+00" } else { "" };
            let (days, rest) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
            format!("{} {}{zone}", date(days), clock(rest))
        }
    })
}

fn clock(micros: i64) -> String {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let text = format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if rest == 0 { text } else { format!("{text}.{}", format!("{rest:06}").trim_end_matches('0')) }
}

/// The civil date of a day. Years begin in March here, so that the leap day is the last day.
fn date(days_since_2000: i64) -> String {
    const DAYS_PER_ERA: i64 = 146_097;
    // Days since 0000-03-01.
    let days = days_since_2000 + 730_425;
    let (era, day) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if year > 0 {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{:04}-{month:02}-{day:02} BC", 1 - year)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (days, expected) in [
            (0, "2000-01-01"),
            (59, "2000-02-29"),
            (-1, "1999-12-31"),
            (9_000, "2024-08-22"),
            (-10_957, "1970-01-01"),
            (36_584, "2100-03-01"),
        ] {
            assert_eq!(date(days), expected);
        }
        assert_eq!(clock(3_661_500_000), "01:01:01.5");
        let raw = (-1_i64).to_be_bytes();
        assert_eq!(read(&Type::TIMESTAMPTZ, &raw).unwrap(), "1999-12-31 23:59:59.999999+00");
    }
}
