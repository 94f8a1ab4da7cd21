//! The kinds of values: read from text, and told as text that reads as the same.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A value that has a text.
pub trait SettingValue: Sized {
    /// Whether its flag means yes without a value.
    const IS_SWITCH: bool = false;
    /// Whether it is written without quotes in TOML.
    const IS_BARE: bool = false;

    /// Reads it, or says what would be right.
    fn read(text: &str) -> Result<Self, String>;

    /// The text that is told.
    fn show(&self) -> String;
}

impl SettingValue for PathBuf {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("a path is not empty".into()) } else { Ok(text.into()) }
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

impl SettingValue for String {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("a name is not empty".into()) } else { Ok(text.into()) }
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl SettingValue for bool {
    const IS_SWITCH: bool = true;
    const IS_BARE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        match text {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err("it is true or false".into()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for usize {
    const IS_BARE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        match text.replace('_', "").parse() {
            Ok(0) => Err("it is at least 1".into()),
            Ok(number) => Ok(number),
            Err(_) => Err("it is a whole number, as 8192".into()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A file, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaybePath(pub Option<PathBuf>);

impl SettingValue for MaybePath {
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self(if matches!(text, "" | "none") { None } else { Some(text.into()) }))
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or("none".into(), |path| path.display().to_string())
    }
}

/// Where to listen, if at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

impl SettingValue for Listen {
    fn read(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        // The name that everybody types; no other is looked up, because what it means can change while nobody looks.
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        match text.parse() {
            Ok(address) => Ok(Self(Some(address))),
            Err(_) => {
                Err("it is an address with a port, as 127.0.0.1:6380, 0.0.0.0:6380 or [::1]:6380, or off"
                    .into())
            }
        }
    }

    fn show(&self) -> String {
        self.0.map_or("off".into(), |address| address.to_string())
    }
}

/// Bytes, with or without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

const SIZES: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl SettingValue for Size {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || "it is a number of bytes, as 1048576, 64 KiB, 128 MiB or 1 GiB".to_string();
        let lower = text.to_ascii_lowercase().replace('_', "");
        let units =
            [("gib", 30), ("g", 30), ("mib", 20), ("m", 20), ("kib", 10), ("k", 10), ("b", 0), ("", 0)];
        let (digits, shift) = units
            .iter()
            .find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?.trim(), *shift)))
            .ok_or_else(wrong)?;
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(|| "it is more than there can be".into())
    }

    fn show(&self) -> String {
        for (unit, shift) in SIZES {
            if self.0 > 0 && self.0.is_multiple_of(1 << shift) {
                return format!("{} {unit}", self.0 >> shift);
            }
        }
        self.0.to_string()
    }
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationValue(pub Duration);

const SPANS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

impl SettingValue for DurationValue {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || "it is a number with a unit, as 500ms, 30s, 10min, 24h or 30d".to_string();
        let text = text.trim();
        let split = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
        let (digits, unit) = (&text[..split], text[split..].trim());
        let unit = if unit == "m" { "min" } else { unit };
        let (_, millis) = SPANS.into_iter().find(|(known, _)| *known == unit).ok_or_else(wrong)?;
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let millis = number.checked_mul(millis).ok_or("it is longer than there can be")?;
        Ok(Self(Duration::from_millis(millis)))
    }

    fn show(&self) -> String {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        for (unit, length) in SPANS {
            if millis > 0 && millis.is_multiple_of(length) {
                return format!("{}{unit}", millis / length);
            }
        }
        format!("{millis}ms")
    }
}

impl std::str::FromStr for DurationValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text)
    }
}

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLevel(pub tracing::Level);

impl SettingValue for LogLevel {
    fn read(text: &str) -> Result<Self, String> {
        let known = ["error", "warn", "info", "debug", "trace"].contains(&text);
        match text.parse() {
            Ok(level) if known => Ok(Self(level)),
            _ => Err("it is error, warn, info, debug or trace".into()),
        }
    }

    fn show(&self) -> String {
        self.0.to_string().to_ascii_lowercase()
    }
}

/// How it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl SettingValue for LogFormat {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("it is text or json".into()),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Json => "json".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_spans_are_read_with_units_and_told_in_the_largest_that_fits() {
        for (text, bytes, shown) in [
            ("0", 0, "0"),
            ("1000", 1000, "1000"),
            ("64KiB", 64 << 10, "64 KiB"),
            ("1024 k", 1 << 20, "1 MiB"),
            ("3 GiB", 3 << 30, "3 GiB"),
        ] {
            assert_eq!(Size::read(text).map(|size| (size.0, size.show())), Ok((bytes, shown.into())));
        }
        for (text, millis, shown) in [
            ("0s", 0, "0ms"),
            ("1500ms", 1500, "1500ms"),
            ("60s", 60_000, "1min"),
            ("10m", 600_000, "10min"),
            ("90 d", 90 * 86_400_000, "90d"),
        ] {
            let read = DurationValue::read(text).map(|span| (span.0.as_millis(), span.show()));
            assert_eq!(read, Ok((millis, shown.into())));
        }
        for text in ["", "x", "5", "5 years", "-1s", "99999999999999999999d", "999999999999999d"] {
            assert!(DurationValue::read(text).is_err(), "{text}");
        }
        for text in ["", "x", "-1", "1.5 MiB", "99999999999 GiB"] {
            assert!(Size::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_have_a_port() {
        assert_eq!(Listen::read("localhost:1").map(|listen| listen.show()), Ok("127.0.0.1:1".into()));
        assert_eq!(Listen::read("[::1]:1").map(|listen| listen.show()), Ok("[::1]:1".into()));
        assert_eq!(Listen::read("off"), Ok(Listen(None)));
        for text in ["", "127.0.0.1", "6380", "example.org:1"] {
            assert!(Listen::read(text).is_err(), "{text}");
        }
    }
}
