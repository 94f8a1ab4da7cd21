//! All settings, each in one place: key, type, default, and what it is for.
//!
//! From the key follow the flag (`--log-level`), the environment variable (`JETON_LOG_LEVEL`) and the key of the file (`log_level`).

use std::path::PathBuf;
use std::sync::OnceLock;

use super::setting_value::{DurationValue, Listen, LogFormat, LogLevel, MaybePath, SettingValue, Size};

/// A setting: what is known of it before anybody chose a value.
pub struct Setting {
    pub key: &'static str,
    /// The heading it stands under.
    pub group: &'static str,
    /// What its value is called in the help.
    pub value: &'static str,
    pub help: &'static str,
    /// Whether its flag means yes without a value.
    pub is_switch: bool,
    /// Whether it is written without quotes in the file.
    pub is_bare: bool,
    pub default: fn() -> String,
    /// The text of a value as it is told, or why it is none.
    pub normal: fn(&str) -> Result<String, String>,
}

impl Setting {
    /// The name of its flag, without the dashes before it.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Its environment variable.
    pub fn variable(&self) -> String {
        format!("JETON_{}", self.key.to_ascii_uppercase())
    }
}

macro_rules! settings {
    ($($group:literal { $($key:ident: $type:ty = $default:expr, $value:literal, $help:literal;)* })*) => {
        /// The values in force.
        #[derive(Debug, Clone)]
        pub struct Settings {
            $($(#[doc = $help] pub $key: $type,)*)*
        }

        /// All settings, in the order in which they are told.
        pub const ALL: &[Setting] = &[$($(Setting {
            key: stringify!($key),
            group: $group,
            value: $value,
            help: $help,
            is_switch: <$type as SettingValue>::IS_SWITCH,
            is_bare: <$type as SettingValue>::IS_BARE,
            default: || $default.to_string(),
            normal: |text| <$type as SettingValue>::read(text).map(|value| value.show()),
        },)*)*];

        impl Settings {
            /// The values of these texts.
            pub fn read<'a>(text: impl Fn(&'static str) -> &'a str) -> Result<Self, String> {
                Ok(Self { $($($key: SettingValue::read(text(stringify!($key)))?,)*)* })
            }
        }
    };
}

settings! {
    "Where" {
        data: PathBuf = "jeton-data", "DIR", "The directory of the data; made if it is not there";
        resp: Listen = "127.0.0.1:6380", "ADDRESS", "Where clients of the Redis protocol come: address:port, or off";
        http: Listen = "127.0.0.1:6381", "ADDRESS", "Where HTTP comes: address:port, or off";
        resp_tls: Listen = "off", "ADDRESS", "Where the Redis protocol comes through TLS: address:port, or off";
        http_tls: Listen = "off", "ADDRESS", "Where HTTPS comes: address:port, or off";
    }
    "Who" {
        tokens: MaybePath = "none", "FILE", "The file of tokens (see jeton token); with none, everybody who can connect may do everything";
        tls_cert: MaybePath = "none", "FILE", "The certificate and its chain, in PEM; read again when it changes";
        tls_key: MaybePath = "none", "FILE", "The private key of the certificate, in PEM";
        insecure: bool = "false", "BOOL", "Listen where other machines can connect although there are no tokens";
        backup_dir: MaybePath = "none", "DIR", "Copies that are asked for over HTTP go below this directory; with none, only callers on this machine may ask for one";
        allow_flush: bool = "false", "BOOL", "Let FLUSHALL and FLUSHDB delete all counters of the default table";
    }
    "Limits" {
        connections_max: usize = service().connections_max, "N", "Connections that may be open, of each protocol";
        request_bytes_max: Size = Size(service().request_bytes_max as u64).show(), "SIZE", "The longest request";
        request_read_timeout: DurationValue = DurationValue(service().request_read_timeout).show(), "TIME", "Timeout for a client to send its first request and to complete a started one";
        request_timeout: DurationValue = DurationValue(service().request_timeout).show(), "TIME", "Timeout of a request in the engine";
    }
    "Engine" {
        default_table: String = &service().default_table, "NAME", "The table of keys that name none";
        shards: usize = engine().shards, "N", "Threads that count; the default is half the processors";
        queue_max: usize = engine().queue_max, "N", "Requests that may wait for a shard before others are told that it is busy";
        cache_bytes: Size = Size(engine().cache_bytes as u64).show(), "SIZE", "Memory for counters that are also on disk";
        dirty_bytes_max: Size = Size(engine().dirty_bytes_max as u64).show(), "SIZE", "Memory for counters that so far only the log has";
        block_cache_bytes: Size = Size(engine().lsm.block_cache_bytes).show(), "SIZE", "Memory for blocks of the store of values";
        recent_ids: usize = engine().recent_ids, "N", "Ids that a shard keeps in memory before it writes them to the index";
        log_bytes: Size = Size(engine().log_bytes).show(), "SIZE", "Bytes of log after which there is a checkpoint; more makes starting slower";
        segment_bytes: Size = Size(engine().segment_bytes.into()).show(), "SIZE", "The length of a file of the log";
        clock_ahead_max: DurationValue = DurationValue(engine().clock_ahead_max).show(), "TIME", "How long a store may have been at rest; a clock further ahead is taken for wrong";
    }
    "Transactions" {
        server_number: usize = "1", "N", "Which of the servers of the section transactions this is, from 1 on";
    }
    "Log" {
        log_level: LogLevel = "info", "LEVEL", "How much is told on standard error: error, warn, info, debug or trace";
        log_format: LogFormat = "text", "FORMAT", "How it is told: text or json";
    }
}

