//! The settings of a table, as people write them.

use std::time::Duration;

use jeton_core::units;
use jeton_core::{Durability, Format, Formats, MissingIdPolicy, Mode, TableSettings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::json::JsonInteger;
use super::outcome_body;
use super::problem::{ErrorCode, Problem};
use super::suggestion::nearest;

/// The settings of a table. What is left out takes its default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"formats": ["uuid7"], "dated_window": "24h", "expected_ids": 1000000}))]
pub struct SettingsBody {
    /// The formats of ids it takes: uuid7, ulid, sequenced, event, opaque. Default: uuid7 alone.
    pub formats: Option<Vec<String>>,
    /// How long ids that carry a time are remembered; older ones are refused. Default: 24h.
    pub dated_window: Option<String>,
    /// How long opaque ids are remembered after they came. Default: 10m.
    pub opaque_window: Option<String>,
    /// How far ahead of the server an id may be dated. Default: 60s.
    pub skew: Option<String>,
    /// How long a client of sequenced ids may be idle before its session is forgotten. Default: 7d.
    pub session_lease: Option<String>,
    /// exact (default): no new id is ever taken for a known one. probabilistic: with a small probability one
    /// is, and is dropped.
    pub mode: Option<String>,
    /// For probabilistic: that probability, between 1e-9 and 0.1.
    pub target: Option<f64>,
    /// strict (default): what is acknowledged survives a crash. relaxed: the last moments before a crash may
    /// be lost.
    pub durability: Option<String>,
    /// What to do with a write without an id: refuse (default) or at-most-once.
    pub without_id: Option<String>,
    /// Ids expected within a window: the size with which the filter begins; it grows. Default: 10000.
    pub expected_ids: Option<JsonInteger>,
    /// The most bytes of each of the table's filters: a number, or a text such as 64MiB. Default: 1GiB.
    #[schema(value_type = Option<String>)]
    pub memory_cap: Option<Size>,
}

/// A size: a number of bytes, or a text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// As people write it.
    Text(String),
}

/// The settings of a table, all of them.
#[derive(Debug, Serialize, ToSchema)]
pub struct Settings {
    /// The formats of ids it takes.
    formats: Vec<&'static str>,
    /// How long ids that carry a time are remembered.
    dated_window: String,
    /// How long opaque ids are remembered after they came.
    opaque_window: String,
    /// How far ahead of the server an id may be dated.
    skew: String,
    /// How long a client of sequenced ids may be idle.
    session_lease: String,
    /// exact or probabilistic.
    mode: &'static str,
    /// For probabilistic: with what probability a new id may be taken for a known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<f64>,
    /// strict or relaxed.
    durability: &'static str,
    /// refuse or at-most-once.
    without_id: &'static str,
    /// Ids expected within a window.
    expected_ids: u64,
    /// The most bytes of each of the table's filters.
    memory_cap: String,
}

fn wrong(setting: &'static str, why: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorCode::BadSettings, format!("{setting}: {why}")).with("setting", setting)
}

/// One of a few words.
fn choice<T: Copy>(setting: &'static str, word: &str, words: &[(&str, T)]) -> Result<T, Problem> {
    if let Some((_, choice)) = words.iter().find(|(known, _)| *known == word) {
        return Ok(*choice);
    }
    let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
    let hint = nearest(word, known.iter().copied())
        .map(|near| format!("; did you mean {near:?}?"))
        .unwrap_or_default();
    Err(wrong(setting, format!("{word:?} is none of {}{hint}", known.join(", "))))
}

fn duration(setting: &'static str, text: Option<&str>, default: Duration) -> Result<Duration, Problem> {
    let read = |text| units::parse_duration(text).map_err(|why| wrong(setting, format!("{text:?}: {why}")));
    text.map(read).transpose().map(|duration| duration.unwrap_or(default))
}

