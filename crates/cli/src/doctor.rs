//! `jeton doctor`: looks at everything that a server will need, and says what to fix.

mod disk;
mod machine;
mod settings;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::cli_error::CliError;
use crate::config::{Config, Flags};
use crate::output;

/// See whether this machine and these settings are good for a server, and what to fix
///
/// Takes the flags of jeton serve. Writes a small file where the data is, to see how fast the disk is, and removes it. The exit code is 1 if
/// something would keep the server from working.
#[derive(Args)]
pub struct Doctor {
    /// Tell it as JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    flags: Flags,
}

/// How good or bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Ok,
    /// It works, and could be better.
    Warn,
    /// It will not work.
    Fail,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What was found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub about: &'static str,
    pub level: Level,
    pub found: String,
    /// What to do; empty if nothing is.
    pub fix: String,
}

impl Finding {
    pub fn ok(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, level: Level::Ok, found: found.into(), fix: String::new() }
    }

    pub fn warn(about: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { about, level: Level::Warn, found: found.into(), fix: fix.into() }
    }

    pub fn fail(about: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { about, level: Level::Fail, found: found.into(), fix: fix.into() }
    }
}

impl Doctor {
    pub fn run(&self) -> Result<()> {
        let findings = match Config::load(&self.flags) {
            Err(error) => {
                let fix =
                    error.downcast_ref::<CliError>().map_or(String::new(), |failure| failure.fix.clone());
                vec![Finding::fail("settings", format!("{error:#}"), fix)]
            }
            Ok(config) => {
                let settings = &config.settings;
                let mut findings = vec![settings::engine(settings)];
                findings.extend(disk::findings(settings));
                findings.extend(settings::findings(settings));
                findings.extend(machine::findings(settings));
                findings
            }
        };
        self.tell(&findings)?;
        let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
        match count(Level::Fail) {
            0 => Ok(()),
            fails => Err(CliError {
                what: format!("{fails} of {} checks failed", findings.len()),
                fix: "do what is written beside each, then run jeton doctor again".into(),
            }
            .into()),
        }
    }

    fn tell(&self, findings: &[Finding]) -> Result<()> {
        if self.json {
            let checks: Vec<Value> = findings
                .iter()
                .map(|finding| {
                    json!({ "check": finding.about, "level": finding.level.word(), "found": finding.found, "fix": finding.fix })
                })
                .collect();
            return output::json(&json!({ "checks": checks }));
        }
        for finding in findings {
            output::line(&format!("{:<5} {:<12} {}", finding.level.word(), finding.about, finding.found))?;
            if !finding.fix.is_empty() {
                output::line(&format!("{:<18} fix: {}", "", finding.fix))?;
            }
        }
        Ok(())
    }
}