/// The engine's own defaults: stated there, repeated nowhere.
fn engine() -> &'static jeton_engine::Options {
    static OPTIONS: OnceLock<jeton_engine::Options> = OnceLock::new();
    OPTIONS.get_or_init(Default::default)
}

/// The service's own defaults.
fn service() -> &'static jeton_server::Options {
    static OPTIONS: OnceLock<jeton_server::Options> = OnceLock::new();
    OPTIONS.get_or_init(Default::default)
}

impl Settings {
    /// What the engine is opened with.
    pub fn engine_options(&self) -> jeton_engine::Options {
        let mut options = jeton_engine::Options {
            shards: self.shards,
            queue_max: self.queue_max,
            cache_bytes: usize::try_from(self.cache_bytes.0).unwrap_or(usize::MAX),
            dirty_bytes_max: usize::try_from(self.dirty_bytes_max.0).unwrap_or(usize::MAX),
            recent_ids: self.recent_ids,
            log_bytes: self.log_bytes.0,
            segment_bytes: u32::try_from(self.segment_bytes.0).unwrap_or(u32::MAX),
            clock_ahead_max: self.clock_ahead_max.0,
            ..Default::default()
        };
        options.lsm.block_cache_bytes = self.block_cache_bytes.0;
        options
    }

    /// What the service is begun with.
    pub fn service_options(&self) -> jeton_server::Options {
        jeton_server::Options {
            default_table: self.default_table.clone(),
            allow_flush: self.allow_flush,
            connections_max: self.connections_max,
            request_read_timeout: self.request_read_timeout.0,
            request_timeout: self.request_timeout.0,
            request_bytes_max: usize::try_from(self.request_bytes_max.0).unwrap_or(usize::MAX),
            backup_dir: self.backup_dir.0.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_can_be_read_and_is_told_as_it_is_written() {
        for setting in ALL {
            let default = (setting.default)();
            assert_eq!((setting.normal)(&default), Ok(default), "{}", setting.key);
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_engine_and_the_service() {
        let defaults: std::collections::BTreeMap<_, _> =
            ALL.iter().map(|setting| (setting.key, (setting.default)())).collect();
        let settings = Settings::read(|key| defaults[key].as_str()).unwrap();
        assert_eq!(
            format!("{:?}", settings.engine_options()),
            format!("{:?}", jeton_engine::Options::default())
        );
        assert_eq!(
            format!("{:?}", settings.service_options()),
            format!("{:?}", jeton_server::Options::default())
        );
    }
}
