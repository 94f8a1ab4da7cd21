//! `jeton config`: the settings in force and their origins.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::{ALL, Config, Flags, Origin, example};
use crate::output;

/// Print the settings in force and their origins
///
/// The order of precedence is flag, environment variable (JETON_ and the name of the setting), file
/// (--config, or jeton.toml in the working directory), default. With the same flags, jeton serve uses the
/// same settings.
#[derive(Args)]
pub struct ConfigCommand {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print a configuration file with every setting and its description
    #[arg(long, conflicts_with = "json")]
    example: bool,

    #[command(flatten)]
    flags: Flags,
}

impl ConfigCommand {
    pub fn run(&self) -> Result<()> {
        if self.example {
            return output::line(example::text().trim_end());
        }
        let config = Config::load(&self.flags)?;
        if self.json {
            return output::json(&as_json(&config));
        }
        let width = ALL.iter().map(|setting| config.shown(setting.key).len()).max().unwrap_or(0).min(40);
        for setting in ALL {
            let (text, origin) = (config.shown(setting.key), config.origin(setting.key));
            output::line(&format!("{:<18} {text:<width$}  {origin}", setting.key))?;
        }
        Ok(())
    }
}

fn as_json(config: &Config) -> serde_json::Value {
    let entries = ALL.iter().map(|setting| {
        let (source, place) = match config.origin(setting.key) {
            Origin::Flag(flag) => ("flag", json!(format!("--{flag}"))),
            Origin::Environment(variable) => ("environment", json!(variable)),
            Origin::File { path, line } => ("file", json!(format!("{}:{line}", path.display()))),
            Origin::Default => ("default", serde_json::Value::Null),
        };
        let entry = json!({ "value": config.shown(setting.key), "source": source, "place": place });
        (setting.key.to_owned(), entry)
    });
    serde_json::Value::Object(entries.collect())
}
