//! Numbers for people.

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in decimal units: `96 kB`, `4.9 MB` or `44.0 GB`.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..999_500 => format!("{:.0} kB", bytes as f64 / 1e3),
        999_500..999_950_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// A share as a percentage with two significant digits: `0.1 %`, `0.034 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent <= 0.0 {
        return "0 %".into();
    }
    if percent < 1e-4 {
        return "<0.0001 %".into();
    }
    let digits = (1 - percent.log10().floor() as i32).clamp(0, 4) as usize;
    let text = format!("{percent:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (412_337, "412,337"), (1_000_000, "1,000,000")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn bytes_use_the_largest_unit() {
        for (number, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (96_256, "96 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (999_949_999, "999.9 MB"),
            (999_950_000, "1.0 GB"),
            (44_011_200_000, "44.0 GB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn percentages_keep_two_digits() {
        for (share, text) in [
            (0.0, "0 %"),
            (1e-9, "<0.0001 %"),
            (1e-3, "0.1 %"),
            (3.4e-4, "0.034 %"),
            (0.5, "50 %"),
            (0.05, "5 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }
}
