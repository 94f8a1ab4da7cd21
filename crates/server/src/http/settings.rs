//! The settings of a table in JSON.

use std::time::Duration;

use jeton_core::units;
use jeton_core::{Durability, Format, Formats, MissingIdPolicy, Mode, TableSettings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::json::JsonInteger;
use super::problem::{ErrorCode, Problem};
use crate::suggestion::nearest;

/// The settings of a table. In a request, a missing member has its default; a response has all of them.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"formats": ["uuid7"], "dated_window": "24h", "expected_ids": 1000000}))]
pub struct SettingsBody {
    /// Accepted formats of ids: uuid7, ulid, sequenced, event, opaque. Default: uuid7.
    formats: Option<Vec<String>>,
    /// Window of dated ids; older ones are rejected. Default: 24h.
    dated_window: Option<String>,
    /// Window of opaque ids, from their arrival. Default: 10m.
    opaque_window: Option<String>,
    /// Maximum time of an id ahead of the clock of the server. Default: 60s.
    skew: Option<String>,
    /// Idle time after which the session of a client with sequenced ids is deleted. Default: 7d.
    session_lease: Option<String>,
    /// exact (default), or probabilistic: with a small probability a new id is reported as known and dropped.
    mode: Option<String>,
    /// For probabilistic: that probability, between 1e-9 and 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<f64>,
    /// strict (default): acknowledged operations survive a crash. relaxed: a crash may lose those
    /// of one relaxed_interval (a setting of the server, 10ms) before the last acknowledgement.
    durability: Option<String>,
    /// Effect of a write without an id: refuse (default), at-most-once, or resp-only: at most once over RESP,
    /// refused over HTTP. The default table is created with resp-only.
    without_id: Option<String>,
    /// Expected number of ids in a window: the initial size of the filter, which grows. Default: 10000.
    expected_ids: Option<JsonInteger>,
    /// Maximum bytes of each filter of the table: a number, or a text such as 64MiB. Default: 1GiB.
    #[schema(value_type = Option<String>)]
    memory_cap: Option<Size>,
}

/// A number of bytes, or a text with a unit.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Size {
    Bytes(u64),
    Text(String),
}

const DURABILITIES: [(&str, Durability); 2] =
    [("strict", Durability::Strict), ("relaxed", Durability::Relaxed)];
const POLICIES: [(&str, MissingIdPolicy); 3] = [
    ("refuse", MissingIdPolicy::Refuse),
    ("at-most-once", MissingIdPolicy::AtMostOnce),
    ("resp-only", MissingIdPolicy::RespOnly),
];

pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Exact => "exact",
        Mode::Probabilistic { .. } => "probabilistic",
    }
}

pub fn durability_name(durability: Durability) -> &'static str {
    name_of(durability, &DURABILITIES)
}

fn name_of<T: PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

fn wrong(setting: &'static str, why: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorCode::BadSettings, format!("{setting}: {why}")).with("setting", setting)
}

/// The value of a word; the default without one.
fn choice<T: Copy>(
    setting: &'static str,
    word: Option<&str>,
    words: &[(&str, T)],
    default: T,
) -> Result<T, Problem> {
    let Some(word) = word else { return Ok(default) };
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
    text.map_or(Ok(default), read)
}

impl SettingsBody {
    /// Parses each setting. The engine checks their combination.
    pub fn settings(self) -> Result<TableSettings, Problem> {
        let default = TableSettings::default();
        let words = Format::ALL.map(|format| (format.name(), format));
        let formats = self.formats.map_or(Ok(default.formats), |names| {
            names.iter().try_fold(Formats::NONE, |all, name| {
                choice("formats", Some(name), &words, Format::Uuid7).map(|format| all.and(format))
            })
        });
        let modes = [("exact", false), ("probabilistic", true)];
        let mode = match (choice("mode", self.mode.as_deref(), &modes, false)?, self.target) {
            (false, None) => Mode::Exact,
            (true, Some(target)) => Mode::Probabilistic { target },
            (true, None) => {
                let why = "a probabilistic table needs it: the probability that a new id is dropped";
                return Err(wrong("target", why));
            }
            (false, Some(_)) => return Err(wrong("target", "it belongs to the mode \"probabilistic\"")),
        };
        let memory_cap = match self.memory_cap {
            None => default.memory_cap,
            Some(Size::Bytes(bytes)) => bytes,
            Some(Size::Text(text)) => {
                units::parse_size(&text).map_err(|why| wrong("memory_cap", format!("{text:?}: {why}")))?
            }
        };
        let expected_ids = self.expected_ids.map_or(Ok(default.expected_ids), |JsonInteger(number)| {
            let beyond = |_| wrong("expected_ids", format!("{number} is not between 1 and 2^40"));
            number.try_into().map_err(beyond)
        });
        Ok(TableSettings {
            formats: formats?,
            dated_window: duration("dated_window", self.dated_window.as_deref(), default.dated_window)?,
            opaque_window: duration("opaque_window", self.opaque_window.as_deref(), default.opaque_window)?,
            skew: duration("skew", self.skew.as_deref(), default.skew)?,
            session_lease: duration("session_lease", self.session_lease.as_deref(), default.session_lease)?,
            mode,
            durability: choice("durability", self.durability.as_deref(), &DURABILITIES, default.durability)?,
            without_id: choice("without_id", self.without_id.as_deref(), &POLICIES, default.without_id)?,
            expected_ids: expected_ids?,
            memory_cap,
        })
    }

    pub fn of(settings: &TableSettings) -> Self {
        let duration = |duration| Some(units::format_duration(duration));
        Self {
            formats: Some(settings.formats.iter().map(|format| format.name().to_owned()).collect()),
            dated_window: duration(settings.dated_window),
            opaque_window: duration(settings.opaque_window),
            skew: duration(settings.skew),
            session_lease: duration(settings.session_lease),
            mode: Some(mode_name(settings.mode).to_owned()),
            target: match settings.mode {
                Mode::Exact => None,
                Mode::Probabilistic { target } => Some(target),
            },
            durability: Some(durability_name(settings.durability).to_owned()),
            without_id: Some(name_of(settings.without_id, &POLICIES).to_owned()),
            // At most 2^40.
            expected_ids: Some(JsonInteger(settings.expected_ids as i64)),
            memory_cap: Some(Size::Text(units::format_size(settings.memory_cap))),
        }
    }
}
