//! The settings of a table in JSON.

use std::time::Duration;

use jeton_core::units;
use jeton_core::{Durability, Format, Formats, MissingIdPolicy, Mode, TableSettings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::json::JsonInteger;
use super::outcome_body;
use super::problem::{ErrorCode, Problem};
use super::suggestion::nearest;

/// The settings of a table. A missing member has its default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"formats": ["uuid7"], "dated_window": "24h", "expected_ids": 1000000}))]
pub struct SettingsBody {
    /// Accepted formats of ids: uuid7, ulid, sequenced, event, opaque. Default: uuid7.
    pub formats: Option<Vec<String>>,
    /// Window of dated ids; older ones are rejected. Default: 24h.
    pub dated_window: Option<String>,
    /// Window of opaque ids, from their arrival. Default: 10m.
    pub opaque_window: Option<String>,
    /// Maximum time of an id ahead of the clock of the server. Default: 60s.
    pub skew: Option<String>,
    /// Idle time after which the session of a client with sequenced ids is deleted. Default: 7d.
    pub session_lease: Option<String>,
    /// exact (default), or probabilistic: with a small probability a new id is reported as known and dropped.
    pub mode: Option<String>,
    /// For probabilistic: that probability, between 1e-9 and 0.1.
    pub target: Option<f64>,
    /// strict (default): acknowledged operations survive a crash. relaxed: a crash may lose the last ones.
    pub durability: Option<String>,
    /// Effect of a write without an id: refuse (default) or at-most-once.
    pub without_id: Option<String>,
    /// Expected number of ids in a window: the initial size of the filter, which grows. Default: 10000.
    pub expected_ids: Option<JsonInteger>,
    /// Maximum bytes of each filter of the table: a number, or a text such as 64MiB. Default: 1GiB.
    #[schema(value_type = Option<String>)]
    pub memory_cap: Option<Size>,
}

/// A number of bytes, or a text with a unit.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Size {
    Bytes(u64),
    Text(String),
}

/// All settings of a table.
#[derive(Debug, Serialize, ToSchema)]
pub struct Settings {
    /// Accepted formats of ids.
    formats: Vec<&'static str>,
    /// Window of dated ids.
    dated_window: String,
    /// Window of opaque ids, from their arrival.
    opaque_window: String,
    /// Maximum time of an id ahead of the clock of the server.
    skew: String,
    /// Idle time after which the session of a client with sequenced ids is deleted.
    session_lease: String,
    /// exact or probabilistic.
    mode: &'static str,
    /// For probabilistic: the probability that a new id is reported as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<f64>,
    /// strict or relaxed.
    durability: &'static str,
    /// refuse or at-most-once.
    without_id: &'static str,
    /// Expected number of ids in a window.
    expected_ids: u64,
    /// Maximum bytes of each filter of the table.
    memory_cap: String,
}

fn wrong(setting: &'static str, why: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorCode::BadSettings, format!("{setting}: {why}")).with("setting", setting)
}

/// Finds a word in a list.
fn choice<T: Copy>(setting: &'static str, word: &str, words: &[(&str, T)]) -> Result<T, Problem> {
    if let Some((_, choice)) = words.iter().find(|(known, _)| *known == word) {
        return Ok(*choice);
    }
    let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
    let near = nearest(word, known.iter().copied());
    let hint = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
    Err(wrong(setting, format!("{word:?} is none of {}{hint}", known.join(", "))))
}

fn duration(setting: &'static str, text: Option<&str>, default: Duration) -> Result<Duration, Problem> {
    let read = |text| units::parse_duration(text).map_err(|why| wrong(setting, format!("{text:?}: {why}")));
    text.map(read).transpose().map(|duration| duration.unwrap_or(default))
}

impl SettingsBody {
    /// Parses each setting. The engine checks their combination.
    pub fn settings(self) -> Result<TableSettings, Problem> {
        let default = TableSettings::default();
        let words: Vec<_> = Format::ALL.into_iter().map(|format| (format.name(), format)).collect();
        let formats = self.formats.map(|names| {
            names.iter().try_fold(Formats::NONE, |all, name| {
                choice("formats", name, &words).map(|format| all.and(format))
            })
        });
        let mode = match (self.mode.as_deref(), self.target) {
            (None | Some("exact"), None) => Mode::Exact,
            (Some("probabilistic"), Some(target)) => Mode::Probabilistic { target },
            (Some("probabilistic"), None) => {
                let why = "a probabilistic table needs it: the probability that a new id is dropped";
                return Err(wrong("target", why));
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
            formats: formats.transpose()?.unwrap_or(default.formats),
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
    fn settings_round_trip_through_json() {
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
