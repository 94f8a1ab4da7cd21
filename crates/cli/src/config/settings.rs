//! All settings: key, type, default and description.
//!
//! The key determines the flag (`--log-level`), the environment variable (`JETON_LOG_LEVEL`) and the key in
//! the file (`log_level`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;

use jeton_server::node::ClusterSettings;

use super::setting_value::{
    DurationValue, Listen, LogFormat, LogLevel, MaybePath, MaybeText, Names, SettingValue, Size,
};

/// The declaration of a setting.
pub struct Setting {
    pub key: &'static str,
    /// Heading in the help.
    pub group: &'static str,
    /// Name of the value in the help.
    pub value: &'static str,
    pub help: &'static str,
    /// Whether the flag without a value means true.
    pub is_switch: bool,
    /// Whether TOML needs no quotes.
    pub is_bare: bool,
    pub default: fn() -> String,
    /// Normalises the text of a value, or returns why it is invalid.
    pub normal: fn(&str) -> Result<String, String>,
}

impl Setting {
    /// Name of the flag, without dashes.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Name of the environment variable.
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

        /// All settings, in the order of the help.
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
            /// Parses the values.
            pub fn read<'a>(text: impl Fn(&'static str) -> &'a str) -> Result<Self, String> {
                Ok(Self { $($($key: SettingValue::read(text(stringify!($key)))?,)*)* })
            }
        }
    };
}

settings! {
    "Addresses" {
        data: PathBuf = "jeton-data", "DIR", "Data directory; created if it does not exist";
        resp: Listen = "127.0.0.1:6380", "ADDRESS", "Address of the Redis protocol: address:port, or off";
        http: Listen = "127.0.0.1:6381", "ADDRESS", "Address of HTTP: address:port, or off";
        resp_tls: Listen = "off", "ADDRESS", "Address of the Redis protocol over TLS: address:port, or off";
        http_tls: Listen = "off", "ADDRESS", "Address of HTTPS: address:port, or off";
    }
    "Access" {
        tokens: MaybePath = "none", "FILE",
            "Token file (see jeton token); with none, every client has all rights";
        tls_cert: MaybePath = "none", "FILE", "Certificate chain in PEM; reloaded when it changes";
        tls_key: MaybePath = "none", "FILE", "Private key of the certificate in PEM";
        http_hosts: Names = "none", "NAMES",
            "Names for HTTP besides IP addresses, localhost and the host name: name or name:port, separated by commas";
        insecure: bool = "false", "BOOL", "Listen on non-loopback addresses without tokens";
        backup_dir: MaybePath = "none", "DIR",
            "Directory below which backups of a running server are made; with none, it makes none";
        allow_flush: bool = "false", "BOOL",
            "Allow FLUSHALL and FLUSHDB to delete all counters of the default table";
    }
    "Limits" {
        connections_max: usize = service().connections_max, "N",
            "Maximum number of open connections per protocol";
        request_bytes_max: Size = Size(service().request_bytes_max as u64).show(), "SIZE",
            "Maximum size of a request";
        client_memory_max: Size = Size(service().client_memory_max as u64).show(), "SIZE",
            "Memory of all connections: requests, replies, queued commands; the default is a quarter of the machine or cgroup";
        request_read_timeout: DurationValue = DurationValue(service().request_read_timeout).show(), "TIME",
            "Time limit to receive a request";
        request_timeout: DurationValue = DurationValue(service().request_timeout).show(), "TIME",
            "Time limit to execute a request";
    }
    "Engine" {
        default_table: String = &service().default_table, "NAME", "Table of keys without a table name";
        shards: usize = engine().shards, "N", "Number of shards; the default is half the processors";
        memory_max: Size = Size(engine().memory_max as u64).show(), "SIZE",
            "Memory for the filters of all tables; half of the memory of the machine or cgroup beyond 192 MiB";
        queue_max: usize = engine().queue_max, "N",
            "Queue length of a shard; further requests are rejected as busy";
        cache_bytes: Size = Size(engine().cache_bytes as u64).show(), "SIZE",
            "Memory for clean cached counters";
        dirty_bytes_max: Size = Size(engine().dirty_bytes_max as u64).show(), "SIZE",
            "Memory for counters that are not checkpointed yet";
        block_cache_bytes: Size = Size(engine().lsm.block_cache_bytes).show(), "SIZE",
            "Memory for the block cache of values";
        recent_ids: usize = engine().recent_ids, "N", "Ids in the memtable of a shard";
        log_bytes: Size = Size(engine().log_bytes).show(), "SIZE",
            "Log size that triggers a checkpoint; a larger log makes recovery slower";
        segment_bytes: Size = Size(engine().segment_bytes.into()).show(), "SIZE", "Size of a log segment";
        clock_ahead_max: DurationValue = DurationValue(engine().clock_ahead_max).show(), "TIME",
            "Maximum time since the last use of the store; a clock further ahead is rejected as wrong";
        relaxed_interval: DurationValue = DurationValue(engine().relaxed_interval).show(), "TIME",
            "How far acknowledgements of relaxed tables run ahead of the disk; a crash loses at most these";
    }
    "Cluster" {
        cluster: MaybeText = "none", "URL",
            "PostgreSQL of a cluster, whose node this server becomes; the data directory is then a cache";
        cluster_peers: SocketAddr = "127.0.0.1:6382", "ADDRESS", "Address for other nodes of the cluster";
        cluster_host: MaybeText = "none", "HOST",
            "Host under which clients and other nodes reach this node; the default is that of the addresses";
        cluster_stripes: usize = "32", "N", "Number of stripes of a new cluster, which does not change";
        cluster_tls_ca: MaybePath = "none", "FILE",
            "Certificate authority of the nodes in PEM, for encrypted connections between them";
        cluster_tls_cert: MaybePath = "none", "FILE", "Certificate of this node in PEM, which names its host";
        cluster_tls_key: MaybePath = "none", "FILE", "Private key of that certificate in PEM";
    }
    "Transactions" {
        server_number: usize = "1", "N", "Number of this server in the transaction cluster, from 1";
    }
    "Log" {
        log_level: LogLevel = "info", "LEVEL",
            "Log level on standard error: error, warn, info, debug or trace";
        log_format: LogFormat = "text", "FORMAT", "Log format: text or json";
    }
}

