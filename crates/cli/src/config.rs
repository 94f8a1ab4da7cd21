//! The configuration: every setting once, the origin of its value, and `jeton config`, which prints both.
//!
//! The order of precedence is flag, environment variable, TOML file, default. An invalid value is an error
//! that names its origin. An unknown key in the file is an error too, because a mistyped key would silently
//! leave the default in force. Unknown environment variables are ignored: orchestrators set `JETON_...` of
//! their own.

mod command;
mod example;
mod flags;
mod setting_value;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use jeton_server::nearest;
use jeton_server::node::{ClusterSettings, ListenProtocol, NodeConfig, TransactionsConfig};
use toml::de::{DeTable, DeValue};

pub use command::ConfigCommand;
pub use flags::Flags;
pub use setting_value::{DurationValue, LogFormat, SettingValue};
pub use settings::{ALL, Setting, Settings};

use crate::cli_error::CliError;

/// The file in the working directory that is read if --config names no other.
const FILE: &str = "jeton.toml";

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Flag(String),
    Environment(String),
    File { path: PathBuf, line: usize },
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "flag --{flag}"),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::File { path, line } => write!(f, "{} line {line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The values in force and their origins.
#[derive(Debug)]
pub struct Config {
    pub settings: Settings,
    /// The cluster, if the server is a node of one.
    pub cluster: Option<ClusterSettings>,
    /// The sections about transactions, if the file has databases.
    pub transactions: Option<TransactionsConfig>,
    /// The text of each value and its origin, by key.
    found: BTreeMap<&'static str, (String, Origin)>,
}

/// Sources of values besides the flags. Tests replace the environment.
pub struct ConfigSources<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    pub folder: &'a Path,
}

impl Config {
    /// The configuration of this process.
    pub fn load(flags: &Flags) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        Self::load_from(flags, &ConfigSources { variable: &variable, folder: Path::new("") })
    }

    fn load_from(flags: &Flags, sources: &ConfigSources<'_>) -> Result<Self> {
        let (file, transactions) = read_file(flags, sources)?;
        let mut found = BTreeMap::new();
        for setting in ALL {
            let variable = setting.variable();
            let (text, origin) = if let Some(text) = flags.get(setting.key) {
                (text.to_owned(), Origin::Flag(setting.flag()))
            // Scripts unset a variable by setting it to nothing.
            } else if let Some(text) = (sources.variable)(&variable).filter(|text| !text.is_empty()) {
                (text, Origin::Environment(variable))
            } else if let Some((text, origin)) = file.get(setting.key) {
                (text.clone(), origin.clone())
            } else {
                ((setting.default)(), Origin::Default)
            };
            let text =
                (setting.normal)(&text).map_err(|reason| invalid_value(setting, &text, &reason, &origin))?;
            found.insert(setting.key, (text, origin));
        }
        let settings = Settings::read(|key| found[key].0.as_str())
            .map_err(|reason| anyhow!("a value was parsed once and is now invalid: {reason}"))?;
        let cluster = settings.cluster();
        Ok(Self { settings, cluster, transactions, found })
    }

    /// The origin of a value.
    pub fn origin(&self, key: &str) -> &Origin {
        &self.found[key].1
    }

    /// The configuration of a server with these settings.
    pub fn node_config(&self) -> NodeConfig {
        let settings = &self.settings;
        let listen = [
            (ListenProtocol::Resp, settings.resp.0),
            (ListenProtocol::Http, settings.http.0),
            (ListenProtocol::RespTls, settings.resp_tls.0),
            (ListenProtocol::HttpTls, settings.http_tls.0),
        ];
        NodeConfig {
            data: settings.data.clone(),
            listen: listen.into_iter().filter_map(|(protocol, address)| Some((protocol, address?))).collect(),
            tokens: settings.tokens.0.clone(),
            tls_cert: settings.tls_cert.0.clone(),
            tls_key: settings.tls_key.0.clone(),
            insecure: settings.insecure,
            engine: settings.engine_options(),
            service: settings.service_options(),
            server_number: u16::try_from(settings.server_number).unwrap_or(u16::MAX),
            transactions: self.transactions.clone(),
            cluster: self.cluster.clone(),
        }
    }

    /// The text of a value, without a password.
    pub fn shown(&self, key: &str) -> String {
        let text = self.text(key);
        // postgres://user:password@host
        let password = || {
            let (start, rest) = text.split_once("://")?;
            let (user, password) = rest.split_once('@')?.0.split_once(':')?;
            let end = &rest[user.len() + 1 + password.len()..];
            Some(format!("{start}://{user}:***{end}"))
        };
        if key == CLUSTER { password().unwrap_or_else(|| text.to_owned()) } else { text.to_owned() }
    }

    /// The text of a value.
    pub fn text(&self, key: &str) -> &str {
        &self.found[key].0
    }
}

