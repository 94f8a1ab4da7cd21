//! Types of settings, parsed from and formatted as text.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jeton_core::units;

/// A value with a text form. `read(show(v)) == v`.
pub trait SettingValue: Sized {
    /// Whether the flag without a value means true.
    const IS_SWITCH: bool = false;
    /// Whether TOML needs no quotes.
    const IS_BARE: bool = false;

    /// Parses a value. The error says what is valid.
    fn read(text: &str) -> Result<Self, String>;

    /// Formats the value.
    fn show(&self) -> String;
}

impl SettingValue for PathBuf {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("a path must not be empty".into()) } else { Ok(text.into()) }
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

impl SettingValue for String {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("a name must not be empty".into()) } else { Ok(text.into()) }
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
            _ => Err("valid values are true and false".into()),
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
            Ok(0) => Err("the minimum is 1".into()),
            Ok(number) => Ok(number),
            Err(_) => Err("it must be an integer, such as 8192".into()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A path, or none.
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

/// A text, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaybeText(pub Option<String>);

impl SettingValue for MaybeText {
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self(if matches!(text, "" | "none") { None } else { Some(text.into()) }))
    }

    fn show(&self) -> String {
        self.0.clone().unwrap_or_else(|| "none".into())
    }
}

impl SettingValue for SocketAddr {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "it must be an address and a port, such as 10.0.0.2:6382".into())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Host names, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl SettingValue for Names {
    fn read(text: &str) -> Result<Self, String> {
        if matches!(text, "" | "none") {
            return Ok(Self(Vec::new()));
        }
        let is_name = |name: &str| {
            let (host, port) = name.split_once(':').unwrap_or((name, "0"));
            let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
            !host.is_empty() && host.bytes().all(is_letter) && port.parse::<u16>().is_ok()
        };
        match text.split(',').map(str::trim).find(|name| !is_name(name)) {
            None => Ok(Self(text.split(',').map(|name| name.trim().to_owned()).collect())),
            Some(name) => Err(format!("{name:?} is not a host name, such as counters.example.org")),
        }
    }

    fn show(&self) -> String {
        if self.0.is_empty() { "none".into() } else { self.0.join(",") }
    }
}

/// An address to listen on, or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

impl SettingValue for Listen {
    fn read(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        // The only name that is resolved: others may change their address while the server runs.
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        match text.parse() {
            Ok(address) => Ok(Self(Some(address))),
            Err(_) => {
                Err("it must be an address with a port, such as 127.0.0.1:6380, 0.0.0.0:6380 or [::1]:6380, or off"
                    .into())
            }
        }
    }

    fn show(&self) -> String {
        self.0.map_or("off".into(), |address| address.to_string())
    }
}

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl SettingValue for Size {
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self(units::parse_size(text)?))
    }

    fn show(&self) -> String {
        units::format_size(self.0)
    }
}

/// A duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationValue(pub Duration);

impl SettingValue for DurationValue {
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self(units::parse_duration(text)?))
    }

    fn show(&self) -> String {
        units::format_duration(self.0)
    }
}

impl std::str::FromStr for DurationValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text)
    }
}

/// Level of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLevel(pub tracing::Level);

impl SettingValue for LogLevel {
    fn read(text: &str) -> Result<Self, String> {
        let known = ["error", "warn", "info", "debug", "trace"].contains(&text);
        match text.parse() {
            Ok(level) if known => Ok(Self(level)),
            _ => Err("valid values are error, warn, info, debug and trace".into()),
        }
    }

    fn show(&self) -> String {
        self.0.to_string().to_ascii_lowercase()
    }
}

/// Format of the log.
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
            _ => Err("valid values are text and json".into()),
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
    fn host_names_are_separated_by_commas() {
        let names = |text: &str| Names::read(text).map(|names| names.show());
        assert_eq!(names("a.example, b:81"), Ok("a.example,b:81".into()));
        assert_eq!(names("none"), Ok("none".into()));
        for text in ["a,,b", "http://a", "a:b", "*", "a b"] {
            assert!(names(text).is_err(), "{text}");
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
