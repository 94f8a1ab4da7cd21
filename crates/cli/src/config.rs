//! The configuration: every setting once, where its value comes from, and `jeton config`, which tells both.
//!
//! A value comes from the first that has one: a flag, an environment variable, a TOML file, the default. What must hold: a value that cannot
//! be is an error that names where it came from; a key of the file that nobody knows is an error too, because a mistyped key would
//! leave the default in force without a word. Unknown environment variables are none: orchestrators set `JETON_...` of their own.

mod command;
mod example;
mod flags;
mod setting_value;
mod settings;
mod suggestion;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use toml::de::{DeTable, DeValue};

pub use command::ConfigCommand;
pub use flags::Flags;
pub use setting_value::{DurationValue, LogFormat, SettingValue};
pub use settings::{ALL, Setting, Settings};
pub use suggestion::nearest;

use crate::cli_error::CliError;
use crate::transactions::{SECTIONS, TransactionsConfig};

/// Read if it is in the working directory and no other file is named.
const FILE: &str = "jeton.toml";

/// Where a value came from.
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

/// The values in force, and where each came from.
#[derive(Debug)]
pub struct Config {
    pub settings: Settings,
    /// What the file says about transactions.
    pub transactions: Option<TransactionsConfig>,
    /// The text of each value and its origin, by key.
    found: BTreeMap<&'static str, (String, Origin)>,
}

/// Where values are looked for besides the flags. In a test, not the real environment.
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

    fn load_from(flags: &Flags, around: &ConfigSources<'_>) -> Result<Self> {
        let (file, transactions) = read_file(flags, around)?;
        let mut found = BTreeMap::new();
        for setting in ALL {
            let variable = setting.variable();
            let (text, origin) = if let Some(text) = flags.get(setting.key) {
                (text.to_owned(), Origin::Flag(setting.flag()))
            // An empty variable is how scripts unset one.
            } else if let Some(text) = (around.variable)(&variable).filter(|text| !text.is_empty()) {
                (text, Origin::Environment(variable))
            } else if let Some((text, origin)) = file.get(setting.key) {
                (text.clone(), origin.clone())
            } else {
                ((setting.default)(), Origin::Default)
            };
            let text = (setting.normal)(&text).map_err(|why| wrong_value(setting, &text, &why, &origin))?;
            found.insert(setting.key, (text, origin));
        }
        let settings = Settings::read(|key| found[key].0.as_str())
            .map_err(|why| anyhow!("a value that was read cannot be read again: {why}"))?;
        Ok(Self { settings, transactions, found })
    }

    /// Where the value of a setting came from.
    pub fn origin(&self, key: &str) -> &Origin {
        &self.found[key].1
    }

    /// The text of a value.
    pub fn text(&self, key: &str) -> &str {
        &self.found[key].0
    }
}

fn wrong_value(setting: &Setting, text: &str, why: &str, origin: &Origin) -> anyhow::Error {
    let what = format!("{:?} cannot be the value of {} ({origin})", text, setting.key);
    CliError::of(anyhow!("{why}"), what, format!("{}: {}", setting.key, setting.help))
}

type FileValues = BTreeMap<String, (String, Origin)>;

/// What the file says; nothing if there is none.
fn read_file(flags: &Flags, around: &ConfigSources<'_>) -> Result<(FileValues, Option<TransactionsConfig>)> {
    let named = flags.config.clone().or_else(|| (around.variable)("JETON_CONFIG").map(PathBuf::from));
    let path = match &named {
        Some(path) => path.clone(),
        None => PathBuf::from(FILE),
    };
    let text = match std::fs::read_to_string(around.folder.join(&path)) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok((FileValues::new(), None));
        }
        Err(error) => {
            let what = format!("the configuration file {} cannot be read", path.display());
            return Err(CliError::of(
                error,
                what,
                "name another with --config, or make it: jeton config --example",
            ));
        }
    };
    let values = values_of(&text, &path)?;
    let transactions = TransactionsConfig::read(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(&text, span.start));
        let what = format!("{} line {line} cannot be used", path.display());
        CliError::of(
            anyhow!("{}", error.message()),
            what,
            "see how transactions are declared: docs/transactions.md",
        )
    })?;
    Ok((values, transactions))
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

fn values_of(text: &str, path: &Path) -> Result<FileValues> {
    let fail = |line: usize, why: String, fix: String| {
        let what = format!("{} line {line} cannot be used", path.display());
        CliError::of(anyhow!("{why}"), what, fix)
    };
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        fail(line, error.message().to_owned(), "see what is right: jeton config --example".into())
    })?;
    let mut values = FileValues::new();
    for (key, value) in table.get_ref() {
        let (name, line) = (key.get_ref().to_string(), line_of(text, key.span().start));
        if SECTIONS.contains(&name.as_str()) && matches!(value.get_ref(), DeValue::Table(_)) {
            continue;
        }
        if !ALL.iter().any(|setting| setting.key == name) {
            let near = nearest(&name, ALL.iter().map(|setting| setting.key));
            let fix = match near {
                Some(near) => format!("write {near}, if that is meant; all keys: jeton config --example"),
                None => "see which keys there are: jeton config --example".into(),
            };
            return Err(fail(line, format!("there is no setting {name:?}"), fix));
        }
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Integer(number) => number.to_string(),
            _ => {
                let why = format!("the value of {name} is neither a text nor a number nor true or false");
                return Err(fail(
                    line,
                    why,
                    format!("see how it is written: jeton config --example | grep {name}"),
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

    fn told(error: &anyhow::Error) -> String {
        let fix = error.downcast_ref::<CliError>().map(|failure| failure.fix.clone()).unwrap_or_default();
        format!("{error:#} | {fix}")
    }

    #[test]
    fn flags_come_before_variables_before_the_file_before_defaults() {
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
    fn a_mistyped_key_is_an_error_with_its_line_and_the_nearest() {
        let error = load(&[], &[], Some("data = \"d\"\nconections_max = 5\n")).unwrap_err();
        let told = told(&error);
        for words in ["jeton.toml line 2", "\"conections_max\"", "write connections_max"] {
            assert!(told.contains(words), "{words:?} is not in {told}");
        }
    }

    #[test]
    fn a_wrong_value_names_where_it_came_from_and_what_would_be_right() {
        for (flags, variables, file, words) in [
            (&[("resp", "nowhere")][..], &[][..], None, "flag --resp"),
            (&[], &[("JETON_SHARDS", "many")], None, "environment JETON_SHARDS"),
            (&[], &[], Some("\n\nlog_format = \"xml\""), "jeton.toml line 3"),
            (&[], &[], Some("shards = [1]"), "neither a text nor a number"),
            (&[], &[], Some("shards = "), "jeton.toml line 1"),
        ] {
            let told = told(&load(flags, variables, file).unwrap_err());
            assert!(told.contains(words), "{words:?} is not in {told}");
        }
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        let mut flags = Flags::of(&[]);
        flags.config = Some("not-there.toml".into());
        let folder = tempfile::tempdir().unwrap();
        let error = Config::load_from(&flags, &ConfigSources { variable: &|_| None, folder: folder.path() });
        assert!(told(&error.unwrap_err()).contains("not-there.toml"));
    }
}