/// Defaults of the engine.
fn engine() -> &'static jeton_engine::Options {
    static OPTIONS: OnceLock<jeton_engine::Options> = OnceLock::new();
    OPTIONS.get_or_init(Default::default)
}

/// Defaults of the service.
fn service() -> &'static jeton_server::Options {
    static OPTIONS: OnceLock<jeton_server::Options> = OnceLock::new();
    OPTIONS.get_or_init(Default::default)
}

impl Settings {
    /// Options of the engine.
    pub fn engine_options(&self) -> jeton_engine::Options {
        let mut options = jeton_engine::Options {
            shards: self.shards,
            memory_max: usize::try_from(self.memory_max.0).unwrap_or(usize::MAX),
            queue_max: self.queue_max,
            cache_bytes: usize::try_from(self.cache_bytes.0).unwrap_or(usize::MAX),
            dirty_bytes_max: usize::try_from(self.dirty_bytes_max.0).unwrap_or(usize::MAX),
            recent_ids: self.recent_ids,
            log_bytes: self.log_bytes.0,
            segment_bytes: u32::try_from(self.segment_bytes.0).unwrap_or(u32::MAX),
            clock_ahead_max: self.clock_ahead_max.0,
            relaxed_interval: self.relaxed_interval.0,
            ..Default::default()
        };
        options.lsm.block_cache_bytes = self.block_cache_bytes.0;
        options
    }

    /// The cluster, if the server is a node of one.
    pub fn cluster(&self) -> Option<ClusterSettings> {
        Some(ClusterSettings {
            url: self.cluster.0.clone()?,
            peers: self.cluster_peers,
            host: self.cluster_host.0.clone(),
            stripes: u16::try_from(self.cluster_stripes).unwrap_or(u16::MAX),
            tls: [&self.cluster_tls_ca, &self.cluster_tls_cert, &self.cluster_tls_key]
                .map(|file| file.0.clone()),
        })
    }

    /// Options of the service.
    pub fn service_options(&self) -> jeton_server::Options {
        jeton_server::Options {
            default_table: self.default_table.clone(),
            allow_flush: self.allow_flush,
            connections_max: self.connections_max,
            request_read_timeout: self.request_read_timeout.0,
            request_timeout: self.request_timeout.0,
            request_bytes_max: usize::try_from(self.request_bytes_max.0).unwrap_or(usize::MAX),
            http_hosts: self.http_hosts.0.clone(),
            client_memory_max: usize::try_from(self.client_memory_max.0).unwrap_or(usize::MAX),
            backup_dir: self.backup_dir.0.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_normalised() {
        for setting in ALL {
            let default = (setting.default)();
            assert_eq!((setting.normal)(&default), Ok(default), "{}", setting.key);
        }
    }

    #[test]
    fn defaults_match_engine_and_service() {
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