fn invalid_value(setting: &Setting, text: &str, reason: &str, origin: &Origin) -> anyhow::Error {
    let what = format!("{:?} is not a valid value of {} ({origin})", text, setting.key);
    CliError::of(anyhow!("{reason}"), what, format!("{}: {}", setting.key, setting.help))
}

type FileValues = BTreeMap<String, (String, Origin)>;

/// The values of the file, and its sections about transactions.
fn read_file(flags: &Flags, sources: &ConfigSources<'_>) -> Result<(FileValues, Option<TransactionsConfig>)> {
    let named = flags.config.clone().or_else(|| (sources.variable)("JETON_CONFIG").map(PathBuf::from));
    let path = match &named {
        Some(path) => path.clone(),
        None => PathBuf::from(FILE),
    };
    let text = match std::fs::read_to_string(sources.folder.join(&path)) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok((FileValues::new(), None));
        }
        Err(error) => {
            let what = format!("the configuration file {} cannot be read", path.display());
            return Err(CliError::of(
                error,
                what,
                "name another with --config, or create it: jeton config --example",
            ));
        }
    };
    let values = values_of(&text, &path)?;
    let transactions: TransactionsConfig = toml::from_str(&text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| line_of(&text, span.start));
        let what = format!("{} line {line} is invalid", path.display());
        CliError::of(anyhow!("{}", error.message()), what, "see docs/transactions.md")
    })?;
    Ok((values, (!transactions.databases.is_empty()).then_some(transactions)))
}

/// Keys of `[transactions]` under their old and new names.
const RENAMED: [(&str, &str); 4] = [
    ("works_max", "max_in_flight"),
    ("compute_max", "procedure_timeout"),
    ("sweep_every", "recovery_interval"),
    ("suspect_after", "failure_timeout"),
];

/// The line of a key that was renamed in a section, and what its new name is.
fn renamed_key(text: &str, section: &str, table: &DeTable<'_>) -> Option<(usize, String)> {
    let find = |table: &DeTable<'_>, old: &str, new: &str| {
        let (key, _) = table.iter().find(|(key, _)| key.get_ref().as_ref() == old)?;
        Some((line_of(text, key.span().start), format!("{old} was renamed: write {new}")))
    };
    match section {
        "transactions" => RENAMED.iter().find_map(|(old, new)| find(table, old, new)),
        "procedures" => table.values().find_map(|procedure| match procedure.get_ref() {
            DeValue::Table(procedure) => find(procedure, "decided_in", "decision_store"),
            _ => None,
        }),
        _ => None,
    }
}

/// The section of the settings whose names begin with `cluster`.
const CLUSTER: &str = "cluster";