impl SettingsBody {
    /// The settings, if each can be; whether they can be together is seen when a table is made of them.
    pub fn settings(self) -> Result<TableSettings, Problem> {
        let default = TableSettings::default();
        let formats = match self.formats {
            None => default.formats,
            Some(names) => {
                let words: Vec<_> = Format::ALL.into_iter().map(|format| (format.name(), format)).collect();
                let mut formats = Formats::NONE;
                for name in names {
                    formats = formats.and(choice("formats", &name, &words)?);
                }
                formats
            }
        };
        let mode = match (self.mode.as_deref(), self.target) {
            (None | Some("exact"), None) => Mode::Exact,
            (Some("probabilistic"), Some(target)) => Mode::Probabilistic { target },
            (Some("probabilistic"), None) => {
                return Err(wrong(
                    "target",
                    "a probabilistic table needs it: the probability that a new id is dropped",
                ));
            }
            (None | Some("exact"), Some(_)) => {
                return Err(wrong("target", "it belongs to the mode \"probabilistic\""));
            }
            (Some(other), _) => {
                choice("mode", other, &[("exact", Mode::Exact), ("probabilistic", Mode::Exact)])?
            }
        };
        let durabilities = [("strict", Durability::Strict), ("relaxed", Durability::Relaxed)];
        let policies = [("refuse", MissingIdPolicy::Refuse), ("at-most-once", MissingIdPolicy::AtMostOnce)];
        let memory_cap = match self.memory_cap {
            None => default.memory_cap,
            Some(Size::Bytes(bytes)) => bytes,
            Some(Size::Text(text)) => {
                units::parse_size(&text).map_err(|why| wrong("memory_cap", format!("{text:?}: {why}")))?
            }
        };
        let expected_ids = match self.expected_ids {
            None => default.expected_ids,
            Some(JsonInteger(number)) => number
                .try_into()
                .map_err(|_| wrong("expected_ids", format!("{number} is not between 1 and 2^40")))?,
        };
        Ok(TableSettings {
            formats,
            dated_window: duration("dated_window", self.dated_window.as_deref(), default.dated_window)?,
            opaque_window: duration("opaque_window", self.opaque_window.as_deref(), default.opaque_window)?,
            skew: duration("skew", self.skew.as_deref(), default.skew)?,
            session_lease: duration("session_lease", self.session_lease.as_deref(), default.session_lease)?,
            mode,
            durability: match self.durability {
                None => default.durability,
                Some(word) => choice("durability", &word, &durabilities)?,
            },
            without_id: match self.without_id {
                None => default.without_id,
                Some(word) => choice("without_id", &word, &policies)?,
            },
            expected_ids,
            memory_cap,
        })
    }
}

impl Settings {
    /// These settings.
    pub fn of(settings: &TableSettings) -> Self {
        Self {
            formats: settings.formats.iter().map(Format::name).collect(),
            dated_window: units::format_duration(settings.dated_window),
            opaque_window: units::format_duration(settings.opaque_window),
            skew: units::format_duration(settings.skew),
            session_lease: units::format_duration(settings.session_lease),
            mode: outcome_body::mode(settings.mode),
            target: match settings.mode {
                Mode::Exact => None,
                Mode::Probabilistic { target } => Some(target),
            },
            durability: outcome_body::durability(settings.durability),
            without_id: match settings.without_id {
                MissingIdPolicy::Refuse => "refuse",
                MissingIdPolicy::AtMostOnce => "at-most-once",
            },
            expected_ids: settings.expected_ids,
            memory_cap: units::format_size(settings.memory_cap),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_sent_back() {
        let settings = TableSettings {
            formats: Formats::only(Format::Ulid).and(Format::Event),
            mode: Mode::Probabilistic { target: 1e-4 },
            durability: Durability::Relaxed,
            without_id: MissingIdPolicy::AtMostOnce,
            ..TableSettings::default()
        };
        for settings in [settings, TableSettings::default()] {
            let shown = serde_json::to_string(&Settings::of(&settings)).unwrap();
            let body: SettingsBody = serde_json::from_str(&shown).unwrap();
            assert_eq!(body.settings().unwrap(), settings);
        }
    }
}
