//! `jeton doctor`: checks the machine and the settings for a server.

mod disk;
mod machine;
mod settings;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::cli_error::{CliError, fix_of};
use crate::config::{Config, Flags};
use crate::output;

/// Check this machine and these settings for a server
///
/// Takes the flags of jeton serve. Writes a small file to the data directory to measure the disk, and removes
/// it. The exit code is 1 if a server would not work.
#[derive(Args)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Ok,
    /// Works, with a disadvantage.
    Warn,
    /// A server would not work.
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

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check.
    pub about: &'static str,
    pub level: Level,
    pub found: String,
    /// What to do; may be empty.
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
                vec![Finding::fail("settings", format!("{error:#}"), fix_of(&error).unwrap_or_default())]
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
        self.print(&findings)?;
        let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
        match count(Level::Fail) {
            0 => Ok(()),
            fails => Err(CliError::without_cause(
                format!("{fails} of {} checks failed", findings.len()),
                "follow the fix of each, then run jeton doctor again",
            )),
        }
    }

    fn print(&self, findings: &[Finding]) -> Result<()> {
        if self.json {
            let checks: Vec<Value> = findings
                .iter()
                .map(|finding| {
                    json!({
                        "check": finding.about, "level": finding.level.word(),
                        "found": finding.found, "fix": finding.fix,
                    })
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