/// The setting of a key in that section.
fn cluster_setting(key: &str) -> String {
    if key == "url" { CLUSTER.into() } else { format!("{CLUSTER}_{key}") }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

fn values_of(text: &str, path: &Path) -> Result<FileValues> {
    let fail = |line: usize, reason: String, fix: String| {
        let what = format!("{} line {line} is invalid", path.display());
        CliError::of(anyhow!("{reason}"), what, fix)
    };
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        fail(line, error.message().to_owned(), "see an example: jeton config --example".into())
    })?;
    let mut values = FileValues::new();
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        let (name, line) = (key.get_ref().to_string(), line_of(text, key.span().start));
        if let (CLUSTER, DeValue::Table(section)) = (name.as_str(), value.get_ref()) {
            entries.extend(section.iter().map(|(key, value)| {
                let line = line_of(text, key.span().start);
                (cluster_setting(key.get_ref()), line, value.get_ref())
            }));
            continue;
        }
        if TransactionsConfig::SECTIONS.contains(&name.as_str())
            && let DeValue::Table(section) = value.get_ref()
        {
            if let Some((line, reason)) = renamed_key(text, &name, section) {
                return Err(fail(line, reason, "see docs/transactions.md".into()));
            }
            continue;
        }
        entries.push((name, line, value.get_ref()));
    }
    for (name, line, value) in entries {
        if !ALL.iter().any(|setting| setting.key == name) {
            let near = nearest(&name, ALL.iter().map(|setting| setting.key));
            let fix = match near {
                Some(near) => format!("did you mean {near}? All keys: jeton config --example"),
                None => "list all keys: jeton config --example".into(),
            };
            return Err(fail(line, format!("there is no setting {name:?}"), fix));
        }
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Integer(number) => number.to_string(),
            _ => {
                let reason = format!("the value of {name} is not a string, a number or a boolean");
                return Err(fail(
                    line,
                    reason,
                    format!("see its format: jeton config --example | grep {name}"),
                ));
            }
        };
        values.insert(name, (text, Origin::File { path: path.to_owned(), line }));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::setting_value::Size;
    use super::*;
    use crate::cli_error::fix_of;

    fn load(
        flags: &[(&'static str, &str)],
        variables: &[(&str, &str)],
        file: Option<&str>,
    ) -> Result<Config> {
        let folder = tempfile::tempdir().unwrap();
        if let Some(text) = file {
            std::fs::write(folder.path().join(FILE), text).unwrap();
        }
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Config::load_from(&Flags::of(flags), &ConfigSources { variable: &variable, folder: folder.path() })
    }

    fn report(error: &anyhow::Error) -> String {
        format!("{error:#} | {}", fix_of(error).unwrap_or_default())
    }

    #[test]
    fn precedence_is_flag_variable_file_default() {
        let file = Some("data = \"of-file\"\nshards = 3\nallow_flush = true\n\ncache_bytes = \"2 MiB\"\n");
        let variables = [("JETON_DATA", "of-variable"), ("JETON_SHARDS", "2"), ("JETON_HTTP", "")];
        let config = load(&[("data", "of-flag")], &variables, file).unwrap();
        assert_eq!(config.settings.data, Path::new("of-flag"));
        assert_eq!(*config.origin("data"), Origin::Flag("data".into()));
        assert_eq!(config.settings.shards, 2);
        assert_eq!(*config.origin("shards"), Origin::Environment("JETON_SHARDS".into()));
        assert!(config.settings.allow_flush);
        assert_eq!(config.settings.cache_bytes, Size(2 << 20));
        assert_eq!(*config.origin("cache_bytes"), Origin::File { path: FILE.into(), line: 5 });
        assert_eq!(*config.origin("http"), Origin::Default);
        assert_eq!(config.settings.http.0, Some("127.0.0.1:6381".parse().unwrap()));
    }

    #[test]
    fn a_mistyped_key_is_an_error_with_line_and_suggestion() {
        let error = load(&[], &[], Some("data = \"d\"\nconections_max = 5\n")).unwrap_err();
        let text = report(&error);
        for words in ["jeton.toml line 2", "\"conections_max\"", "did you mean connections_max?"] {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
    }

    #[test]
    fn an_invalid_value_names_its_origin() {
        for (flags, variables, file, words) in [
            (&[("resp", "nowhere")][..], &[][..], None, "flag --resp"),
            (&[], &[("JETON_SHARDS", "many")], None, "environment JETON_SHARDS"),
            (&[], &[], Some("\n\nlog_format = \"xml\""), "jeton.toml line 3"),
            (&[], &[], Some("shards = [1]"), "not a string, a number or a boolean"),
            (&[], &[], Some("shards = "), "jeton.toml line 1"),
        ] {
            let text = report(&load(flags, variables, file).unwrap_err());
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
    }

    #[test]
    fn the_cluster_has_a_section() {
        let file = "[cluster]\nurl = \"postgres://u:pass@h/d\"\npeers = \"10.0.0.2:7\"\nstripes = 8\n";
        let config = load(&[], &[], Some(file)).unwrap();
        let cluster = config.cluster.as_ref().unwrap();
        assert_eq!((cluster.url.as_str(), cluster.stripes), ("postgres://u:pass@h/d", 8));
        assert_eq!(cluster.peers, "10.0.0.2:7".parse().unwrap());
        assert_eq!(*config.origin("cluster_peers"), Origin::File { path: FILE.into(), line: 3 });
        assert_eq!(config.shown("cluster"), "postgres://u:***@h/d");
        assert!(load(&[], &[], None).unwrap().cluster.is_none());
        let error = load(&[], &[], Some("[cluster]\n\nport = 7\n")).unwrap_err();
        assert!(report(&error).contains("line 3"), "{error:#}");
    }

    #[test]
    fn an_old_key_names_the_new_one() {
        let mut files: Vec<(String, &str)> =
            RENAMED.iter().map(|(old, new)| (format!("\n[transactions]\n{old} = \"1s\"\n"), *new)).collect();
        files.push(("[procedures.p]\nsteps = []\ndecided_in = \"d\"\n".into(), "decision_store"));
        for (file, new) in files {
            let text = report(&load(&[], &[], Some(&file)).unwrap_err());
            for words in ["jeton.toml line 3", &format!("was renamed: write {new}")] {
                assert!(text.contains(words), "{words:?} is not in {text}");
            }
        }
    }

    #[test]
    fn a_named_file_must_exist() {
        let mut flags = Flags::of(&[]);
        flags.config = Some("not-there.toml".into());
        let folder = tempfile::tempdir().unwrap();
        let error = Config::load_from(&flags, &ConfigSources { variable: &|_| None, folder: folder.path() });
        assert!(report(&error.unwrap_err()).contains("not-there.toml"));
    }
}
