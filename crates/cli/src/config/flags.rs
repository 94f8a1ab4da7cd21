//! The flags of all settings, generated from the list of settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::settings::{ALL, Setting};

/// The settings given as flags.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The configuration file.
    pub config: Option<PathBuf>,
    given: BTreeMap<&'static str, String>,
}

impl Flags {
    /// Flags with these values.
    pub fn of(given: &[(&'static str, &str)]) -> Self {
        let given = given.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
        Self { config: None, given }
    }

    /// With this configuration file.
    pub fn with_config(self, config: Option<PathBuf>) -> Self {
        Self { config, ..self }
    }

    /// The value of a flag.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.given.get(key).map(String::as_str)
    }
}

fn argument(setting: &Setting) -> Arg {
    let argument = Arg::new(setting.key)
        .long(setting.flag())
        .value_name(setting.value)
        .help(format!("{} [default: {}] [env: {}]", setting.help, (setting.default)(), setting.variable()))
        .help_heading(setting.group);
    if setting.is_switch {
        // --insecure means true; --insecure=false overrides the file.
        argument.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Configuration file [default: jeton.toml, if it exists] [env: JETON_CONFIG]");
        ALL.iter().fold(command.arg(config), |command, setting| command.arg(argument(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = ALL.iter().filter_map(|setting| {
            let text = matches.get_one::<String>(setting.key)?;
            Some((setting.key, text.clone()))
        });
        Ok(Self { config: matches.get_one::<PathBuf>("config").cloned(), given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
