//! Comparison of decimal numbers of databases without rounding.

use std::cmp::Ordering;

/// Compares two numbers as databases format them: digits with an optional sign and point. `None` if one is
/// not a number.
pub fn compare(left: &str, right: &str) -> Option<Ordering> {
    let (left, right) = (Digits::read(left)?, Digits::read(right)?);
    Some(match (left.is_negative(), right.is_negative()) {
        (false, false) => left.compare_size(&right),
        (true, true) => right.compare_size(&left),
        (false, true) => Ordering::Greater,
        (true, false) => Ordering::Less,
    })
}

struct Digits<'a> {
    has_sign: bool,
    whole: &'a str,
    part: &'a str,
}

impl<'a> Digits<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (has_sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, part) = rest.split_once('.').unwrap_or((rest, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = are_digits(whole) && are_digits(part) && !(whole.is_empty() && part.is_empty());
        is_number.then(|| Self {
            has_sign,
            whole: whole.trim_start_matches('0'),
            part: part.trim_end_matches('0'),
        })
    }

    fn is_negative(&self) -> bool {
        self.has_sign && !(self.whole.is_empty() && self.part.is_empty())
    }

    fn compare_size(&self, other: &Self) -> Ordering {
        let whole = self.whole.len().cmp(&other.whole.len()).then_with(|| self.whole.cmp(other.whole));
        // Without trailing zeros, a longer fraction is greater than its prefix.
        whole.then_with(|| self.part.cmp(other.part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        let ascending = [
            "-100",
            "-20.5",
            "-20.49",
            "-0.1",
            "0",
            "0.09",
            "0.1",
            "1.05",
            "1.5",
            "9",
            "10",
            "123456789012345678901",
        ];
        for (at, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                assert_eq!(compare(left, right), Some(at.cmp(&other)), "{left} {right}");
            }
        }
        for (left, right) in [("-0", "0.00"), ("007", "7"), ("1.50", "1.5"), (".5", "0.5"), ("+3", "3.")] {
            assert_eq!(compare(left, right), Some(Ordering::Equal), "{left} {right}");
        }
        for wrong in ["", "-", ".", "1e5", "NaN", "0x1", "1.2.3", " 1"] {
            assert_eq!(compare(wrong, "1"), None, "{wrong}");
        }
    }
}
